"""A question whose answer is one letter, read as a vote for one label."""

from __future__ import annotations

from simdx.baselines.interview import Question
from simdx.baselines.parsing import read_letter
from simdx.baselines.prompts import letter_grammar, multiple_choice
from simdx.simulators.base import Completion, Request

FREE_TOKENS = 12  # without a grammar: room for a letter with its label, no room for an essay


def letter_question(
    text: str, names: tuple[str, ...], instruction: str, *, temperature: float, seed: int, grammars: bool
) -> Question:
    request = Request(
        multiple_choice(text, names, instruction),
        temperature=temperature,
        top_p=1.0,
        max_tokens=2 if grammars else FREE_TOKENS,
        seed=seed,
        grammar=letter_grammar(len(names)) if grammars else None,
    )

    def read(completion: Completion) -> list[float]:
        chosen = read_letter(completion.text, names)
        return [float(i == chosen) for i in range(len(names))]

    return Question(request, read)
