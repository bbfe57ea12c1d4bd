"""Training observations: leave-one-out means what it says, and nothing unfit gets in."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.abc.space import Space
from simdx.amortised import observations
from simdx.types import EmbeddedBank


def test_a_bank_row_meets_its_own_label_without_itself(space: Space) -> None:
    coordinates = observations.from_bank(space)
    for row in (0, 13, 30):
        others = np.arange(len(space.bank)) != row
        own = space.label_index[row]
        mean = space.bank[others & (space.label_index == own)].astype(np.float64).mean(axis=0)
        assert coordinates[row, own] == pytest.approx(float(mean @ space.bank[row]), abs=1e-6)
        other = (own + 1) % 3
        assert coordinates[row, other] == pytest.approx(
            float(space.class_means[other] @ space.bank[row]), abs=1e-6
        )


def test_background_rows_are_observations_too(space: Space) -> None:
    coordinates = observations.from_bank(space)
    assert len(coordinates) == len(space.bank) + 3
    assert coordinates[-1] == pytest.approx(space.class_means @ space.background[-1], abs=1e-6)


def test_a_label_with_one_row_keeps_its_coordinate() -> None:
    vectors = np.eye(4, dtype=np.float32)[[0, 1, 2]]
    bank = EmbeddedBank(vectors, np.array([0, 1, 1]), 2, (4,))
    coordinates = observations.from_bank(Space.fit(bank, centre=False))
    assert coordinates[0, 0] == pytest.approx(1.0)
    assert np.isfinite(coordinates).all()


def test_spread_is_keyed_by_its_generator_and_covers_more_than_the_rows(space: Space) -> None:
    base = observations.from_bank(space)
    first = observations.spread(np.random.default_rng(3), base, 5000)
    again = observations.spread(np.random.default_rng(3), base, 5000)
    assert np.array_equal(first, again)
    assert np.isfinite(first).all()
    assert (first.max(axis=0) > base.max(axis=0)).all()
    assert (first.min(axis=0) < base.min(axis=0)).all()
