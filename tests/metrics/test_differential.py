"""Posteriors against reference differentials, by hand and against scipy."""

import json

import numpy as np
import pytest
from scipy.stats import entropy, spearmanr

from simdx.metrics import compare_differentials, mean_values, spread
from simdx.metrics.means import cross_entropy, rank_correlation, top_recall, total_variation
from simdx.metrics.resampling import RankCorrelation, count_chunks


@pytest.fixture
def pairs(rng):
    return rng.dirichlet(np.full(6, 0.5), size=40), rng.dirichlet(np.full(6, 0.5), size=40)


def test_by_hand():
    p = np.array([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]])
    r = np.array([[0.5, 0.5, 0.0, 0.0], [0.7, 0.2, 0.1, 0.0]])
    np.testing.assert_allclose(total_variation(p, r), [0.25, 0.6])
    first = 0.5 * np.log(2) + 0.5 * np.log(4)
    second = -(0.7 * np.log(0.1) + 0.2 * np.log(0.2) + 0.1 * np.log(0.3))
    np.testing.assert_allclose(cross_entropy(p, r), [first, second])
    # the first reference has two labels only; of the second's three the posterior's top three has two
    np.testing.assert_allclose(top_recall(p, r), [1, 2 / 3])
    np.testing.assert_allclose(rank_correlation(p, r)[1], -1)
    # a probability of nothing costs a finite amount
    assert cross_entropy(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) == pytest.approx(-np.log(1e-6))


def test_against_scipy(pairs):
    p, r = pairs
    r[:, 3] = 0  # a tie where the reference names nothing
    r[:20, 4] = 0
    r /= r.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        rank_correlation(p, r), [spearmanr(a, b)[0] for a, b in zip(p, r, strict=True)]
    )
    excess = [entropy(b, a) for a, b in zip(p, r, strict=True)]  # Kullback–Leibler
    there = p.min(axis=1) > 1e-6  # below it a probability is floored
    assert there.sum() > 20
    np.testing.assert_allclose((cross_entropy(p, r) - cross_entropy(r, r))[there], np.array(excess)[there])


def test_no_order_no_correlation():
    found = compare_differentials([[0.25] * 4], [[0.7, 0.1, 0.1, 0.1]], [0.0], rng=np.random.default_rng(0))
    assert (found["rank_correlation"], found["undefined"]["rank_correlation"]) == (None, "no case defines it")
    assert found["total_variation"] == pytest.approx(0.45)


def test_mass_outside_the_panel_is_apart(rng):
    p = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.25] * 4])
    reference = np.array([[0.3, 0.1, 0.05, 0.05], [0.0, 0.9, 0.0, 0.0], [0.0] * 4])
    outside = np.array([0.5, 0.1, 1.0])
    found = compare_differentials(p, reference, outside, [0.2, 0.1, 0.9], resamples=200, rng=rng)
    assert (found["n"], found["n_naming_no_label"]) == (2, 1)  # the last reference names no label
    assert found["total_variation"] == pytest.approx((0 + 0.4) / 2)
    assert found["reference_entropy"] == pytest.approx(entropy([0.6, 0.2, 0.1, 0.1]) / 2)
    assert (found["outside"]["n"], found["outside"]["reference_mass"]) == (3, pytest.approx(1.6 / 3))
    assert found["outside"]["none_of_these"] == pytest.approx(0.4)
    assert found["outside"]["rank_correlation"] == pytest.approx(1)
    json.dumps(found, allow_nan=False)


def test_what_cannot_be_said_is_none_with_a_reason(rng):
    p = np.array([[0.6, 0.3, 0.1]] * 4)
    three = compare_differentials(p, p, np.zeros(4), resamples=100, rng=rng)
    assert three["top3_recall"] is None
    assert three["undefined"]["top3_recall"] == "the panel has three labels or fewer"
    assert three["outside"]["rank_correlation"] is None
    assert "none of these" in three["outside"]["undefined"]["rank_correlation"]
    nothing = compare_differentials(p, np.zeros((4, 3)), np.ones(4), np.ones(4), resamples=100, rng=rng)
    assert (nothing["n"], nothing["total_variation"], nothing["ci"]["total_variation"]) == (0, None, None)
    assert nothing["outside"]["rank_correlation"] is None
    assert nothing["outside"]["undefined"]
    json.dumps([three, nothing], allow_nan=False)


def test_rank_correlation_of_resamples_is_scipys(rng):
    a, b = rng.integers(0, 6, 30).astype(float), rng.normal(size=30)
    statistic = RankCorrelation(a, b)
    for counts in count_chunks(30, 20, rng):
        for row, value in zip(counts, statistic(counts)[:, 0], strict=True):
            drawn = np.repeat(np.arange(30), row.astype(int))
            assert value == pytest.approx(spearmanr(a[drawn], b[drawn])[0])
    assert np.isnan(RankCorrelation(np.ones(30), b)(np.ones((1, 30)))).all()


def test_weighted_means(rng):
    found = mean_values({"x": [1, 2, 6], "y": [np.nan, 0, 1]}, weights=[1, 1, 2], resamples=100, rng=rng)
    assert found.values == {"x": pytest.approx(15 / 4), "y": pytest.approx(2 / 3)}
    assert found.undefined["y"] == "cases left out: 1"
    assert 1 <= found.ci["x"][0] < found.ci["x"][1] <= 6
    assert mean_values({"x": [1.0]}).ci == {"x": None}


def test_spread(rng):
    x = rng.normal(size=101)
    found, ordered = spread(x), np.sort(x)
    assert found["median"] == pytest.approx(ordered[50])
    assert found["iqr"] == pytest.approx(ordered[75] - ordered[25])
    assert spread([])["median"] is None
    assert spread([])["reason"]
