"""The alarm: its score, its test, and that it hears what one view alone cannot."""

import numpy as np
import pytest

from simdx.abc.multinomial import multinomial
from simdx.abc.space import Space
from simdx.classifier import Classifier
from simdx.decide.alarm import (
    FLOOR,
    Alarm,
    Null,
    View,
    alarm_performance,
    banded_nulls,
    build_views,
    disagreement,
    fit_alarm,
    soft_posterior,
    word_basis,
)
from simdx.methods import Observations
from simdx.types import Bank, EmbeddedBank


@pytest.mark.parametrize(
    ("views", "claimed", "prior", "score"),
    [
        # geometric mean: label 0 and 1 tie, label 2 far below
        ([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], 0, [1 / 3] * 3, 0.0),
        ([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], 2, [1 / 3] * 3, np.log(np.sqrt(0.08) / 0.1)),
        # an impossible label cannot contradict
        ([[0.0, 1.0, 0.0]], 0, [0.5, 0.0, 0.5], 0.0),
        ([[0.0, 1.0, 0.0]], 0, [1.0, 0.0, 0.0], np.log(FLOOR)),
    ],
)
def test_the_score_is_the_pooled_log_odds_against_the_claim(
    views: list[list[float]], claimed: int, prior: list[float], score: float
) -> None:
    found = disagreement(np.array(views)[:, None], np.array([claimed]), np.array(prior))
    assert found == pytest.approx([score])


def test_a_null_keeps_its_false_alarm_rate_and_its_p_values_are_uniform() -> None:
    """Conformal quantile: expected exceedance is at most .1; 400 repeats give a standard error of .0015."""
    rng = np.random.default_rng(3)
    rates = [(rng.normal(size=100) > Null.of(rng.normal(size=99)).threshold).mean() for _ in range(400)]
    assert abs(np.mean(rates) - 0.1) < 4 * np.std(rates) / 20
    null = Null.of(rng.normal(size=5000))
    p = np.sort(null.p_value(rng.normal(size=5000)))
    # Kolmogorov-Smirnov distance of two samples of 5000 each: .027 at the 5 % level, .039 at 1 in 1000
    assert np.abs(p - np.linspace(0, 1, 5000)).max() < 0.039
    assert null.p_value(np.array([100.0]))[0] == pytest.approx(1 / 5001)


def test_a_view_is_the_soft_kernel_of_the_engine(toy_bank: Bank) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(toy_bank.texts), 8)).astype(np.float32)
    z = rng.normal(size=(5, 8)).astype(np.float32)
    prior = np.array([0.2, 0.5, 0.3])
    view, _ = build_views([toy_bank], [vectors], {"e": slice(0, 8)}, {"e on toy": 0.07})
    space = Space.fit(EmbeddedBank(vectors, toy_bank.label_index, 3, (8,)), centre=True)
    want = multinomial(space.bank, space.label_index, 3, space.transform(z), prior, bandwidth=0.07)
    got = view.posterior(Observations(("a",) * 5, z), prior)
    assert np.allclose(got, want.probabilities, atol=1e-5)


def test_leaving_out_is_a_bank_without_the_row() -> None:
    cosine = np.array([[1.0, 0.2, 0.1, 0.3]])
    labels = np.array([0, 0, 1, 1])
    prior = np.array([0.5, 0.5])
    own = np.array([[True, False, False, False]])
    got = soft_posterior(cosine, labels, prior, 0.1, own)
    want = soft_posterior(cosine[:, 1:], labels[1:], prior, 0.1)
    assert np.allclose(got, want)


def test_words_make_centred_tfidf_cosines() -> None:
    texts = ["red apple pie", "red river water", "apple apple water", "water red red"]
    space = word_basis(texts)
    vocabulary = ["apple", "red", "water"]  # words of at least two texts
    held = np.array([2, 3, 3])
    idf = np.log(5 / (1 + held)) + 1
    counts = np.array([[t.split().count(w) for w in vocabulary] for t in texts], dtype=float)
    dense = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    centred = dense - dense.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    assert np.allclose(space.cosines(texts), centred @ centred.T, atol=1e-9)
    assert np.all(space.cosines(["unknown words only"]) == 0)


def test_a_bias_of_one_view_is_heard_by_another(toy_bank: Bank) -> None:
    """An embedder that mistakes engines for apples is confident; the words know better."""
    rng = np.random.default_rng(1)
    place = np.eye(3)[toy_bank.label_index] + 0.1 * rng.normal(size=(len(toy_bank.texts), 3))
    views = build_views([toy_bank], [place.astype(np.float32)], {"e": slice(0, 3)})
    posterior = np.eye(3)[toy_bank.label_index] * 0.94 + 0.02
    seen = Observations(toy_bank.texts, place.astype(np.float32))
    alarm = fit_alarm(views, seen, toy_bank.label_index, posterior)
    text = "piston oil fuel gear heat torque motor valve"
    found = []
    for place_of, leads in ((0, 0), (2, 2)):  # where apples lie, then where engines do
        one = Observations((text,), np.eye(3, dtype=np.float32)[[place_of]])
        found.append(alarm.judge(one, np.eye(3)[[leads]] * 0.94 + 0.02, np.full(3, 1 / 3)))
    (wrong, opinions), (right, _) = found
    assert (wrong.flag[0], right.flag[0]) == (True, False)
    assert wrong.p_value[0] < 0.1 < right.p_value[0]
    assert opinions[:, 0].argmax(axis=1).tolist() == [0, 2]


def test_every_band_of_confidence_has_its_own_null(toy_bank: Bank) -> None:
    low, high = Null(0.0, (5.0,) * 41, 50, 5.0), Null(0.8, (0.0,) * 41, 50, 0.0)
    view = View("v", toy_bank, 0.1, lambda seen: np.zeros((len(seen.texts), len(toy_bank.texts))))
    alarm = Alarm((view,), (low, high), own=False)
    seen = Observations(("a", "b", "c"), np.zeros((3, 1)))
    skewed = np.array([0.1, 0.8, 0.1])  # the views answer this prior, so claiming label 0 scores log 8
    posterior = np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.5, 0.25, 0.25]])
    alarms, _ = alarm.judge(seen, posterior, skewed)
    assert alarms.score == pytest.approx([np.log(8)] * 3)
    assert alarms.flag.tolist() == [True, True, False]
    own = Alarm((view,), (low, high)).judge(seen, posterior, skewed)[0].score
    assert own == pytest.approx(np.log(8) - np.log([18, 8, 2]))


def test_bands_of_too_few_join_their_neighbours() -> None:
    rng = np.random.default_rng(2)
    confidence = np.concatenate([np.full(10, 0.5), np.full(40, 0.7), np.full(5, 0.85), np.full(60, 0.99)])
    nulls = banded_nulls(rng.normal(size=len(confidence)), confidence)
    assert [(n.confidence, n.n) for n in nulls] == [(0.0, 50), (0.8, 65)]
    few = banded_nulls(rng.normal(size=5), np.full(5, 0.99))
    assert [n.n for n in few] == [5]


def test_performance_counts_confident_answers_only() -> None:
    posterior = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    found = alarm_performance(posterior, np.array([0, 1, 1, 1]), np.array([True, True, False, True]))
    assert list(found.values()) == [1, 2, 1.0, 0.5]
    nothing = alarm_performance(posterior[3:], np.array([0]), np.array([False]))
    assert list(nothing.values()) == [0, 0, None, None]


def test_packaged_panels_are_seen_through_core_views_only() -> None:
    """An answer must not depend on which extras happen to be installed."""
    for panel in ("oral-lesions", "symptom-to-diagnosis", "case-reports"):
        names = [view.name for view in Classifier(panel).desk.alarm.views]
        assert names == ["wordllama on bank", "wordllama on bank_b", "words on bank", "words on bank_b"]
