"""One suite for every method: what whoever runs a method may rely on without knowing which one it is."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.amortised.network import save
from simdx.amortised.train import TrainSettings, train
from simdx.decide.tune import cross_fitted
from simdx.fitting import ENGINES, methods
from simdx.methods import Fitted, PanelData
from simdx.methods.fitted import joined
from simdx.simulators.base import Request
from simdx.types import Float, case_key
from simdx_contrib import tuning
from tests.amortised.conftest import toy_panel_data
from tests.baselines.conftest import tiny_gliclass, tiny_nli
from tests.contracts.variants import NEED_A_SERVER, VARIANTS, EveryMethod
from tests.properties.strategies import SAMPLES

CASES = ("sweet red apple from the orchard", "the boat on the river under the bridge", "piston of the engine")
UNIFORM = Prior.uniform(3)
SAMPLED = {"m-smc particles", "d-smc particles", "m-smc live", "d-smc live"}  # answers carry sampling error
MODELS = {"nli": tiny_nli, "gliclass": tiny_gliclass}
# Methods whose answer is no share or weight of simulations by distance.
WITHOUT_KERNEL = set(methods()) - {"auto", "m-smc", "d-smc"}

# What they declare, said once more: a method that stops declaring it must say so here.
PROPORTIONAL = (
    "auto", "m-smc soft", "bank-logistic", "setfit", "setfit-real", "zerogen", "nli",
    "gliclass", "likelihood", "voices",
)  # fmt: skip
FAST = (
    "auto", "m-smc", "m-smc soft", "m-smc absolute", "d-smc", "d-smc absolute", "centroid", "centroid soft",
    "tfidf", "tfidf soft", "zero-shot", "zero-shot soft", "bank-logistic",
)  # fmt: skip
# A fresh simulation is another one each time.
REPEATABLE = tuple(name for name in VARIANTS if "simulator" not in VARIANTS[name])


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryMethod]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMDX_HOME", str(tmp_path_factory.mktemp("home")))  # what a method remembers stays here
        panel_data = toy_panel_data(embedder="wordllama")
        folder = tmp_path_factory.mktemp("network")
        save(
            train(panel_data, TrainSettings(prior_conditioned=True, count=2000, epochs=6, threads=1)), folder
        )
        patch.setattr(tuning, "ROUNDS", 1)  # few steps, and large ones
        patch.setattr(tuning, "EPOCHS", 3)
        patch.setattr(tuning, "RATE", 2e-4)
        weights = {name: make(tmp_path_factory.mktemp(name)) for name, make in MODELS.items()}
        yield EveryMethod(panel_data, str(folder), weights)


@pytest.fixture
def panel_data(every: EveryMethod) -> PanelData:
    return every.panel_data


@pytest.fixture(params=VARIANTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fitted(name: str, every: EveryMethod) -> Fitted:
    return every[name]


def distributions(p: Float, prior: Float, atol: float = 1e-6) -> None:
    """A row for each case: finite, of sum one, and nothing for a label of prior zero."""
    assert p.shape[1:] == prior.shape
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=atol)
    np.testing.assert_allclose(p[:, prior == 0], 0, atol=1e-12)


def test_the_contract_knows_every_method_and_engine() -> None:
    assert {variant["method"] for variant in VARIANTS.values()} == set(methods()) - NEED_A_SERVER
    assert {variant.get("engine", "exact") for variant in VARIANTS.values()} == set(ENGINES)


@pytest.mark.parametrize("prior", [[1 / 3] * 3, [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], ids=["even", "two", "one"])
def test_rows_are_distributions_of_finite_weight(
    name: str, fitted: Fitted, panel_data: PanelData, prior: list[float]
) -> None:
    table = fitted.answer(panel_data.observe(CASES), Prior(np.array(prior), 3.0))
    assert len(table.among_labels) == len(table.posterior) == 3
    distributions(table.among_labels, np.array(prior))
    weighed = table.out_of_class is not None
    assert weighed == fitted.none_of_these
    distributions(table.posterior, np.array([*prior, 1.0] if weighed else prior))
    assert np.isfinite(table.effective_simulations).all()
    assert table.effective_simulations.shape == table.tolerance.shape == table.entropy_bits.shape == (3,)
    assert ((table.typicality > 0) & (table.typicality <= 1)).all()
    if table.second_order is not None:
        np.testing.assert_allclose(table.second_order.mean.sum(axis=1), 1, atol=1e-6)
        assert (table.second_order.epistemic_bits >= -1e-9).all()
    if name not in SAMPLED | set(MODELS) and min(prior) > 0:  # whose weights are random ones
        assert table.among_labels.argmax(axis=1).tolist() == [0, 1, 2]


def test_texts_of_every_script(every: EveryMethod, name: str) -> None:
    """A model that is asked replies now right, now hostile, as the request has it."""
    replies = ("A", "B: 0.7\nA: 0.2\nC: 0.1", "", *SAMPLES)

    def reply(request: Request) -> str:
        return replies[case_key(str(request)) % len(replies)]

    seen = every.panel_data.observe([text for text in SAMPLES if text.strip()])
    asks = every.settings(name).simulator == "oracle"  # the others never see a reply: fitted once is enough
    fitted = every.fit(name, answer=reply) if asks else every[name]
    p = fitted.answer(seen, UNIFORM).among_labels
    assert len(p) == len(seen.texts)
    distributions(p, UNIFORM.probabilities, atol=1e-5)


def test_a_larger_prior_never_lowers_a_label(name: str, fitted: Fitted, panel_data: PanelData) -> None:
    seen = panel_data.observe(CASES)
    flat = fitted.answer(seen, UNIFORM).among_labels
    raised = fitted.answer(seen, Prior(np.array([0.1, 0.1, 0.8]), 3.0)).among_labels
    slack = 0.2 if name in SAMPLED else 1e-9  # thirty particles: twice their standard error of .09
    assert (raised[:, 2] >= flat[:, 2] - slack).all()


@pytest.mark.parametrize("name", REPEATABLE)
def test_neither_order_nor_batch_nor_repetition_matters(
    name: str, fitted: Fitted, panel_data: PanelData
) -> None:
    slack = 1e-9 if VARIANTS[name]["method"] == "auto" else 1e-6  # the recipe multiplies in double precision
    together, again = (fitted.answer(panel_data.observe(CASES), UNIFORM).among_labels for _ in range(2))
    np.testing.assert_allclose(again, together, rtol=0, atol=slack)
    backwards = fitted.answer(panel_data.observe(CASES[::-1]), UNIFORM).among_labels[::-1]
    np.testing.assert_allclose(backwards, together, rtol=0, atol=slack)
    tables = [fitted.answer(panel_data.observe([case]), UNIFORM) for case in CASES]
    alone = joined(tables)
    np.testing.assert_allclose(alone.among_labels, together, rtol=0, atol=slack)
    assert len(alone.posterior) == len(alone.typicality) == len(CASES)
    assert (alone.second_order is None) == (tables[0].second_order is None)


def test_it_is_what_it_declares(name: str, fitted: Fitted, panel_data: PanelData) -> None:
    method = VARIANTS[name]["method"]
    table = fitted.answer(panel_data.observe(CASES), UNIFORM)
    kernel = VARIANTS[name].get("kernel", "soft" if method == "auto" else "hard")
    assert fitted.kernel == (None if name in WITHOUT_KERNEL else kernel)
    assert not fitted.remote
    assert fitted.speed == ("fast" if name in FAST else "trained" if name == "abi" else "slow")
    assert fitted.proportional == (name in PROPORTIONAL)
    assert fitted.none_of_these == (table.out_of_class is not None)
    if fitted.speed != "slow":
        assert table.usage is None  # no model is asked, so that an explanation may ask hundreds of times


def test_a_remote_embedder_makes_any_method_remote(
    name: str, every: EveryMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_descend", lambda *args: None)  # nothing need be learned

    class Remote:
        """The panel_data's own embedder, said to be elsewhere."""

        remote = True

        def __getattr__(self, attribute: str) -> object:
            return getattr(every.panel_data.embedder, attribute)

    assert every.fit(name, replace(every.panel_data, embedder=Remote())).remote


@pytest.mark.parametrize("name", PROPORTIONAL)
def test_what_is_proportional_obeys_bayes_rule(fitted: Fitted, panel_data: PanelData) -> None:
    seen = panel_data.observe((*CASES, "an engine in the red river"))
    prior = np.array([0.7, 0.1, 0.2])
    expected = fitted.answer(seen, UNIFORM).among_labels * prior
    found = fitted.answer(seen, Prior(prior, 3.0)).among_labels
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", FAST)
def test_what_refits_answers_its_own_bank_held_out(name: str, every: EveryMethod) -> None:
    bank = every.panel_data.bank
    rows, answers = cross_fitted(every.panel_data, every.settings(name))
    assert sorted(rows.tolist()) == list(range(len(bank.texts)))
    right = answers.among_labels.argmax(axis=1) == bank.label_index[rows]
    assert right.mean() > 0.6  # chance is a third; zero-shot knows three names alone


def test_what_carried_an_answer_is_of_the_bank(fitted: Fitted, panel_data: PanelData) -> None:
    bank = panel_data.bank
    weights = fitted.evidence(panel_data.observe(CASES), UNIFORM)
    assert sorted(weights.rows.tolist()) == list(range(len(bank.texts)))
    assert np.array_equal(bank.label_index[weights.rows], weights.label_index)
    assert weights.distance.shape == (3, len(bank.texts))
    if weights.share is not None:
        assert fitted.kernel is not None
        assert weights.share.shape == weights.distance.shape
        np.testing.assert_allclose(weights.share.sum(axis=1), 1, atol=1e-5)
