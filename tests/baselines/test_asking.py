"""The four baselines that ask a language model, over a simulator that answers by rule."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.baselines import asking as wording
from simdx.baselines import interview as machine
from simdx.baselines.interview import Asking
from simdx.classifier import Classifier
from simdx.errors import BadInput, RunFailed
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods.fitted import AnswerTable
from simdx.simulators.base import Completion, Request, Simulator, TokenLogprobs
from tests.baselines.conftest import Oracle
from tests.contracts.variants import said

UNIFORM = Prior.uniform(3)
CALLS = {"logits": 3, "elicited": 1, "ensemble": 8, "fidelity": 10}
CASES = ("an apple fell", "down the river", "a loud engine", "another apple")
TRUTH = [0, 1, 2, 0]


def fitted(
    toy: PanelData, method: str, simulator: Simulator, monkeypatch: pytest.MonkeyPatch, **settings: object
) -> Asking:
    monkeypatch.setattr(machine, "simulator_for", lambda _: simulator)
    return fit_method(toy, replace(Settings(method=method, simulator="oracle"), **settings))


def oracle_for(method: str, **options: object) -> Oracle:
    return Oracle(answer=said if method == "elicited" else None, **options)


@pytest.mark.parametrize(("method", "calls"), CALLS.items())
def test_answers_are_kept_without_a_text_and_a_killed_run_goes_on(
    toy: PanelData, method: str, calls: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answered(oracle: Oracle, folder: str) -> AnswerTable:
        infer = fitted(toy, method, oracle, monkeypatch, replies=str(tmp_path / folder))
        return infer.answer(seen, UNIFORM)

    seen = toy.observe(CASES)
    table = answered(oracle_for(method), "replies")
    assert table.trace is None
    assert table.among_labels.argmax(axis=1).tolist() == TRUTH
    np.testing.assert_allclose(table.among_labels.sum(axis=1), 1)
    assert table.effective_simulations.tolist() == [calls] * 4
    assert (table.usage["simulator"], table.usage["readable"]) == ("oracle", 4 * calls)
    second = oracle_for(method)
    again = answered(second, "replies")
    assert not second.asked
    np.testing.assert_array_equal(again.among_labels, table.among_labels)
    written = "".join(path.read_text() for path in (tmp_path / "replies").iterdir())
    assert written
    assert not any(word in written for word in ("apple", "river", "engine", "diagnos"))
    # The server dies in the middle, and the kill leaves half a line behind.
    monkeypatch.setattr(machine, "GIVE_UP_AFTER", 2)
    with pytest.raises(RunFailed, match="2 requests in a row"):
        answered(oracle_for(method, fail=lambda n: n > 2, concurrency=1), "killed")
    (path,) = (tmp_path / "killed").iterdir()
    path.write_text(path.read_text() + '{"key": "half')
    well = oracle_for(method)
    assert answered(well, "killed").among_labels.argmax(axis=1).tolist() == TRUTH
    assert len(well.asked) == 4 * calls - 2


def test_questions_of_a_case_are_asked_in_turn(toy: PanelData, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Oracle(concurrency=1)
    fitted(toy, "ensemble", one, monkeypatch).ask(toy.observe(CASES))
    first_lines = [request.prompt.splitlines()[1] for request in one.asked]
    assert first_lines == [case for case in CASES for _ in range(8)]


def test_rotations_cancel_a_preference_for_places(toy: PanelData, monkeypatch: pytest.MonkeyPatch) -> None:
    biased = Oracle(bias=30.0)  # always says the first option, whatever it is
    infer = fitted(toy, "logits", biased, monkeypatch)
    table = infer.answer(toy.observe(CASES), UNIFORM)
    assert table.among_labels.argmax(axis=1).tolist() == TRUTH
    extras = table.usage
    assert extras["position_mass"][0] > 0.6
    assert sum(extras["position_mass"]) == pytest.approx(1, abs=1e-3)
    assert extras["order_changes_answer"] == 1.0
    fair = fitted(toy, "logits", Oracle(), monkeypatch)
    usage = fair.infer(toy.observe(CASES), UNIFORM).usage
    assert usage["order_changes_answer"] == 0.0
    with pytest.raises(BadInput, match="no log-probabilities"):
        fitted(toy, "logits", Oracle(logprobs=False), monkeypatch)


def test_unreadable_replies_are_counted_not_replaced(toy: PanelData, monkeypatch: pytest.MonkeyPatch) -> None:
    def mumble(request: Request) -> str:
        case = request.prompt.split("Possible")[0]
        return "It could be several things" if "river" in case else "A"

    infer = fitted(toy, "ensemble", Oracle(answer=mumble), monkeypatch)
    prior = Prior(np.array([0.2, 0.3, 0.5]), 3.0)
    table = infer.answer(toy.observe(CASES), prior)
    counts = {"replies": 32, "readable": 24, "failures": {"no letter": 8}, "unanswered_cases": 1}
    assert counts.items() <= table.usage.items()
    np.testing.assert_allclose(table.among_labels[1], prior.probabilities)
    assert table.effective_simulations.tolist() == [8, 0, 8, 8]


def test_fidelity_counts_samples_with_their_own_seeds(
    toy: PanelData, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = Oracle(answer=lambda request: "AB"[(request.seed or 0) % 2])
    infer = fitted(toy, "fidelity", sampler, monkeypatch, budget=16, seed=3)
    p = infer.answer(toy.observe(CASES[:2]), UNIFORM).among_labels
    assert len({request.seed for request in sampler.asked}) == 32
    np.testing.assert_allclose(p[:, 0] * 16, np.round(p[:, 0] * 16))  # shares of sixteen
    assert (p[:, 2] == 0).all()
    assert (p[:, :2] > 0).all()  # one of 2^16 that sixteen fair seeds agree
    alone = infer.answer(toy.observe(CASES[1:2]), UNIFORM).among_labels
    np.testing.assert_array_equal(alone[0], p[1])


def test_grammars_are_used_where_they_are_obeyed(toy: PanelData, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("elicited", "ensemble", "fidelity"):
        for able in (True, False):
            asked = oracle_for(method, grammars=able)
            fitted(toy, method, asked, monkeypatch).ask(toy.observe(CASES[:1]))
            assert all((request.grammar is not None) == able for request in asked.asked)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "calls"), {**CALLS, "fidelity": 4}.items())
def test_smollm2_is_asked_and_read(method: str, calls: int) -> None:
    """Real weights: small, weak, and still read strictly."""
    budget = 4 if method == "fidelity" else None
    door = Classifier("oral-lesions", method=method, simulator="smollm2", budget=budget)
    lip = "A painless, bluish, fluctuant swelling of the lower lip that came after biting it and fills."
    tongue = "The tongue has been smooth, red and sore for weeks; iron is low and the papillae are gone."
    seen = door.observe([lip, tongue])
    posterior, _, report, _ = door.fitted.infer(seen, UNIFORM)
    assert report["replies"] == 2 * calls
    assert report["prompt_tokens"] > 0
    # Grammars hold every reply to the form asked for, and letters are among its likeliest tokens.
    assert report["readable"] == report["replies"], report["failures"]
    np.testing.assert_allclose(posterior.probabilities.sum(axis=1), 1)


# --------------------------------------------------------------------------- replies

OPTIONS = ("oral mucocele", "atrophic glossitis", "cancer")


def test_letters_that_are_read_and_those_that_are_not() -> None:
    right = {"A": 0, " B.": 1, "(C)": 2, "B. atrophic glossitis": 1, "Cancer.": 2, "A: oral mucocele": 0}
    assert {text: wording.read_letter(text, OPTIONS) for text in right} == right
    wrong = ["", "D", "a", "The answer is A", "A or B", "B. oral mucocele", "A\nB", "Both", "1"]
    for text in (*wrong, "A cancer too"):
        with pytest.raises(wording.UnreadableReply):
            wording.read_letter(text, OPTIONS)


def test_guesses_that_are_read_and_those_that_are_not() -> None:
    for text, shares in {
        "B: 0.60\nA: 0.20\n": [0.2, 0.6, 0.1, 0.1],  # what is left is shared by the others
        "A: 1.00\nB: 0.60\nC: 0.40": [0.5, 0.3, 0.2, 0.0],  # above one: divided by the sum
        "A: .2\nB: 0.2\nC: 0": [0.5, 0.5, 0.0],
    }.items():
        assert wording.read_guesses(text, len(shares), len(text.splitlines())) == pytest.approx(shares)
    for text in (
        "", "A: 0.5", "A: 0.5\nA: 0.4", "A: 0.5\nD: 0.2", "A: 50%\nB: 20%", "A: 0\nB: 0", "A: 1.5\nB: 0.1",
        "1. A: 0.5\n2. B: 0.2", "A: 0.5\nB: 0.3\nC: 0.1",
    ):  # fmt: skip
        with pytest.raises(wording.UnreadableReply):
            wording.read_guesses(text, 3, 2)


def _tokens(*top: tuple[str, float]) -> Completion:
    return Completion("A", logprobs=(TokenLogprobs("A", 0.0, tuple((t, math.log(p)) for t, p in top)),))


def test_option_tokens() -> None:
    """With and without a space they are one; an unlisted option gets the bound; none at all is a failure."""
    twice = _tokens(("A", 0.2), (" A", 0.1), ("B", 0.1), ("The", 0.5))
    assert wording.read_option_tokens(twice, 2) == pytest.approx([0.75, 0.25])
    assert wording.read_option_tokens(_tokens(("A", 0.8), ("The", 0.1)), 2) == pytest.approx([8 / 9, 1 / 9])
    with pytest.raises(wording.UnreadableReply, match="no option"):
        wording.read_option_tokens(_tokens(("The", 0.8), ("I", 0.1)), 2)
    with pytest.raises(wording.UnreadableReply, match="no log-probabilities"):
        wording.read_option_tokens(Completion("A"), 2)


def test_the_case_and_its_options_come_before_the_instruction() -> None:
    prompts = [wording.multiple_choice("some text", OPTIONS, phrase) for phrase in wording.PARAPHRASES]
    assert len(set(prompts)) == 8
    beginning = prompts[0][: prompts[0].index("C. cancer")]
    assert all(prompt.startswith(beginning) for prompt in prompts)
    with pytest.raises(BadInput, match="26"):
        wording.multiple_choice("text", [f"label {i}" for i in range(27)], "choose")


def test_grammars_name_every_option_and_never_one_twice() -> None:
    assert wording.letter_grammar(3) == 'root ::= "A" | "B" | "C"'
    rules = dict(line.split(" ::= ") for line in wording.guesses_grammar(3, 2).splitlines())
    assert set(rules) == {"p", "root", "after-a", "after-b", "after-c"}
    assert '"B: "' not in rules["after-b"]
    assert rules["root"].count("after-") == 3
