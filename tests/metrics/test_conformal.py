"""Conformal sets and risk control keep what they promise; sets under a changed prior, and their measures."""

import json
from collections.abc import Callable

import crepes
import numpy as np
import pytest
from scipy.stats import binom

from simdx.decide.tune import control_risk
from simdx.errors import BadInput
from simdx.metrics.conformal import (
    ConformalThresholds,
    calibrate,
    measured_sets,
    mondrian_sets,
    shift_weights,
)
from simdx.types import Float, Int, Mask, entropy_bits

OLD, NEW = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])
LABELS = ("common", "less", "rare")


def coverage_of(sets: Mask, truth: Int) -> float:
    return float(sets[np.arange(len(truth)), truth].mean())


def population(n: int, prior: Float, rng: np.random.Generator) -> tuple[Float, Int]:
    """Scores of a label do not depend on how frequent it is; the rare label is answered worst."""
    y = rng.choice(3, size=n, p=prior)
    score = rng.normal(size=(n, 3)) + 1.2 * np.eye(3)[y] * np.array([2.0, 1.0, 0.3])[y][:, None]
    p = np.exp(2 * score)
    return p / p.sum(axis=1, keepdims=True), y


def every_kind(p: Float, y: Int) -> dict[str, ConformalThresholds]:
    return {
        "split": calibrate(p, y, level=0.9, kind="split"),
        "weighted": calibrate(p, y, level=0.9, kind="split", prior=NEW),
        "class_conditional": calibrate(p, y, level=0.9),
    }


def test_thresholds_are_those_of_crepes() -> None:
    """Without a changed prior; ties and every size of the calibration set included."""

    rng = np.random.default_rng(3)
    for n in (1, 5, 9, 10, 30, 200):
        p, y = population(n, OLD, rng)
        p = np.round(p * 64) / 64  # exact in binary, so that ties are ties
        p[:, 0] += 1 - p.sum(axis=1)
        score = 1 - p[np.arange(n), y]
        fresh = np.append(rng.integers(0, 65, size=50) / 64, score)
        for level in (0.5, 0.8, 0.9):
            p_value = (
                crepes.ConformalClassifier().fit(score).predict_p(fresh[:, None], smoothing=False).ravel()
            )
            limit = calibrate(p, y, level=level, kind="split").largest[0]
            np.testing.assert_array_equal(fresh <= limit + 1e-9, p_value > 1 - level + 1e-12)


def test_weighted_thresholds_follow_the_definition() -> None:
    """A label is inside where the level is reached by the weights of the scores below (Podkopaev, Ramdas)."""
    rng = np.random.default_rng(4)
    p, y = population(60, OLD, rng)
    fresh, _ = population(40, NEW, rng)
    weight = shift_weights(y, NEW)
    score = 1 - p[np.arange(60), y]
    ours = calibrate(p, y, level=0.9, kind="split", prior=NEW).sets(fresh)
    for i, k in np.ndindex(ours.shape):
        total = weight[y].sum() + weight[k]
        order = np.argsort(score)
        reached = np.cumsum(weight[y][order]) / total
        quantile = score[order][reached >= 0.9].min(initial=np.inf)
        assert ours[i, k] == (1 - fresh[i, k] <= quantile)


def test_coverage_under_label_shift() -> None:
    """Weighted and class-conditional sets keep their coverage where the labels' shares change; split not."""
    rng = np.random.default_rng(6)
    found: dict[str, list[float]] = {"split": [], "weighted": [], "class_conditional": []}
    for _ in range(150):
        p, y = population(300, OLD, rng)
        fresh, truth = population(1000, NEW, rng)
        for name, sets in every_kind(p, y).items():
            found[name].append(coverage_of(sets.sets(fresh), truth))
    error = {name: 4 * np.std(values) / np.sqrt(150) for name, values in found.items()}
    assert np.mean(found["split"]) < 0.8
    assert 0.9 - error["weighted"] < np.mean(found["weighted"]) < 0.93
    assert 0.9 - error["class_conditional"] < np.mean(found["class_conditional"]) < 0.94


@pytest.mark.parametrize("labels", [2, 3])
def test_stored_thresholds_at_another_prior(labels: int) -> None:
    """As if calibrated for it; a panel of two labels too, whose sets may be empty, single or both."""
    rng = np.random.default_rng(10)
    old, new = (prior[-labels:] / prior[-labels:].sum() for prior in (OLD, NEW))

    def drawn(n: int, prior: Float) -> tuple[Float, Int]:
        y = rng.choice(labels, size=n, p=prior)
        told = np.array([2.0, 1.0, 0.4])[y]
        score = rng.normal(size=(n, labels)) + np.eye(labels)[y] * told[:, None]
        p = np.exp(2 * score)
        return p / p.sum(axis=1, keepdims=True), y

    sizes = set()
    for _ in range(100):
        p, y = drawn(200, old)
        fresh, _ = drawn(500, new)
        for kind in ("split", "class-conditional"):
            stored = calibrate(p, y, level=0.8, kind=kind)
            moved = stored.under(new)
            again = calibrate(p, y, level=0.8, kind=kind, prior=new)
            np.testing.assert_array_equal(moved.largest, again.largest)
            sizes |= set(moved.sets(fresh).sum(axis=1).tolist())
    assert sizes == set(range(labels + 1))
    dropped = stored.under(np.eye(labels)[0])
    assert dropped.largest[1:] == (-1.0,) * (labels - 1)
    assert ConformalThresholds("split", 0.9, (0.5,) * labels, 9).under(new) is None


def test_mondrian_sets_cover_every_group() -> None:
    """One threshold for all leaves the harder group uncovered; one for each group covers both."""
    rng = np.random.default_rng(11)
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(60):
        p, y = population(800, OLD, rng)
        group = np.where(rng.random(800) < 0.25, "hard", "easy")
        hard = group == "hard"
        p[hard] = 0.4 * p[hard] + 0.6 / 3
        measured = measured_sets(p, y, LABELS, OLD, level=0.9, groups={"site": group}, resamples=100, rng=rng)
        for value, about in measured["groups"]["site"].items():
            for kind in ("split", "mondrian"):
                found.setdefault(kind, {}).setdefault(value, []).append(about[kind]["coverage"])
    mean = {kind: {value: np.mean(c) for value, c in by.items()} for kind, by in found.items()}
    assert mean["split"]["hard"] < 0.85 or mean["split"]["hard"] > 0.95
    for value in ("hard", "easy"):
        error = 4 * np.std(found["mondrian"][value]) / np.sqrt(60)
        assert 0.9 - error < mean["mondrian"][value] < 0.93, value
    own = mondrian_sets(p[:2], ["easy", "new"], p, y, group, level=0.9)
    assert own[1].all()  # nothing is known of a new group


def test_labels_that_will_not_come_and_labels_never_seen() -> None:
    p, y = population(200, np.array([0.5, 0.5, 0.0]), np.random.default_rng(7))
    limits = calibrate(p, y, kind="split", prior=np.array([0.0, 0.5, 0.5])).largest
    assert limits[0] == -1  # its prior is nought
    assert 0 < limits[1] < np.inf
    assert limits[2] == np.inf  # no case says how it scores
    p = np.array([[0.9, 0.1], [0.8, 0.2]] * 20)
    found = calibrate(p, np.zeros(40, dtype=int), level=0.9)
    assert found.largest[1] == np.inf
    assert found.sets(np.array([[1.0, 0.0]]))[0, 1]
    few = calibrate(p[:5], np.zeros(5, dtype=int), level=0.9)
    assert few.largest[0] == np.inf  # 5 cases cannot exclude anything at 90 %


@pytest.mark.parametrize("apart", [False, True])
def test_what_is_measured_is_what_new_cases_get(apart: bool) -> None:
    """Coverage and size measured on labelled cases agree with those of a fresh sample, at both priors."""
    rng = np.random.default_rng(8)
    p, y = population(6000, OLD, rng)
    known = population(6000, OLD, rng) if apart else (p, y)
    found = measured_sets(
        p, y, LABELS, NEW, level=0.9, calibration=known if apart else None, resamples=200, rng=rng
    )
    json.dumps(found, allow_nan=False)
    assert found["n_calibration"] == (6000 if apart else 4800)
    assert found["calibrated_on"] == ("calibration cases" if apart else "other folds")
    for prior, measured in ((OLD, found), (NEW, found["at_prior"])):
        fresh, truth = population(20_000, prior, rng)
        for key, limits in every_kind(*known).items():
            if key not in measured:
                continue
            sets = limits.sets(fresh)
            assert measured[key]["coverage"] == pytest.approx(coverage_of(sets, truth), abs=0.03), key
            assert measured[key]["mean_size"] == pytest.approx(sets.sum(axis=1).mean(), abs=0.08), key
            assert set(measured[key]["ci"]) == {"coverage", "mean_size"}
    assert found["split"]["least"]["label"] == "rare"
    assert found["split"]["least"]["coverage"] < 0.8 < found["class_conditional"]["least"]["coverage"]


def test_few_cases_and_the_same_prior() -> None:
    rng = np.random.default_rng(9)
    p, y = np.eye(3)[[0, 1, 2]], np.arange(3)
    found = measured_sets(p, y, LABELS, np.full(3, 1 / 3), resamples=100, rng=rng)
    assert found["at_prior"] is None
    assert found["split"]["mean_size"] == 3  # nothing can be ruled out by two cases
    assert found["split"]["labels_always_inside"] == 3
    assert measured_sets(p[:1], y[:1], LABELS, OLD, resamples=100, rng=rng) is None
    other = measured_sets(p[:2], y[:2], LABELS, OLD, resamples=100, rng=rng)
    assert other["at_prior"]["labels_without_cases"] == 1


def test_a_threshold_is_promised_where_the_binomial_test_allows_it() -> None:
    """By hand: two hundred sure answers with two errors, and a hundred doubtful ones that are half wrong."""
    p = np.array([[0.999, 0.001]] * 200 + [[0.55, 0.45]] * 100)
    truth = np.array([0] * 198 + [1] * 2 + [0, 1] * 50)
    found = control_risk(p, truth, target=0.05, confidence=0.9)
    assert (found.accepted, found.errors) == (200, 2)
    assert entropy_bits(p[:1])[0] < found.entropy_bits < entropy_bits(p[-1:])[0]
    assert binom.cdf(2, 200, 0.05) <= 0.1 / 6 < binom.cdf(6, 200, 0.05)  # six errors promise nothing
    assert control_risk(p, np.where(np.arange(300) < 6, 1, truth), target=0.05).entropy_bits is None
    guessed = np.random.default_rng(15).integers(0, 2, 300)
    nothing = control_risk(p, guessed, target=0.05)
    assert (nothing.entropy_bits, nothing.accepted) == (None, 0)


def test_risk_is_controlled_with_the_stated_confidence() -> None:
    """The true risk of the accepted may exceed the target in at most 10 % of calibrations."""
    rng = np.random.default_rng(14)
    p, y = population(60_000, OLD, rng)
    wrong = p.argmax(axis=1) != y
    bits = entropy_bits(p)
    broken, promised = 0, 0
    for _ in range(150):
        pick = rng.choice(len(y), size=400, replace=False)
        found = control_risk(p[pick], y[pick], target=0.15, confidence=0.9)
        if found.entropy_bits is None:
            continue
        promised += 1
        kept = bits <= found.entropy_bits
        broken += wrong[kept].mean() > 0.15
    assert promised > 75  # it does promise something, most of the time
    # binomial: 150 runs at 10 % have a standard deviation of 3.7
    assert broken <= 15 + 3 * 3.7


@pytest.mark.parametrize(
    ("call", "bad", "said"),
    [
        (control_risk, {"target": 0.0}, "between 0 and 1"),
        (control_risk, {"target": 1.5}, "between 0 and 1"),
        (control_risk, {"confidence": 1.0}, "between 0 and 1"),
        (calibrate, {"kind": "magic"}, "kind"),
        (calibrate, {"level": 1.0}, "coverage"),
    ],
)
def test_bad_requests(call: Callable[..., object], bad: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        call(np.eye(2), np.array([0, 1]), **bad)
    with pytest.raises(BadInput, match="no calibration"):
        calibrate(np.zeros((0, 2)), np.zeros(0, dtype=int))
