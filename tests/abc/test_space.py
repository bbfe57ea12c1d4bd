"""Spaces: blocks, centring, and the way back to bank rows."""

import numpy as np
import pytest
from scipy.stats import kstest

from simdx.abc.dirichlet import bank_tolerance, dirichlet
from simdx.abc.prior import Prior
from simdx.abc.space import Space, Typicality
from simdx.errors import BadInput
from simdx.types import EmbeddedBank
from tests.abc.toys import Toy, toy, unit


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


def test_rows_lead_back_to_the_bank_and_labels_have_means():
    bank = two_blocks()
    space = Space.fit(bank, True)
    assert np.all(np.diff(space.label_index) >= 0)
    np.testing.assert_array_equal(bank.label_index[space.rows], space.label_index)
    np.testing.assert_allclose(space.transform(bank.vectors)[space.rows], space.bank, atol=1e-7)
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


# --------------------------------------------------------------------------- typicality and tolerances


def test_p_values_of_fresh_simulations_are_uniform():
    problem = toy((400, 400), n_cases=400, d=8, seed=0)
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 200)
    fresh = unit(problem.centres[truth] + rng.standard_normal((400, 8)))
    p = Typicality.fit(problem.bank).p_value(fresh)
    assert np.all((p > 0) & (p <= 1))
    assert kstest(p, "uniform").pvalue > 1e-3


def test_a_text_unlike_everything_is_atypical_and_repeated_rows_do_not_look_typical():
    problem = toy((50, 50), n_cases=10, d=16, seed=2)
    typical = Typicality.fit(problem.bank)
    assert np.all(typical.p_value(-problem.cases) == 1 / 101)
    assert np.median(typical.p_value(problem.cases)) > 0.1
    twice = Typicality.fit(np.tile(problem.bank, (2, 1)))
    np.testing.assert_allclose(typical.p_value(problem.cases), twice.p_value(problem.cases))


def test_the_reference_is_leave_one_out():
    problem = toy((6, 5), d=5, seed=3)
    typical = Typicality.fit(problem.bank, neighbours=2)
    expected = []
    for i, row in enumerate(problem.bank.astype(float)):
        others = np.delete(problem.bank.astype(float), i, axis=0)
        expected.append(np.sort(1 - others @ row)[:2].mean())
    np.testing.assert_allclose(typical.reference, np.sort(expected), atol=1e-6)


def test_small_banks_and_bad_settings():
    single = toy((1, 1), seed=3)
    with pytest.raises(BadInput, match="two simulations"):
        bank_tolerance(single.bank, single.labels, 2, Prior.uniform(2), seed=0)
    assert Typicality.fit(np.eye(2), neighbours=5).neighbours == 1
    with pytest.raises(BadInput, match="two different"):
        Typicality.fit(np.ones((3, 2)))
    with pytest.raises(BadInput, match="neighbour"):
        Typicality.fit(np.eye(3), neighbours=0)


@pytest.mark.parametrize("probabilities", [[0.3, 0.4, 0.3], [0.5, 0.5, 0.0]])
def test_the_banks_tolerance_is_the_median_over_simulations_left_out(probabilities):
    problem = toy((5, 6, 7), d=9, seed=0)
    prior = Prior(np.array(probabilities), 2.5)
    got = bank_tolerance(problem.bank, problem.labels, 3, prior, seed=4, draws=20, populations=3)
    expected = []
    for i, label in enumerate(problem.labels):
        if probabilities[label] == 0:
            continue
        rest = np.arange(problem.labels.size) != i
        left = Toy(problem.bank[rest], problem.labels[rest], 3, problem.cases, problem.truth, problem.centres)
        answer = dirichlet(left.means, problem.bank[i], prior, seed=4, draws=20, populations=3)
        expected.append(answer.tolerance[0])
    assert got == pytest.approx(np.median(expected), abs=1e-5)


def test_an_absolute_tolerance_raises_epistemic_uncertainty_out_of_class():
    problem = toy((60, 60, 60), n_cases=40, d=24, spread=1.0, seed=1)
    prior = Prior.uniform(3)
    strange = unit(np.random.default_rng(2).standard_normal((40, 24)))
    tolerance = bank_tolerance(problem.bank, problem.labels, 3, prior, seed=0)
    bits = {}
    for name, options in (("quantile", {}), ("absolute", {"tolerance": tolerance})):
        inside = dirichlet(problem.means, problem.cases, prior, seed=0, **options).second_order
        outside = dirichlet(problem.means, strange, prior, seed=0, **options).second_order
        bits[name] = (np.median(inside.epistemic_bits), np.median(outside.epistemic_bits))
    assert bits["absolute"][1] > 1.5 * bits["absolute"][0]
    assert bits["absolute"][1] > bits["quantile"][1]
