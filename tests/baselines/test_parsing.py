"""Strict reading: what counts as an answer, and what does not."""

import math

import pytest

from simdx.baselines.wording import (
    PARAPHRASES,
    UnreadableReply,
    guesses_grammar,
    letter_grammar,
    multiple_choice,
    read_guesses,
    read_letter,
    read_option_tokens,
)
from simdx.errors import BadInput
from simdx.simulators.base import Completion, TokenLogprobs

OPTIONS = ("oral mucocele", "atrophic glossitis", "cancer")


def test_letters_that_are_read_and_those_that_are_not() -> None:
    right = {"A": 0, " B.": 1, "(C)": 2, "B. atrophic glossitis": 1, "Cancer.": 2, "A: oral mucocele": 0}
    assert {text: read_letter(text, OPTIONS) for text in right} == right
    wrong = [
        "",
        "D",
        "a",
        "The answer is A",
        "A or B",
        "B. oral mucocele",
        "A\nB",
        "Both",
        "1",
        "A cancer too",
    ]
    for text in wrong:
        with pytest.raises(UnreadableReply):
            read_letter(text, OPTIONS)


def test_guesses_that_are_read_and_those_that_are_not() -> None:
    for text, shares in {
        "B: 0.60\nA: 0.20\n": [0.2, 0.6, 0.1, 0.1],  # what is left is shared by the others
        "A: 1.00\nB: 0.60\nC: 0.40": [0.5, 0.3, 0.2, 0.0],  # above one: divided by the sum
        "A: .2\nB: 0.2\nC: 0": [0.5, 0.5, 0.0],
    }.items():
        assert read_guesses(text, len(shares), len(text.splitlines())) == pytest.approx(shares)
    for text in (
        "", "A: 0.5", "A: 0.5\nA: 0.4", "A: 0.5\nD: 0.2", "A: 50%\nB: 20%", "A: 0\nB: 0", "A: 1.5\nB: 0.1",
        "1. A: 0.5\n2. B: 0.2", "A: 0.5\nB: 0.3\nC: 0.1",
    ):  # fmt: skip
        with pytest.raises(UnreadableReply):
            read_guesses(text, 3, 2)


def _tokens(*top: tuple[str, float]) -> Completion:
    return Completion("A", logprobs=(TokenLogprobs("A", 0.0, tuple((t, math.log(p)) for t, p in top)),))


def test_option_tokens() -> None:
    """With and without a space they are one; an unlisted option gets the bound; none at all is a failure."""
    twice = _tokens(("A", 0.2), (" A", 0.1), ("B", 0.1), ("The", 0.5))
    assert read_option_tokens(twice, 2) == pytest.approx([0.75, 0.25])
    assert read_option_tokens(_tokens(("A", 0.8), ("The", 0.1)), 2) == pytest.approx([8 / 9, 1 / 9])
    with pytest.raises(UnreadableReply, match="no option"):
        read_option_tokens(_tokens(("The", 0.8), ("I", 0.1)), 2)
    with pytest.raises(UnreadableReply, match="no log-probabilities"):
        read_option_tokens(Completion("A"), 2)


def test_the_case_and_its_options_come_before_the_instruction() -> None:
    prompts = [multiple_choice("some text", OPTIONS, phrase) for phrase in PARAPHRASES]
    assert len(set(prompts)) == 8
    beginning = prompts[0][: prompts[0].index("C. cancer")]
    assert all(prompt.startswith(beginning) for prompt in prompts)
    with pytest.raises(BadInput, match="26"):
        multiple_choice("text", [f"label {i}" for i in range(27)], "choose")


def test_grammars_name_every_option_and_never_one_twice() -> None:
    assert letter_grammar(3) == 'root ::= "A" | "B" | "C"'
    rules = dict(line.split(" ::= ") for line in guesses_grammar(3, 2).splitlines())
    assert set(rules) == {"p", "root", "after-a", "after-b", "after-c"}
    assert '"B: "' not in rules["after-b"]
    assert rules["root"].count("after-") == 3
