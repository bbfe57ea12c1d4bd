"""Conformal sets and risk control keep what they promise, over many random splits."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from simdx.decide.guarantees import ConformalThresholds, calibrate, control_risk, coverage_of
from simdx.errors import BadInput, MissingExtra
from simdx.types import Float, Int, entropy_bits


def population(n: int, rng: np.random.Generator, sharp: float = 3.0) -> tuple[Float, Int]:
    """Posteriors of a miscalibrated classifier on three unequal classes."""
    y = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    score = rng.normal(size=(n, 3)) + 1.2 * np.eye(3)[y] * np.array([1.5, 1.0, 0.5])[y][:, None]
    p = np.exp(sharp * score)
    return p / p.sum(axis=1, keepdims=True), y


def test_class_conditional_sets_cover_every_class() -> None:
    rng = np.random.default_rng(12)
    p, y = population(3000, rng)
    by_class: list[list[float]] = [[], [], []]
    split_rare = []
    for _ in range(40):
        order = rng.permutation(len(y))
        fit, test = order[:300], order[300:]
        own = calibrate(p[fit], y[fit], level=0.9).sets(p[test])
        for k in range(3):
            by_class[k].append(coverage_of(own[y[test] == k], y[test][y[test] == k]))
        rare = y[test] == 2
        pooled = calibrate(p[fit], y[fit], level=0.9, kind="split").sets(p[test][rare])
        split_rare.append(coverage_of(pooled, y[test][rare]))
    for k in range(3):
        assert np.mean(by_class[k]) >= 0.9 - 4 * np.std(by_class[k]) / np.sqrt(40)
    # what it is for: the pooled set leaves the rare class uncovered
    assert np.mean(split_rare) < 0.85


def test_a_class_without_enough_cases_is_never_ruled_out() -> None:
    p = np.array([[0.9, 0.1], [0.8, 0.2]] * 20)
    found = calibrate(p, np.zeros(40, dtype=int), level=0.9)
    assert found.largest[1] == np.inf
    assert found.sets(np.array([[1.0, 0.0]]))[0, 1]
    few = calibrate(p[:5], np.zeros(5, dtype=int), level=0.9)
    assert few.largest[0] == np.inf  # 5 cases cannot exclude anything at 90 %


def test_answering_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mapie", "mapie.risk_control"):
        monkeypatch.setitem(sys.modules, name, None)
    assert ConformalThresholds("split", 0.9, (0.5, 0.5), 10).sets(np.array([0.7, 0.3])).tolist() == [
        [True, False]
    ]
    with pytest.raises(MissingExtra, match="decide"):
        control_risk(np.eye(2), np.array([0, 1]))


def test_risk_is_controlled_with_the_stated_confidence() -> None:
    """The true risk of the accepted may exceed the target in at most 10 % of calibrations."""
    rng = np.random.default_rng(14)
    p, y = population(60_000, rng, sharp=2.0)
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


def test_nothing_is_promised_where_nothing_can_be() -> None:
    rng = np.random.default_rng(15)
    p = rng.dirichlet([1, 1], size=200)
    found = control_risk(p, rng.integers(0, 2, 200), target=0.05)
    assert (found.entropy_bits, found.accepted) == (None, 0)


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
