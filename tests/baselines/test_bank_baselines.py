"""The baselines over a bank: what is particular to each; what holds of every method is in tests/contracts."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import similarity_scores, supervised_ceiling, temperature_scaled
from simdx.datasets.dataset import Dataset
from simdx.embedders import get_embedder
from simdx.errors import BadInput, MissingExtra, NotAllowed
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods.logistic import choose_penalty, fit_logistic
from simdx.methods.real_cases import with_real
from simdx.types import Bank, Case, Panel
from simdx_contrib import tuning
from simdx_contrib.entailment import hub_model
from tests import builders
from tests.baselines.conftest import tiny_gliclass, tiny_nli

NAMES = ("centroid", "tfidf", "zero-shot", "bank-logistic")
CASES = ("sweet red fruit from the orchard", "the boat under the bridge", "piston and torque of the motor")


@pytest.fixture
def panel_data(toy_panel: Panel, private_home: object) -> PanelData:
    said = ("sweet fruit of a tree", "water with boat and bridge", "motor with piston")
    pairs = zip(toy_panel.labels, said, strict=True)
    described = tuple(replace(label, description=text) for label, text in pairs)
    return builders.panel_data(replace(toy_panel, labels=described))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [None, "soft"])
def test_the_prior_multiplies_the_odds(panel_data: PanelData, name: str, kernel: str | None) -> None:
    infer, seen = fit_method(panel_data, Settings(method=name, kernel=kernel)), panel_data.observe(CASES)
    prior = np.array([0.5, 0.3, 0.2])
    flat, skewed = (infer.answer(seen, Prior(p, 3.0)).among_labels for p in (np.full(3, 1 / 3), prior))
    expected = flat * prior
    np.testing.assert_allclose(skewed, expected / expected.sum(axis=1, keepdims=True))


def test_similarities_become_scores_as_stated() -> None:
    similarity = np.array([[0.6, 0.3, -0.1]])
    np.testing.assert_allclose(similarity_scores(similarity, None, None), [[2 / 3, 1 / 3, 0]])
    weights = np.exp(similarity / 0.1)
    np.testing.assert_allclose(similarity_scores(similarity, "soft", 0.1), weights / weights.sum())


def test_tfidf_answers_a_case_without_a_known_word_by_the_prior(panel_data: PanelData) -> None:
    prior = Prior(np.array([0.6, 0.3, 0.1]), 3.0)
    for kernel in ("hard", "soft"):
        infer = fit_method(panel_data, Settings(method="tfidf", kernel=kernel))
        table = infer.answer(panel_data.observe(["zzzz yyyy"]), prior)
        np.testing.assert_allclose(table.among_labels[0], prior.probabilities)
        assert table.effective_simulations[0] == 0


def test_tfidf_by_hand(toy_panel: Panel, private_home: object) -> None:
    """Counts times log inverse frequencies, rows of unit length, and the cosine to each label's mean row."""
    bank = Bank("toy", toy_panel.names, ("Red fruit", "a red boat", "water water"), np.arange(3), name="toy")
    panel_data = PanelData.prepare(toy_panel, bank, get_embedder("hashing"))
    seen = panel_data.observe(["RED fruit unknown"])
    table = fit_method(panel_data, Settings(method="tfidf")).answer(seen, Prior.uniform(3))
    once, twice = np.log(4 / 2) + 1, np.log(4 / 3) + 1  # of a word in one text, and in two
    length = np.hypot(twice, once)  # "a" is no word: it has one letter
    cosine = np.array([1.0, twice**2 / length**2, 0.0])
    np.testing.assert_allclose(table.among_labels[0], cosine / cosine.sum())
    wordless = PanelData.prepare(toy_panel, replace(bank, texts=("a", "b", "?")), get_embedder("hashing"))
    with pytest.raises(BadInput, match="no word of two letters"):
        fit_method(wordless, Settings(method="tfidf"))


def test_logistic_agrees_with_scikit_learn_and_ignores_how_full_a_label_is() -> None:
    rng, y = np.random.default_rng(3), np.repeat(np.arange(3), 20)
    x = rng.normal(size=(60, 5)) + np.eye(5)[y]
    ours = fit_logistic(x, y, 3, penalty=0.5).probabilities(x)
    theirs = LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(x, y).predict_proba(x)
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    x, y = x[:40], y[:40]
    one = fit_logistic(x, y, 2, penalty=1.0)
    # the penalty is per row, so 60 rows need 1.5 times as much to weigh the same
    two = fit_logistic(np.concatenate([x, x[:20]]), np.concatenate([y, y[:20]]), 2, penalty=1.5)
    np.testing.assert_allclose(one.probabilities(x), two.probabilities(x), atol=1e-3)
    noise, y = rng.normal(size=(60, 30)), rng.integers(0, 3, size=60)
    assert choose_penalty(noise, y, 3, seed=0) == 3.0  # the strongest


def test_the_ceiling_learns_what_is_there_and_nothing_from_a_copy() -> None:
    rng, y = np.random.default_rng(2), np.repeat(np.arange(3), 30)
    x = rng.normal(size=(90, 6)) + 4 * np.eye(6)[y]
    p = supervised_ceiling(x, y, 3, [f"text {i}" for i in range(90)])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == y).mean() > 0.9
    # Every text occurs twice with a random label: only a leak between folds could beat chance.
    base = np.random.default_rng(4).normal(size=(60, 200))
    y = np.tile(np.repeat(np.arange(2), 30), 2)
    texts = [f"Text {i}" for i in range(60)] + [f"text  {i}" for i in range(60)]
    p = supervised_ceiling(np.concatenate([base, base]), y, 2, texts)
    # 60 independent units at chance .5: standard error .065, so .76 is four of them away
    assert (p.argmax(axis=1) == y).mean() < 0.76
    with pytest.raises(BadInput, match="at least 5"):
        supervised_ceiling(np.eye(4), np.array([0, 0, 1, 1]), 2, list("abcd"))


def test_temperature_is_fitted_on_one_part_and_applied_to_the_other() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=400)
    said = np.where(rng.random(400) < 0.7, y, 1 - y)  # right seven times in ten, says .99
    p = np.where(said[:, None] == np.arange(2), 0.99, 0.01)
    cases = tuple(Case(text=f"case {i}", id=str(i), label="ab"[k]) for i, k in enumerate(y.tolist()))
    scaled = temperature_scaled(p, Dataset("toy", cases, ("a", "b")), ("a", "b"))
    assert len(scaled.kept) == 320
    assert scaled.temperature.n == 80
    assert scaled.temperature.value > 2
    # binomial error of a share of .7 on 80 cases is .05: three of them
    assert abs(scaled.probabilities.max(axis=1).mean() - 0.7) < 0.15


# --------------------------------------------------------------------------- fine-tuned, or of the hub

UNIFORM = Prior.uniform(3)
NONSENSE = ["zorp flim", "quax brell", "vint oskar"]


@pytest.fixture
def plain(toy_panel: Panel, toy_bank: Bank) -> PanelData:  # in the home where the weights are
    return PanelData.prepare(toy_panel, toy_bank, get_embedder("hashing"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["setfit", "zerogen"])
def test_the_bank_is_what_is_learned(plain: PanelData, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that mean nothing to the encoder get the label they have in the bank, whichever that is."""
    monkeypatch.setattr(tuning, "RATE", 2e-4)  # so that a few steps are enough
    monkeypatch.setattr(tuning, "EPOCHS", 3)
    texts = tuple(f"{word} {i}" for word in NONSENSE for i in range(8))
    order = [2, 0, 1]
    bank = replace(plain.bank, texts=texts, label_index=np.repeat(order, 8))
    own = PanelData.prepare(plain.panel, bank, plain.embedder)
    fitted = fit_method(own, Settings(method=method))
    p = fitted.answer(plain.observe([f"{word} 9" for word in NONSENSE]), UNIFORM).posterior
    assert p.argmax(axis=1).tolist() == order


@pytest.mark.slow
def test_few_shot_learns_from_labelled_cases_alone(plain: PanelData) -> None:
    told = zip(NONSENSE, plain.panel.names, strict=True)
    cases = [Case(f"{word} {i}", label=label) for word, label in told for i in (1, 2)]
    fitted = fit_method(with_real(plain, cases), Settings(method="setfit-real"))
    p = fitted.answer(plain.observe(NONSENSE), UNIFORM).posterior
    assert p.argmax(axis=1).tolist() == [0, 1, 2]
    with pytest.raises(BadInput, match="give some with --real"):
        fit_method(plain, Settings(method="setfit-real"))
    with pytest.raises(BadInput, match="needs a case of 'engine'"):
        fit_method(with_real(plain, cases[:4]), Settings(method="setfit-real"))


def test_entailment_scores_every_label(plain: PanelData, tmp_path: Path) -> None:
    fitted = fit_method(plain, Settings(method="nli", simulator=tiny_nli(tmp_path)))
    observed = plain.observe(["red apple", "water"])
    p = fitted.answer(observed, UNIFORM).posterior
    # as transformers' own pipeline has it
    from transformers import pipeline

    theirs = pipeline("zero-shot-classification", model=str(tmp_path), device="cpu")
    for i, text in enumerate(observed.texts):
        said = theirs(text, list(plain.panel.names), hypothesis_template="This text is about {}.")
        own = dict(zip(plain.panel.names, p[i], strict=True))
        assert own == pytest.approx(dict(zip(said["labels"], said["scores"], strict=True)), abs=1e-5)


def test_gliclass_gives_every_label_what_its_library_gives_the_first(
    plain: PanelData, tmp_path: Path
) -> None:
    fitted = fit_method(plain, Settings(method="gliclass", simulator=tiny_gliclass(tmp_path)))
    long = "red apple " * 200
    observed = plain.observe(["red apple", "water", "motor river", long, "red apple " * 11 + "red"])
    p = fitted.answer(observed, UNIFORM).posterior
    assert len({tuple(row) for row in p.round(6).tolist()}) == 4  # a long case is cut before its labels
    np.testing.assert_allclose(p[3], p[4], atol=1e-6)
    from gliclass import GLiClassModel, ZeroShotClassificationPipeline
    from transformers import AutoTokenizer

    model, tokenizer = (kind.from_pretrained(tmp_path) for kind in (GLiClassModel, AutoTokenizer))
    how = {"classification_type": "single-label", "device": "cpu", "progress_bar": False}
    theirs = ZeroShotClassificationPipeline(model, tokenizer, **how)
    for row, told in zip(p, theirs(observed.texts[:3], list(plain.panel.names)), strict=False):
        assert plain.panel.names[row.argmax()] == told[0]["label"]
        assert row.max() == pytest.approx(told[0]["score"], abs=1e-5)


@pytest.mark.parametrize("method", ["nli", "gliclass"])
def test_refusals(method: str, plain: PanelData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdx.models.hub.hub_answers", lambda: False)
    (tmp_path / "none").mkdir()
    (tmp_path / "other").mkdir()
    tiny_nli(tmp_path / "other", labels=("spam", "ham", "eggs"))
    with pytest.raises(NotAllowed, match="the Hugging Face hub would be asked"):
        fit_method(plain, Settings(method=method, simulator="owner/name@v1"))
    for simulator, said in {
        None: "needs a model: --simulator OWNER/NAME@REVISION",
        "owner/name@v1": "cannot be reached",
        str(tmp_path / "none"): "could not be loaded",
        str(tmp_path / "other"): "no entailment label" if method == "nli" else "could not be loaded",
    }.items():
        with pytest.raises(BadInput, match=said):
            fit_method(plain, Settings(method=method, simulator=simulator, allow_remote=True))
    monkeypatch.setitem(sys.modules, "gliclass" if method == "gliclass" else "transformers", None)
    with pytest.raises(MissingExtra, match=r"gliclass|transformers"):
        fit_method(plain, Settings(method=method, simulator=str(tmp_path / "none")))
    # A hub name may pin its revision.
    monkeypatch.setattr("simdx_contrib.entailment.may_ask", lambda name, allowed: True)
    for named, pinned in {"owner/name@v1": {"revision": "v1"}, "owner/name": {}}.items():
        assert hub_model("nli", Settings(simulator=named)) == ("owner/name", pinned, True)
