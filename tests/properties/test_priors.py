"""Priors: whatever is typed becomes probabilities that sum to one, or one clear line."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simdx.abc.prior import Prior, prior_rows
from simdx.cli.main import spread_repeated
from simdx.cli.options import parse_assignments
from tests.properties.strategies import accepted, bounded, broken_texts, numbers, scalars, texts

LABELS = ("apple", "river=bank", "ألم", "engine")
names = st.one_of(st.sampled_from(LABELS), texts, broken_texts)
mappings = st.dictionaries(names, scalars, max_size=4)


def check(prior: Prior | None) -> None:
    if prior is None:
        return
    assert prior.probabilities.shape == (len(LABELS),)
    assert (prior.probabilities >= 0).all()
    np.testing.assert_allclose(prior.probabilities.sum(), 1, atol=1e-9)
    assert np.isfinite(prior.alpha).all()
    assert prior.alpha0 > 0
    rows = prior_rows(prior, len(LABELS), 3)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)


@bounded
@given(mappings, mappings, st.one_of(st.none(), numbers))
def test_any_mapping(mapping: dict, odds: dict, alpha0: float | None) -> None:
    check(accepted(lambda: Prior.from_probabilities(LABELS, mapping, alpha0)))
    check(accepted(lambda: Prior.from_counts(LABELS, mapping)))
    check(accepted(lambda: Prior.from_prevalence(LABELS, mapping, odds, alpha0)))


@bounded
@given(
    st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_any_rows(rows: list[list[float]], n_labels: int, n_cases: int) -> None:
    width = min(map(len, rows))
    given_rows = np.array([row[:width] for row in rows], dtype=float)
    found = accepted(lambda: prior_rows(given_rows, n_labels, n_cases))
    if found is not None:
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
    accepted(lambda: Prior(given_rows[0], float(given_rows[-1, -1])))


@bounded
@given(
    st.lists(st.one_of(st.sampled_from(["--prior", "--odds", "--json", "a=.2", "b=nan"]), texts), max_size=8)
)
def test_spreading_loses_nothing(arguments: list[str]) -> None:
    spread = spread_repeated(arguments)
    options = ("--prior", "--prior-counts", "--odds")
    assert [a for a in spread if a not in options] == [a for a in arguments if a not in options]
    accepted(lambda: parse_assignments(arguments, "--prior"))
