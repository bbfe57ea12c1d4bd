"""The likelihood method and the three voices, with a density over words and an oracle that is asked."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.baselines import interview
from simdx.classifier import Classifier
from simdx.cli.output import prepare
from simdx.methods import PanelData
from simdx.methods.fitted import Settings
from simdx.panels import load_panel
from simdx.types import Float, Label, Panel
from simdx_contrib import likelihood
from simdx_contrib.likelihood import (
    WINDOW_WORDS,
    Likelihood,
    fit_temperature,
    mixture,
    posterior_under,
    windows,
)
from simdx_contrib.prompts import PROMPTS_PER_LABEL, scoring_prompts
from simdx_contrib.voices import pooled
from tests.amortised.conftest import toy_panel_data
from tests.baselines.conftest import Oracle, WordDensity
from tests.conftest import ROOT

UNIFORM = Prior.uniform(3)
CASE = "sweet red apple from the orchard"


@pytest.fixture
def panel_data(private_home: Path) -> PanelData:
    return toy_panel_data(embedder="wordllama")


@pytest.fixture
def density(monkeypatch: pytest.MonkeyPatch) -> WordDensity:
    made = WordDensity()
    monkeypatch.setattr(likelihood, "open_scorer", lambda _: made)
    monkeypatch.setattr(interview, "simulator_for", lambda _: Oracle())
    return made


@pytest.mark.parametrize("panel", ["oral-lesions", "symptom-to-diagnosis", "case-reports"])
def test_prompts_name_a_label_and_neutral_ones_do_not(panel: str) -> None:
    loaded = load_panel(panel)
    prompts = scoring_prompts(loaded)
    assert len(set(prompts.all)) == len(prompts.all) == PROMPTS_PER_LABEL * len(loaded.names) + 2
    for label, own in zip(loaded.labels, prompts.of_labels, strict=True):
        assert all(label.name in prompt for prompt in own)
        assert label.description.strip() in own[2]
        assert not any(label.name in prompt for prompt in prompts.neutral)


def test_a_panel_of_messages_speaks_of_its_own_kind_of_text() -> None:
    panel = Panel("p", (Label("pto_request"), Label("b")), description="Short requests.", register="general")
    prompts = scoring_prompts(panel)
    assert all("Short requests." in prompt for prompt in prompts.all)
    assert "pto request" in prompts.of_labels[0][0]  # words, as a person would say them


def test_long_texts_are_read_in_windows_and_short_ones_whole() -> None:
    assert windows(" a  b ") == ["a  b"]
    long = " ".join(f"w{i}" for i in range(WINDOW_WORDS * 9))
    assert [len(w.split()) for w in windows(long)] == [WINDOW_WORDS] * 4
    assert windows(long)[0].startswith("w0 ")


def test_scores_are_kept_by_content_and_no_word_of_a_case_is_written(
    panel_data: PanelData, density: WordDensity, tmp_path: Path, private_home: Path
) -> None:
    settings = Settings(method="likelihood", replies=str(tmp_path / "replies"))
    seen = panel_data.observe([CASE])
    first = Likelihood(panel_data, settings, density).answer(seen, UNIFORM).posterior
    asked = len(density.scored)
    again = Likelihood(panel_data, settings, density).answer(seen, UNIFORM).posterior
    assert len(density.scored) == asked  # neither the case nor the bank's texts a second time
    np.testing.assert_allclose(again, first)
    for folder in (tmp_path / "replies", private_home / "scores"):
        written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert written
        assert b"orchard" not in written


def test_a_stopped_set_up_goes_on_and_its_cost_is_told_in_seconds(
    panel_data: PanelData, density: WordDensity, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(WordDensity):
        def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
            for number, row in enumerate(super().score(prompts, texts)):
                if number == 3:
                    raise KeyboardInterrupt
                yield row

    settings, seen = Settings(method="likelihood"), list[tuple[int, int]]()
    first = Likelihood(panel_data, settings, Stopped())
    total = first.unprepared()
    assert (total, "12 simulated texts first, once for this bank and model" in first.cost()) == (12, True)
    with pytest.raises(KeyboardInterrupt):
        first.prepare(lambda done, of: seen.append((done, of)))
    assert seen == [(1, 12), (2, 12), (3, 12)]
    again = Likelihood(panel_data, settings, density)
    assert again.unprepared() == 9
    assert re.search(
        r"about \d+ s for one of 100 words; 9 simulated texts first.*, about \d+ s$", again.cost()
    )
    prepare(again)
    assert len(density.scored) == 9
    assert not again.unprepared()
    assert "simulated texts" not in again.cost()
    density.faster = "hf:words"  # type: ignore[attr-defined]
    assert again.cost().endswith("(faster: --simulator hf:words)")


def test_what_no_label_explains_is_none_of_these(panel_data: PanelData, density: WordDensity) -> None:
    """As probable under the neutral prompts as under any label: the prior mass of none of these stays."""
    fitted = Likelihood(panel_data, Settings(method="likelihood"), density)
    inside, outside = fitted.out_of_class(panel_data.observe([CASE, "zzz qqq xxx"]), UNIFORM)
    assert inside < outside
    assert outside == pytest.approx(likelihood.NONE_PRIOR)
    stated = replace(panel_data, bank=replace(panel_data.bank, none_prior=0.3))
    assert Likelihood(stated, Settings(method="likelihood"), density).out_of_class(
        panel_data.observe(["zzz qqq xxx"]), UNIFORM
    ) == pytest.approx(0.3)


def test_the_temperature_is_the_one_simulated_text_wants() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3)) * 2
    truth = np.array([rng.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in logits])
    assert fit_temperature(logits, truth) == pytest.approx(1.0, abs=0.08)
    assert fit_temperature(logits * 3, truth) == pytest.approx(3.0, abs=0.25)


def test_a_text_longer_than_the_banks_is_told_with_less_confidence(
    panel_data: PanelData, density: WordDensity
) -> None:
    """Twice the same words say as much as once: only √2 of their log odds are taken, not 2."""
    fitted = Likelihood(panel_data, Settings(method="likelihood"), density)
    fitted.temperature = 1.5
    usual = "sweet red apple " * 2
    fitted.usual_length = 6.0
    once, twice = fitted.tempered([usual, usual * 2]).labels
    assert np.ptp(once) == pytest.approx(np.ptp(fitted.scores([usual]).labels[0]) / 1.5)
    assert np.ptp(twice) == pytest.approx(np.sqrt(2) * np.ptp(once))
    assert np.ptp(fitted.tempered(["sweet red apple"]).labels[0]) == pytest.approx(np.ptp(once) / 2)
    fitted = Likelihood(panel_data, Settings(method="likelihood"), density)
    words = [len(text.split()) for text in panel_data.bank.texts]
    assert fitted.usual_length == pytest.approx(np.mean(words))


def test_a_pool_of_equals_is_as_sure_as_each_and_a_checklist_counts_half() -> None:
    sure = np.log(np.array([[0.7, 0.2, 0.1]]))
    other = np.log(np.array([[0.1, 0.2, 0.7]]))
    np.testing.assert_allclose(
        np.exp(pooled(dict.fromkeys(("simulate", "likelihood", "ask"), sure))), np.exp(sure)
    )
    prose = pooled({"simulate": sure, "likelihood": other}, np.array([False]))
    listed = pooled({"simulate": sure, "likelihood": other}, np.array([True]))
    assert prose[0, 0] == pytest.approx(prose[0, 2])
    assert listed[0, 0] > listed[0, 2]


def test_each_voice_is_told_and_most_against_the_answer_raise_the_alarm(
    panel_data: PanelData, density: WordDensity, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Classifier(panel_data.panel, panel_data.bank, method="voices", embedder=panel_data.embedder)
    answer = door.infer(CASE)
    told = answer.to_json()
    assert list(told["voices"]) == ["simulate", "likelihood", "ask"]
    for posterior in told["voices"].values():
        assert sum(posterior.values()) == pytest.approx(1)
    assert {"voice: simulate", "voice: likelihood", "voice: ask"} <= {
        v["view"] for v in told["alarm"]["views"]
    }
    assert json.dumps(told)
    assert answer.label == "apple"
    # A pool may follow one loud voice: then the others' agreement against it must be seen.
    quiet = np.array([[0, 0.1, 0]])
    loud = {"simulate": np.array([[9.0, 0, 0]]), "likelihood": quiet, "ask": quiet}
    monkeypatch.setattr(door.fitted, "heard", lambda _: loud)
    outvoted = door.infer(CASE)
    assert outvoted.label == "apple"
    assert outvoted.alarm.flag


def load_study() -> ModuleType:
    """The script beside the record."""
    spec = spec_from_file_location("study", ROOT / "results" / "voices" / "study.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_record_is_what_the_pool_makes_of_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study()

    record = json.loads((ROOT / study.FOLDER / "record.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(study, "SCORES", ROOT / study.SCORES)
    monkeypatch.setattr(study, "RESAMPLES", 2)
    for panel in ("oral-lesions", "symptom-to-diagnosis", "clinc10"):
        found = study.measure(panel)["voices"]
        for name, told in record["panels"][panel]["voices"].items():
            for key in ("accuracy", "ece", "none_auroc"):
                assert found[name].get(key) == pytest.approx(told.get(key), abs=1e-3)


def test_the_exact_posterior_is_calibrated_on_texts_of_the_models_own() -> None:
    """1,200 texts that Qwen2.5-Coder-1.5B wrote from the scoring prompts, with its scores of them."""
    study = load_study()

    kept = np.load(ROOT / study.SCORES / "symptom-to-diagnosis.fresh.npz")
    p = posterior_under(mixture(kept["scores"], 6).labels, Prior.uniform(6))
    right, sure = p.argmax(axis=1) == kept["label"], p.max(axis=1)
    spread = float(np.sqrt((sure * (1 - sure)).sum())) / len(right)
    assert abs(right.mean() - sure.mean()) < 3 * spread
    assert study.accuracy_and_ece(p, kept["label"])[1] < 0.02
