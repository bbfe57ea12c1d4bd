"""One suite for every method: what whoever runs a method may rely on without knowing which one it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.amortised.network import save
from simdx.amortised.train import TrainSettings, train
from simdx.decide.tune import cross_fitted
from simdx.fitting import METHODS
from simdx.methods import Fitted, Material
from simdx.methods.fitted import joined
from simdx.simulators.base import Request
from tests.amortised.conftest import toy_material
from tests.contracts.variants import VARIANTS, fit_variant, settings_of

CASES = ("sweet red apple from the orchard", "the boat on the river under the bridge", "piston of the engine")
UNIFORM = Prior.uniform(3)
SAMPLED = {"m-smc particles", "d-smc particles", "m-smc hybrid", "d-smc live"}  # answers carry sampling error
# Methods whose answer is no share or weight of simulations by distance.
WITHOUT_KERNEL = {
    "abi", "centroid", "tfidf", "zero-shot", "bank-logistic", "logits", "elicited", "ensemble", "fidelity",
}  # fmt: skip

# What they declare, said once more: a method that stops declaring it must say so here.
PROPORTIONAL = ("auto", "m-smc soft", "m-smc two-stage", "bank-logistic")
REFITS = (
    "auto", "m-smc", "m-smc soft", "m-smc absolute", "d-smc", "d-smc absolute", "centroid", "centroid soft",
    "tfidf", "zero-shot", "bank-logistic",
)  # fmt: skip
CHEAP = (*REFITS, "abi")
# A fresh simulation is another one each time.
REPEATABLE = tuple(name for name in VARIANTS if "simulator" not in VARIANTS[name])


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMDX_HOME", str(tmp_path_factory.mktemp("home")))
        return toy_material(embedder="wordllama")


@pytest.fixture(scope="module")
def network(material: Material, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("network")
    settings = TrainSettings(prior_conditioned=True, count=4000, epochs=10, threads=1)
    save(train(material, settings), folder)
    return str(folder)


def said(request: Request) -> str:
    """The label named in the case, as a letter or as three guesses, whichever was asked for."""
    case = request.prompt.split("Possible")[0]
    right = next(k for k, name in zip("ABC", ("apple", "river", "engine"), strict=True) if name in case)
    others = [letter for letter in "ABC" if letter != right]
    return f"{right}: 0.70\n{others[0]}: 0.20\n{others[1]}: 0.10" if "guesses" in request.prompt else right


@pytest.fixture(params=VARIANTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made() -> dict[str, Fitted]:
    """Each variant is fitted once."""
    return {}


@pytest.fixture
def fitted(name: str, material: Material, network: str, made: dict[str, Fitted]) -> Fitted:
    if name not in made:
        made[name] = fit_variant(name, material, network, said)
    return made[name]


def test_every_name_of_the_contract_is_a_method() -> None:
    assert {"auto", "m-smc", "d-smc"} | WITHOUT_KERNEL == set(METHODS)


def test_rows_are_distributions_of_finite_weight(name: str, fitted: Fitted, material: Material) -> None:
    table = fitted.answer(material.observe(CASES), UNIFORM)
    for p in (table.posterior_in_class, table.posterior):
        assert p.shape == (3, 3)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    assert table.effective_simulations.shape == (3,)
    assert np.isfinite(table.effective_simulations).all()
    assert table.tolerance.shape == (3,)
    if name not in SAMPLED:
        assert table.posterior_in_class.argmax(axis=1).tolist() == [0, 1, 2]


def test_columns_made_on_demand(fitted: Fitted, material: Material) -> None:
    table = fitted.answer(material.observe(CASES), UNIFORM)
    assert table.entropy_bits.shape == (3,)
    assert ((table.typicality > 0) & (table.typicality <= 1)).all()
    if table.second_order is not None:
        np.testing.assert_allclose(table.second_order.mean.sum(axis=1), 1, atol=1e-6)
        assert (table.second_order.epistemic_bits >= -1e-9).all()


def test_a_label_of_prior_zero_gets_nothing(fitted: Fitted, material: Material) -> None:
    table = fitted.answer(material.observe(CASES), Prior(np.array([0.5, 0.0, 0.5]), 3.0))
    for p in (table.posterior_in_class, table.posterior):
        np.testing.assert_allclose(p[:, 1], 0, atol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_a_larger_prior_never_lowers_a_label(name: str, fitted: Fitted, material: Material) -> None:
    seen = material.observe(CASES)
    flat = fitted.answer(seen, UNIFORM).posterior_in_class
    raised = fitted.answer(seen, Prior(np.array([0.1, 0.1, 0.8]), 3.0)).posterior_in_class
    slack = 0.2 if name in SAMPLED else 1e-9  # thirty particles: twice their standard error of .09
    assert (raised[:, 2] >= flat[:, 2] - slack).all()


@pytest.mark.parametrize("name", REPEATABLE)
def test_neither_order_nor_batch_nor_repetition_matters(fitted: Fitted, material: Material) -> None:
    together = fitted.answer(material.observe(CASES), UNIFORM).posterior_in_class
    again = fitted.answer(material.observe(CASES), UNIFORM).posterior_in_class
    np.testing.assert_allclose(again, together, atol=1e-6)
    backwards = fitted.answer(material.observe(CASES[::-1]), UNIFORM).posterior_in_class[::-1]
    np.testing.assert_allclose(backwards, together, atol=1e-6)
    tables = [fitted.answer(material.observe([case]), UNIFORM) for case in CASES]
    alone = joined(tables)
    np.testing.assert_allclose(alone.posterior_in_class, together, atol=1e-6)
    assert len(alone.posterior) == len(alone.typicality) == len(CASES)
    assert (alone.second_order is None) == (tables[0].second_order is None)


def test_it_is_what_it_declares(name: str, fitted: Fitted, material: Material) -> None:
    method = VARIANTS[name]["method"]
    table = fitted.answer(material.observe(CASES), UNIFORM)
    kernel = VARIANTS[name].get("kernel", "soft" if method == "auto" else "hard")
    assert fitted.kernel == (None if name in WITHOUT_KERNEL else kernel)
    assert not fitted.remote
    assert fitted.refits == (name in REFITS)
    assert fitted.cheap == (name in CHEAP)
    assert fitted.proportional == (name in PROPORTIONAL)
    assert fitted.none_of_these == (table.out_of_class is not None)
    calls = {} if table.usage is None else table.usage
    assert fitted.simulates == ("llm_calls" in calls)
    if fitted.cheap:
        assert table.usage is None  # no model is asked, so that an explanation may ask hundreds of times


def test_a_remote_embedder_makes_any_method_remote(name: str, material: Material, network: str) -> None:
    class Remote:
        """The material's own embedder, said to be elsewhere."""

        remote = True

        def __getattr__(self, attribute: str) -> object:
            return getattr(material.embedder, attribute)

    far = replace(material, embedder=Remote())  # type: ignore[arg-type]
    assert fit_variant(name, far, network, said).remote


@pytest.mark.parametrize("name", PROPORTIONAL)
def test_what_is_proportional_obeys_bayes_rule(fitted: Fitted, material: Material) -> None:
    seen = material.observe((*CASES, "an engine in the red river"))
    prior = np.array([0.7, 0.1, 0.2])
    expected = fitted.answer(seen, UNIFORM).posterior_in_class * prior
    found = fitted.answer(seen, Prior(prior, 3.0)).posterior_in_class
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", REFITS)
def test_what_refits_answers_its_own_bank_held_out(name: str, material: Material, network: str) -> None:
    rows, answers = cross_fitted(material, settings_of(name, network))
    assert answers is not None
    assert sorted(rows.tolist()) == list(range(len(material.bank.texts)))
    right = answers.posterior.argmax(axis=1) == material.bank.label_index[rows]
    assert right.mean() > 0.6  # chance is a third; zero-shot knows three names alone


def test_what_carried_an_answer_is_of_the_bank(fitted: Fitted, material: Material) -> None:
    bank = material.bank
    carried = fitted.carried(material.observe(CASES), UNIFORM)
    assert sorted(carried.rows.tolist()) == list(range(len(bank.texts)))
    assert np.array_equal(bank.label_index[carried.rows], carried.label_index)
    assert carried.distance.shape == (3, len(bank.texts))
    if carried.share is not None:
        assert fitted.kernel is not None
        assert carried.share.shape == carried.distance.shape
        np.testing.assert_allclose(carried.share.sum(axis=1), 1, atol=1e-5)
