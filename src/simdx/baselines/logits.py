"""Model logits: a multiple-choice question, and the probabilities of the option letters as next token.

Models prefer some positions of a list whatever stands there. So the list is rotated: over the K rotations
every label stands once at every place, and the mean over rotations is free of a preference for places. The
report says how large that preference was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simdx.baselines.interview import Ask, AskingMethod, Interview, Question, fit_asking
from simdx.baselines.parsing import read_option_tokens
from simdx.baselines.prompts import CHOOSE, multiple_choice
from simdx.errors import BadInput
from simdx.methods.base import Material, Settings
from simdx.simulators import DEFAULT
from simdx.simulators.base import Capabilities, Completion, Request

MOST_ROTATIONS = 8
TOP = 20  # as many alternatives as common servers list


def fit_logits(material: Material, settings: Settings) -> AskingMethod:
    fitted = fit_asking(material, settings, ask_logits)
    shifts = shifts_of(material.panel.names, settings)
    return replace(fitted, extras=lambda interview: position_bias(interview, shifts))


def ask_logits(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    if not able.logprobs:
        raise BadInput(
            f"simulator '{settings.simulator or DEFAULT}' gives no log-probabilities, which --method logits "
            "reads: choose elicited, ensemble or fidelity, or another server"
        )
    shifts = shifts_of(names, settings)
    return lambda text, key: [_question(text, names, shift) for shift in shifts]


def shifts_of(names: tuple[str, ...], settings: Settings) -> tuple[int, ...]:
    return rotations(len(names), settings.budget or MOST_ROTATIONS)


def rotations(n_labels: int, most: int) -> tuple[int, ...]:
    """All K rotations, or as many as are allowed, evenly spread; the list as it is always comes first."""
    n = min(n_labels, most)
    return tuple(i * n_labels // n for i in range(n))


def _question(text: str, names: tuple[str, ...], shift: int) -> Question:
    options = names[shift:] + names[:shift]
    prompt = multiple_choice(text, options, CHOOSE)
    request = Request(prompt, temperature=0.0, top_p=1.0, max_tokens=1, seed=0, logprobs=TOP)

    def read(completion: Completion) -> list[float]:
        by_place = read_option_tokens(completion, len(options))
        return [by_place[(i - shift) % len(names)] for i in range(len(names))]

    return Question(request, read)


def position_bias(interview: Interview, shifts: tuple[int, ...]) -> dict[str, Any]:
    """Mean probability of each place of the list, and how often another order gave another answer."""
    places, flips, answered = [], 0, 0
    for replies in interview.replies:
        read = [(s, r.scores) for s, r in zip(shifts, replies, strict=True) if r.scores is not None]
        places += [np.roll(scores, -shift) for shift, scores in read]
        if len(read) == len(shifts):
            answered += 1
            flips += len({int(np.argmax(scores)) for _, scores in read}) > 1
    if not places:
        return {"position_mass": None, "order_changes_answer": None}
    return {
        "position_mass": np.mean(places, axis=0).round(4).tolist(),
        "order_changes_answer": flips / answered if answered else None,
    }
