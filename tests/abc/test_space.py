"""Spaces: blocks, centring, and the way back to bank rows."""

import numpy as np
import pytest

from simdx.abc.space import Space
from simdx.errors import BadInput
from simdx.types import EmbeddedBank
from tests.abc.toys import toy


def two_blocks(seed: int = 0) -> EmbeddedBank:
    problem = toy((5, 3, 4), d=10, seed=seed)
    return EmbeddedBank(problem.bank, problem.labels, 3, (6, 4), background=problem.cases)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize("centre", [False, True])
def test_a_dot_product_is_the_mean_of_block_cosines(centre):
    bank = two_blocks()
    space = Space.fit(bank, centre)
    z = space.transform(bank.vectors[:2])
    assert z.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-6)
    blocks = [bank.vectors[:, :6].astype(float), bank.vectors[:, 6:].astype(float)]
    expected = []
    for block in blocks:
        block = block / np.linalg.norm(block, axis=1, keepdims=True)
        if centre:
            block = block - block.mean(axis=0)
        expected.append(cosine(block[0], block[1]))
    assert z[0] @ z[1] == pytest.approx(np.mean(expected), abs=1e-6)


def test_rows_lead_back_to_the_bank():
    bank = two_blocks()
    space = Space.fit(bank, True)
    assert np.all(np.diff(space.label_index) >= 0)
    np.testing.assert_array_equal(bank.label_index[space.rows], space.label_index)
    np.testing.assert_allclose(space.transform(bank.vectors)[space.rows], space.bank, atol=1e-7)


def test_class_means_and_background():
    bank = two_blocks()
    space = Space.fit(bank, False)
    for k in range(3):
        np.testing.assert_allclose(
            space.class_means[k], space.bank[space.label_index == k].mean(axis=0), atol=1e-6
        )
    assert space.background is not None
    np.testing.assert_allclose(space.background, space.transform(bank.background), atol=1e-7)


def test_bad_banks_are_refused():
    good = two_blocks()
    with pytest.raises(BadInput, match="no simulations"):
        Space.fit(EmbeddedBank(good.vectors, good.label_index, 4, good.blocks), False)
    with pytest.raises(BadInput, match="width"):
        Space.fit(EmbeddedBank(good.vectors, good.label_index, 3, (6, 5)), False)
    broken = good.vectors.copy()
    broken[0, 0] = np.nan
    with pytest.raises(BadInput, match="NaN"):
        Space.fit(EmbeddedBank(broken, good.label_index, 3, good.blocks), False)
    assert np.all(Space.fit(good, False).transform(np.zeros((1, 10))) == 0)  # no content, no direction
    with pytest.raises(BadInput, match="embedder"):
        Space.fit(good, False).transform(np.ones((1, 3)))
