"""Engines behind the front door: the answers of the exact engine, and what is refused."""

from typing import Any

import pytest

from simdx import Answer, BadInput
from simdx.answer import SamplerAnswer
from simdx.types import Case
from tests.builders import toy_classifier

TEXTS = [
    "red fruit juice",
    "the boat on the river bank",
    "oil and fuel in the motor",
    "a red engine with oil on the bridge and a current of juice",
]


@pytest.mark.parametrize("method", ["m-smc", "d-smc"])
def test_live_answers_are_counted_capped_and_repeatable(method: str) -> None:
    def ask() -> Answer:
        about = {"method": method, "engine": "live", "simulator": "scripted", "budget": 24, "seed": 1}
        return toy_classifier(**about).infer("the motor lost oil and the piston broke")

    answer = ask()
    live, sampler = answer.provenance.live, answer.provenance.sampler
    assert sum(step["simulations"] for step in sampler.steps) <= 24
    assert len(sampler.steps) == sampler.populations
    assert any("raise --budget" in note for note in answer.provenance.notes) == (sampler.outcome == "budget")
    assert (live["simulator"], live["cases"]) == ("scripted", 1)
    assert live["llm_calls"] <= 4 * 24  # a rejected text is asked for again, at most three times
    assert ask().posterior == ask().posterior


def test_the_live_sampler_reaches_its_last_population_unless_it_is_told_to_stop() -> None:
    def ask(**more: Any) -> SamplerAnswer:
        about = {"method": "m-smc", "engine": "live", "simulator": "scripted", "seed": 1, **more}
        return toy_classifier(**about).infer("the motor lost oil").provenance.sampler

    assert ask().outcome in ("complete", "floor")  # of texts that repeat, the nearest is soon reached
    assert (ask(budget=40).outcome, ask(stop_acceptance=0.99).outcome) == ("budget", "acceptance")


def test_particles_run_every_population_and_heed_every_setting() -> None:
    def ask(**more: Any) -> Answer:
        return toy_classifier(method="m-smc", engine="particles", **more).infer(TEXTS[3])

    plain, stopped = ask(populations=3), ask(populations=3, stop_acceptance=0.99)
    assert plain.provenance.sampler.populations == 3
    assert (stopped.provenance.sampler.outcome, stopped.provenance.sampler.populations) == ("acceptance", 1)
    wide = ask(tolerance=2.0)  # everything lies within: the answer is the prior, up to S draws
    assert wide.provenance.tolerance == 2.0
    assert max(wide.among_labels.values()) < 0.55
    assert ask(particles=20, stay=0.9).among_labels != ask(particles=20, stay=0.1).among_labels


CASE = Case("a boat", label="apple")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel": "hard"}, "m-smc"),
        ({"engine": "particles"}, "m-smc"),
        ({"engine": "live"}, "m-smc or d-smc"),
        ({"method": "m-smc", "engine": "live", "budget": 0}, "--budget"),
        ({"tolerance": 0.3}, "--tolerance has no effect on auto"),
        ({"method": "m-smc", "particles": 50}, "--particles has no effect"),
        ({"method": "m-smc", "stop_acceptance": 0.2}, "--stop-acceptance has no effect"),
        ({"method": "d-smc", "engine": "particles", "stay": 0.3}, "--stay has no effect"),
        ({"real_cases": [CASE], "method": "m-smc"}, "for --method auto"),
        ({"real_cases": [Case("x", label="pear")]}, "no label of panel"),
        ({"real_cases": [Case(" ", label="apple")]}, "is empty"),
        ({"real_cases": [CASE], "real_weight": 0.0}, "above 0"),
        ({"real_cases": [Case("a lamp", label="none of these")]}, "all real cases are none of these"),
        ({"unlabelled": "one text"}, "a list of texts"),
        ({"unlabelled": [None]}, "unlabelled case 1 is not a string"),
        ({"unlabelled": ["a sore", "  "]}, "unlabelled case 2 is empty"),
        ({"unlabelled": ["\ud800"]}, "unlabelled case 1 holds half a character"),
        ({"unlabelled": [], "unlabelled_weight": 2.0}, "needs unlabelled cases"),
        ({"unlabelled": ["a boat"], "unlabelled_weight": -1.0}, "cannot count as"),
        ({"unlabelled": ["a boat"], "unlabelled_weight": float("nan")}, "cannot count as"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        toy_classifier(**settings)
    assert "boat" not in str(refused.value)
