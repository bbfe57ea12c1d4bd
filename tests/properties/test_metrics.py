"""Metrics: a figure is in its range, or undefined with a reason; what is no distribution is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx import metrics
from simdx.metrics.gaps import holm
from tests.properties.strategies import accepted, bounded, few, numbers

UNIT = ("accuracy", "macro_f1", "ece", "auroc", "error_auroc", "aurc", "e_aurc", "risk_at_80")
UNIT += ("classwise_ece", "adaptive_ece", "smooth_ece")


@st.composite
def distributions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """(N, K) rows and labels: flat, certain, tied, and with more or fewer labels than cases."""
    n, k = draw(st.integers(0, 12)), draw(st.integers(1, 5))
    weights = draw(
        st.lists(
            st.lists(st.sampled_from([0.0, 1e-12, 0.2, 1.0, 7.0]), min_size=k, max_size=k),
            min_size=n,
            max_size=n,
        )
    )
    rows = np.array(weights, dtype=float).reshape(n, k)
    rows[rows.sum(axis=1) == 0] = 1.0
    labels = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), dtype=np.int64)
    return rows / rows.sum(axis=1, keepdims=True), labels


@few
@given(distributions())
def test_every_figure_is_in_its_range(found: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = found
    values = metrics.headline_values(p, y)
    for name, value in values.items():
        assert (value.value is None) <= (value.reason is not None)
        if value.value is not None:
            assert np.isfinite(value.value)
            assert value.value >= -1e-12
            assert name not in UNIT or value.value <= 1 + 1e-12
    if len(y):
        assert values["brier"].value <= 2 + 1e-9
        assert values["entropy_bits"].value <= np.log2(p.shape[1]) + 1e-9
        assert (values["aurc"].value or 0) + 1e-9 >= (values["e_aurc"].value or 0)
        order = np.random.default_rng(0).permutation(len(y))
        again = metrics.headline_values(p[order], y[order])
        for name, value in values.items():
            if value.value is not None:
                assert again[name].value == pytest.approx(value.value, abs=1e-9)
    table = metrics.confusion(p, y)
    assert table.sum() == len(y)


@bounded
@given(distributions(), st.floats(0.05, 20))
def test_temperatures_keep_distributions(found: tuple[np.ndarray, np.ndarray], temperature: float) -> None:
    p, y = found
    if len(y):
        warmed = metrics.apply_temperature(p, temperature)
        np.testing.assert_allclose(warmed.sum(axis=1), 1, atol=1e-9)
        fitted = accepted(lambda: metrics.fit_temperature(p, y))
        assert fitted is None or fitted.nll_after <= fitted.nll_before + 1e-9


@bounded
@given(
    st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=4),
    st.lists(st.integers(-2, 3), max_size=4),
)
def test_anything_else_is_refused(rows: list[list[float]], labels: list[int]) -> None:
    p = np.array(rows, dtype=float)
    found = accepted(lambda: metrics.headline_values(p, labels))
    if found is not None:
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-3)
        assert len(labels) == len(rows)


@bounded
@given(st.lists(st.floats(0, 1), max_size=8))
def test_corrected_p_values_only_rise(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, corrected, strict=True))
