"""Engines and devices behind the front door: the answers of the exact engine, and what is refused."""

from typing import Any

import numpy as np
import pytest

from simdx import Answer, BadInput, Classifier
from simdx.answer import SamplerAnswer
from simdx.methods.two_stage import FaissNeighbours
from simdx.types import Bank, Case, Panel
from tests.conftest import CUDA

# Texts without simulations at equal distance: torch's sort breaks such ties, numpy keeps them together.
TEXTS = [
    "red fruit juice",
    "the boat on the river bank",
    "oil and fuel in the motor",
    "a red engine with oil on the bridge and a current of juice",
]
DEVICES = ["torch:cpu", *(["cuda"] if CUDA else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ["soft", "hard"])
@pytest.mark.parametrize("method", ["m-smc", "d-smc"])
def test_the_device_changes_no_answer(
    toy_panel: Panel, toy_bank: Bank, method: str, kernel: str, device: str
) -> None:
    prior = {"apple": 0.2, "river": 0.5, "engine": 0.3}
    here, there = (
        Classifier(toy_panel, toy_bank, method=method, kernel=kernel, device=d).infer_batch(TEXTS, prior)
        for d in ("cpu", device)
    )
    # TF32 products on a GPU carry ten bits of mantissa.
    slack = 1e-4 if device == "torch:cpu" else 1e-2
    assert np.abs(here.posterior - there.posterior).max() < slack
    # A p-value is a rank among the bank's own distances: rounding can move it by a rank or two.
    assert np.abs(here.typicality - there.typicality).max() <= 2 / (1 + len(toy_bank.texts))
    if method == "d-smc":
        assert np.abs(here.second_order.epistemic_bits - there.second_order.epistemic_bits).max() < slack
        assert here.second_order.cap == there.second_order.cap


@pytest.mark.parametrize("kernel", ["soft", "hard"])
def test_two_stages_answer_as_the_exact_engine(toy_panel: Panel, toy_bank: Bank, kernel: str) -> None:
    exact, ours = (
        Classifier(toy_panel, toy_bank, method="m-smc", engine=e, kernel=kernel).infer_batch(TEXTS)
        for e in ("exact", "two-stage")
    )
    assert np.allclose(ours.posterior, exact.posterior, atol=1e-5)
    # Its typicality counts a repeated simulation each time it occurs; p-values are 37ths here.
    assert np.abs(ours.typicality - exact.typicality).max() < 0.35


def test_the_search_finds_neighbours_and_their_true_cosines() -> None:
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(50, 16))
    rows = np.repeat(centres, 60, axis=0) + 0.7 * rng.normal(size=(3000, 16))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    z = rows[::97] + 0.1 * rng.normal(size=rows[::97].shape)
    z = (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32)
    truth = np.argsort(-(z @ rows.T), axis=1)[:, :20]

    def recall(probes: int) -> float:
        found, cosine = FaissNeighbours(rows, cells=64, probes=probes).nearest(z, 20)
        there = found >= 0
        dots = np.einsum("nd,nkd->nk", z, rows[np.where(there, found, 0)])
        assert np.allclose(cosine[there], dots[there], atol=1e-5)
        return float(np.mean([len(set(f) & set(t)) / 20 for f, t in zip(found, truth, strict=True)]))

    assert recall(64) == 1.0
    assert recall(1) < recall(8) <= 1.0
    assert recall(8) > 0.9


@pytest.mark.parametrize("method", ["m-smc", "d-smc"])
@pytest.mark.parametrize("engine", ["live", "hybrid"])
def test_live_answers_are_counted_capped_and_repeatable(
    toy_panel: Panel, toy_bank: Bank, method: str, engine: str
) -> None:
    def ask() -> Answer:
        about = {"method": method, "engine": engine, "simulator": "scripted", "budget": 24, "seed": 1}
        return Classifier(toy_panel, toy_bank, **about).infer("the motor lost oil and the piston broke")

    answer = ask()
    live, sampler = answer.provenance.live, answer.provenance.sampler
    assert sum(step["simulations"] for step in sampler.steps) <= 24
    assert len(sampler.steps) == sampler.populations
    assert any("raise --budget" in note for note in answer.provenance.notes) == (sampler.outcome == "budget")
    assert (live["simulator"], live["cases"]) == ("scripted", 1)
    assert live["llm_calls"] <= 4 * 24  # a rejected text is asked for again, at most three times
    assert ask().posterior == ask().posterior


def test_the_live_sampler_reaches_its_last_population_unless_it_is_told_to_stop(
    toy_panel: Panel, toy_bank: Bank
) -> None:
    def ask(**more: Any) -> SamplerAnswer:
        about = {"method": "m-smc", "engine": "live", "simulator": "scripted", "seed": 1, **more}
        return Classifier(toy_panel, toy_bank, **about).infer("the motor lost oil").provenance.sampler

    assert ask().outcome in ("complete", "floor")  # of texts that repeat, the nearest is soon reached
    assert (ask(budget=40).outcome, ask(stop_acceptance=0.99).outcome) == ("budget", "acceptance")


def test_particles_run_every_population_and_heed_every_setting(toy_panel: Panel, toy_bank: Bank) -> None:
    def ask(**more: Any) -> Answer:
        return Classifier(toy_panel, toy_bank, method="m-smc", engine="particles", **more).infer(TEXTS[3])

    plain, stopped = ask(populations=3), ask(populations=3, stop_acceptance=0.99)
    assert plain.provenance.sampler.populations == 3
    assert (stopped.provenance.sampler.outcome, stopped.provenance.sampler.populations) == ("acceptance", 1)
    wide = ask(tolerance=2.0)  # everything lies within: the answer is the prior, up to S draws
    assert wide.provenance.tolerance == 2.0
    assert max(wide.posterior_in_class.values()) < 0.55
    assert ask(particles=20, stay=0.9).posterior_in_class != ask(particles=20, stay=0.1).posterior_in_class


CASE = Case("a boat", label="apple")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel": "hard"}, "m-smc"),
        ({"engine": "particles"}, "m-smc"),
        ({"engine": "live"}, "m-smc or d-smc"),
        ({"engine": "hybrid"}, "m-smc or d-smc"),
        ({"method": "m-smc", "engine": "live", "budget": 0}, "--budget"),
        ({"engine": "two-stage"}, "--method m-smc"),
        ({"tolerance": 0.3}, "--tolerance says nothing to auto"),
        ({"method": "m-smc", "particles": 50}, "--particles says nothing"),
        ({"method": "m-smc", "stop_acceptance": 0.2}, "--stop-acceptance says nothing"),
        ({"method": "d-smc", "engine": "particles", "stay": 0.3}, "--stay says nothing"),
        ({"method": "m-smc", "engine": "two-stage"}, "--kernel soft"),
        ({"method": "m-smc", "engine": "two-stage", "tolerance": 0.3}, "absolute tolerance"),
        ({"device": "cuda"}, "exact engines of m-smc and d-smc"),
        ({"device": "cuda", "method": "m-smc", "engine": "particles"}, "exact engines of m-smc and d-smc"),
        ({"device": "cuda", "method": "centroid"}, "exact engines of m-smc and d-smc"),
        ({"device": "torch:cpu", "method": "m-smc", "tolerance": 0.2}, "absolute tolerance"),
        ({"device": "cuda:77", "method": "m-smc"}, "no working device"),
        ({"device": "nonsense", "method": "m-smc"}, "no working device"),
        ({"device": "torch:", "method": "m-smc"}, "no working device"),
        ({"real_cases": [CASE], "method": "m-smc"}, "for --method auto"),
        ({"real_cases": [Case("x", label="pear")]}, "no label of panel"),
        ({"real_cases": [Case(" ", label="apple")]}, "is empty"),
        ({"real_cases": [CASE], "real_weight": 0.0}, "above 0"),
        ({"real_cases": [Case("a lamp", label="none of these")]}, "no background to join"),
        ({"unlabelled": "one text"}, "a list of texts"),
        ({"unlabelled": [None]}, "unlabelled case 1 is not a string"),
        ({"unlabelled": ["a sore", "  "]}, "unlabelled case 2 is empty"),
        ({"unlabelled": ["\ud800"]}, "unlabelled case 1 holds half a character"),
        ({"unlabelled": [], "unlabelled_weight": 2.0}, "no such case"),
        ({"unlabelled": ["a boat"], "unlabelled_weight": -1.0}, "cannot count as"),
        ({"unlabelled": ["a boat"], "unlabelled_weight": float("nan")}, "cannot count as"),
    ],
)
def test_what_is_refused(toy_panel: Panel, toy_bank: Bank, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        Classifier(toy_panel, toy_bank, **settings)
    assert "boat" not in str(refused.value)
