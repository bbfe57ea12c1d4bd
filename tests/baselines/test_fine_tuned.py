"""Baselines that fine-tune an encoder or ask an NLI model: what they learn, and what they refuse."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.baselines import tuning
from simdx.baselines.entailment import hub_model
from simdx.embedders import get_embedder
from simdx.errors import BadInput, MissingExtra
from simdx.fitting import fit_method
from simdx.methods import Material, Settings
from simdx.methods.real import with_real
from simdx.types import Bank, Case, Panel
from tests.baselines.conftest import tiny_gliclass, tiny_nli

UNIFORM = Prior.uniform(3)
CASES = ["an orchard full of fruit", "the flood took the bridge", "the valve and the piston"]
NONSENSE = ["zorp flim", "quax brell", "vint oskar"]


@pytest.fixture
def material(toy_panel: Panel, toy_bank: Bank) -> Material:
    return Material.prepare(toy_panel, toy_bank, get_embedder("hashing"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["setfit", "zerogen"])
def test_the_bank_is_what_is_learned(
    material: Material, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that mean nothing to the encoder get the label they have in the bank, whichever that is."""
    monkeypatch.setattr(tuning, "RATE", 2e-4)  # so that a few steps are enough
    monkeypatch.setattr(tuning, "EPOCHS", 3)
    texts = tuple(f"{word} {i}" for word in NONSENSE for i in range(8))
    order = [2, 0, 1]
    bank = replace(material.bank, texts=texts, label_index=np.repeat(order, 8))
    own = Material.prepare(material.panel, bank, material.embedder)
    fitted = fit_method(own, Settings(method=method))
    p = fitted.answer(material.observe([f"{word} 9" for word in NONSENSE]), UNIFORM).posterior
    assert p.argmax(axis=1).tolist() == order


@pytest.mark.slow
def test_few_shot_learns_from_labelled_cases_alone(material: Material) -> None:
    told = zip(NONSENSE, material.panel.names, strict=True)
    cases = [Case(f"{word} {i}", label=label) for word, label in told for i in (1, 2)]
    fitted = fit_method(with_real(material, cases), Settings(method="setfit-real"))
    p = fitted.answer(material.observe(NONSENSE), UNIFORM).posterior
    assert p.argmax(axis=1).tolist() == [0, 1, 2]
    with pytest.raises(BadInput, match="give some with --real"):
        fit_method(material, Settings(method="setfit-real"))
    with pytest.raises(BadInput, match="needs a case of 'engine'"):
        fit_method(with_real(material, cases[:4]), Settings(method="setfit-real"))


def test_entailment_scores_every_label(material: Material, tmp_path: Path) -> None:
    fitted = fit_method(material, Settings(method="nli", simulator=tiny_nli(tmp_path)))
    observed = material.observe(["red apple", "water"])
    p = fitted.answer(observed, UNIFORM).posterior
    # as transformers' own pipeline has it
    from transformers import pipeline

    theirs = pipeline("zero-shot-classification", model=str(tmp_path), device="cpu")
    for i, text in enumerate(observed.texts):
        said = theirs(text, list(material.panel.names), hypothesis_template="This text is about {}.")
        own = dict(zip(material.panel.names, p[i], strict=True))
        assert own == pytest.approx(dict(zip(said["labels"], said["scores"], strict=True)), abs=1e-5)


def test_gliclass_gives_every_label_what_its_library_gives_the_first(
    material: Material, tmp_path: Path
) -> None:
    fitted = fit_method(material, Settings(method="gliclass", simulator=tiny_gliclass(tmp_path)))
    long = "red apple " * 200
    observed = material.observe(["red apple", "water", "motor river", long, "red apple " * 11 + "red"])
    p = fitted.answer(observed, UNIFORM).posterior
    assert len({tuple(row) for row in p.round(6).tolist()}) == 4  # a long case is cut before its labels
    np.testing.assert_allclose(p[3], p[4], atol=1e-6)
    from gliclass import GLiClassModel, ZeroShotClassificationPipeline
    from transformers import AutoTokenizer

    model, tokenizer = (kind.from_pretrained(tmp_path) for kind in (GLiClassModel, AutoTokenizer))
    how = {"classification_type": "single-label", "device": "cpu", "progress_bar": False}
    theirs = ZeroShotClassificationPipeline(model, tokenizer, **how)
    for row, told in zip(p, theirs(observed.texts[:3], list(material.panel.names)), strict=False):
        assert material.panel.names[row.argmax()] == told[0]["label"]
        assert row.max() == pytest.approx(told[0]["score"], abs=1e-5)


@pytest.mark.parametrize("method", ["nli", "gliclass"])
def test_refusals(method: str, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdx.baselines.entailment.hub_answers", lambda: False)
    (tmp_path / "none").mkdir()
    (tmp_path / "other").mkdir()
    tiny_nli(tmp_path / "other", labels=("spam", "ham", "eggs"))
    for simulator, said in {
        None: "needs a model: --simulator OWNER/NAME@REVISION",
        "owner/name@v1": "cannot be reached",
        str(tmp_path / "none"): "could not be loaded",
        str(tmp_path / "other"): "no entailment label" if method == "nli" else "could not be loaded",
    }.items():
        with pytest.raises(BadInput, match=said):
            fit_method(material, Settings(method=method, simulator=simulator))
    monkeypatch.setitem(sys.modules, "gliclass" if method == "gliclass" else "transformers", None)
    with pytest.raises(MissingExtra, match=r"gliclass|transformers"):
        fit_method(material, Settings(method=method, simulator=str(tmp_path / "none")))
    # A hub name may pin its revision.
    monkeypatch.setattr("simdx.baselines.entailment.hub_answers", lambda: True)
    assert hub_model("nli", "owner/name@v1") == ("owner/name", {"revision": "v1"}, True)
    assert hub_model("nli", "owner/name") == ("owner/name", {}, True)
