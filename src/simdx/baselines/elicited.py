"""Elicited probability: the model is asked for its three best guesses and how sure it is of each."""

from __future__ import annotations

from simdx.baselines.interview import Ask, AskingMethod, Question, fit_asking
from simdx.baselines.parsing import read_guesses
from simdx.baselines.prompts import elicit, guesses_grammar, multiple_choice
from simdx.methods.base import Material, Settings
from simdx.simulators.base import Capabilities, Completion, Request

GUESSES = 3
TOKENS_PER_GUESS = 12


def fit_elicited(material: Material, settings: Settings) -> AskingMethod:
    return fit_asking(material, settings, ask_elicited)


def ask_elicited(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    guesses = min(GUESSES, len(names))
    grammar = guesses_grammar(len(names), guesses) if able.grammars else None

    def questions(text: str, key: int) -> list[Question]:
        request = Request(
            multiple_choice(text, names, elicit(guesses)), temperature=0.0, top_p=1.0,
            max_tokens=guesses * TOKENS_PER_GUESS, seed=0, grammar=grammar,
        )  # fmt: skip

        def read(completion: Completion) -> list[float]:
            return read_guesses(completion.text, len(names), guesses)

        return [Question(request, read)]

    return questions
