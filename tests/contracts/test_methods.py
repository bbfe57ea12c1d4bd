"""One suite for every method: what whoever runs a method may rely on without knowing which one it is."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.baselines import interview as machine
from simdx.baselines.asking import ASKING
from simdx.embedders import get_embedder
from simdx.fitting import METHODS, fit_method
from simdx.methods import Fitted, Material, Settings
from simdx.types import Bank, Panel
from tests.baselines.conftest import Oracle
from tests.baselines.test_asking import guesses

# abi answers with a network trained beforehand; its own tests hold it to this contract.
NAMES = tuple(name for name in METHODS if name != "abi")
CASES = ("sweet red apple from the orchard", "the boat on the river under the bridge", "piston of the engine")


@pytest.fixture
def material(toy_panel: Panel, toy_bank: Bank, private_home: object) -> Material:
    return Material.prepare(toy_panel, toy_bank, get_embedder("hashing"))


@pytest.fixture(params=NAMES)
def infer(request: pytest.FixtureRequest, material: Material, monkeypatch: pytest.MonkeyPatch) -> Fitted:
    name = request.param
    if name in ASKING:
        oracle = Oracle(answer=guesses if name == "elicited" else None)
        monkeypatch.setattr(machine, "_opened", lambda _: oracle)
    return fit_method(material, Settings(method=name, simulator="oracle" if name in ASKING else None))


def test_every_name_of_the_contract_is_a_method() -> None:
    baselines = {
        "logits",
        "elicited",
        "ensemble",
        "fidelity",
        "centroid",
        "tfidf",
        "zero-shot",
        "bank-logistic",
    }
    assert {"auto", "m-smc", "d-smc", "abi"} | baselines <= set(METHODS)


def test_rows_are_distributions_of_finite_weight(infer: Fitted, material: Material) -> None:
    table = infer.answer(material.observe(CASES), Prior.uniform(3))
    p = table.posterior_in_class
    assert p.shape == (3, 3)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    assert table.effective_simulations.shape == (3,)
    assert np.isfinite(table.effective_simulations).all()
    assert p.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_label_of_prior_zero_gets_nothing(infer: Fitted, material: Material) -> None:
    p = infer.answer(material.observe(CASES), Prior(np.array([0.5, 0.0, 0.5]), 3.0)).posterior_in_class
    np.testing.assert_allclose(p[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_a_larger_prior_never_lowers_a_label(infer: Fitted, material: Material) -> None:
    seen = material.observe(CASES)
    flat = infer.answer(seen, Prior.uniform(3)).posterior_in_class
    raised = infer.answer(seen, Prior(np.array([0.1, 0.1, 0.8]), 3.0)).posterior_in_class
    assert (raised[:, 2] >= flat[:, 2] - 1e-9).all()


def test_neither_order_nor_batch_nor_repetition_matters(infer: Fitted, material: Material) -> None:
    prior = Prior.uniform(3)
    together = infer.answer(material.observe(CASES), prior).posterior_in_class
    np.testing.assert_allclose(
        infer.answer(material.observe(CASES), prior).posterior_in_class, together, atol=1e-6
    )
    backwards = infer.answer(material.observe(CASES[::-1]), prior).posterior_in_class[::-1]
    np.testing.assert_allclose(backwards, together, atol=1e-6)
    alone = np.stack([infer.answer(material.observe([case]), prior).posterior_in_class[0] for case in CASES])
    np.testing.assert_allclose(alone, together, atol=1e-6)
