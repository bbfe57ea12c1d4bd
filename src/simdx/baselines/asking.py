"""The four baselines that ask a language model about the case itself.

logits     a multiple-choice question, and the probabilities of the option letters as next token. Models
           prefer some positions of a list whatever stands there, so the list is rotated: over the K rotations
           every label stands once at every place. The report says how large the preference was
elicited   the three best guesses and how sure the model is of each
ensemble   eight ways to put the same question; the answer is the share of votes for each label
fidelity   the same question asked again with sampling; the answer is how often each label came. The paper
           does not say how many samples it takes: ten here (`budget` changes it), at its temperature, 0.2.
           Seeds are keyed by (seed, case, sample): neither order nor batch matters where a server honours
           them
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from simdx.baselines import interview, wording
from simdx.baselines.interview import Ask, Asking, Extras, Interview, MakeAsk, Question
from simdx.errors import BadInput
from simdx.methods.fitted import Settings
from simdx.methods.panel_data import PanelData
from simdx.simulators import DEFAULT
from simdx.simulators.base import Capabilities, Request
from simdx.types import content_hash

MOST_ROTATIONS = 8  # orders of the options: each is a call
TOP = 20  # as many alternatives as common servers list


def ask_logits(
    names: tuple[str, ...], settings: Settings, able: Capabilities, *, clinical: bool = True
) -> Ask:
    if not able.logprobs:
        raise BadInput(
            f"simulator '{settings.simulator or DEFAULT}' gives no log-probabilities, which --method logits "
            "reads: choose elicited, ensemble or fidelity, or another server"
        )

    def question(text: str, shift: int) -> Question:
        prompt = wording.choice_of_label(text, names[shift:] + names[:shift], clinical)
        request = Request(prompt, temperature=0.0, top_p=1.0, max_tokens=1, seed=0, logprobs=TOP)
        return Question(
            request, lambda reply: np.roll(wording.read_option_tokens(reply, len(names)), shift).tolist()
        )

    return lambda text, key: [question(text, shift) for shift in rotations(names, settings)]


def rotations(names: tuple[str, ...], settings: Settings) -> tuple[int, ...]:
    """All K rotations, or as many as are allowed, evenly spread; the list as it is always comes first."""
    n = min(len(names), settings.budget or MOST_ROTATIONS)
    return tuple(i * len(names) // n for i in range(n))


def position_bias(names: tuple[str, ...], settings: Settings, found: Interview) -> dict[str, Any]:
    """Mean probability of each place of the list, and how often another order gave another answer."""
    places, flips, answered = [], 0, 0
    shifts = rotations(names, settings)
    for replies in found.replies:
        read = [(s, r.scores) for s, r in zip(shifts, replies, strict=True) if r.scores is not None]
        places += [np.roll(scores, -shift) for shift, scores in read]
        if len(read) == len(shifts):
            answered += 1
            flips += len({int(np.argmax(scores)) for _, scores in read}) > 1
    return {
        "position_mass": np.mean(places, axis=0).round(4).tolist() if places else None,
        "order_changes_answer": flips / answered if answered else None,
    }


FREE_TOKENS = 12  # without a grammar: room for a letter with its label, no room for an essay


def letter_question(
    text: str, names: tuple[str, ...], instruction: str, able: Capabilities, temperature: float, seed: int
) -> Question:
    request = Request(
        wording.multiple_choice(text, names, instruction),
        temperature=temperature,
        top_p=1.0,
        max_tokens=2 if able.grammars else FREE_TOKENS,
        seed=seed,
        grammar=wording.letter_grammar(len(names)) if able.grammars else None,
    )
    return Question(
        request, lambda reply: np.eye(len(names))[wording.read_letter(reply.text, names)].tolist()
    )


GUESSES = 3  # asked for, with a probability each
TOKENS_PER_GUESS = 12  # a letter, a number and their punctuation


def ask_elicited(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    guesses = min(GUESSES, len(names))
    grammar = wording.guesses_grammar(len(names), guesses) if able.grammars else None

    def questions(text: str, key: int) -> list[Question]:
        request = Request(
            wording.multiple_choice(text, names, wording.elicit(guesses)), temperature=0.0, top_p=1.0,
            max_tokens=guesses * TOKENS_PER_GUESS, seed=0, grammar=grammar,
        )  # fmt: skip
        return [Question(request, lambda reply: wording.read_guesses(reply.text, len(names), guesses))]

    return questions


def ask_ensemble(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    asked = wording.PARAPHRASES[: settings.budget or len(wording.PARAPHRASES)]
    return lambda text, key: [letter_question(text, names, phrase, able, 0.0, 0) for phrase in asked]


SAMPLES = 10
TEMPERATURE = 0.2  # the paper's, of all that it decodes


def ask_fidelity(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    def seed(key: int, sample: int) -> int:  # 31 bits, which every server takes
        return int(content_hash("sample", str(settings.seed), str(key), str(sample))[:8], 16) & 0x7FFF_FFFF

    samples = range(settings.budget or SAMPLES)
    return lambda text, key: [
        letter_question(text, names, wording.CHOOSE, able, TEMPERATURE, seed(key, sample))
        for sample in samples
    ]


ASKING: dict[str, MakeAsk] = {
    "logits": ask_logits,
    "elicited": ask_elicited,
    "ensemble": ask_ensemble,
    "fidelity": ask_fidelity,
}
# What a report says of a method beyond the counts every one has.
EXTRAS: dict[str, Extras] = {
    "logits": position_bias,
    "fidelity": lambda names, settings, found: {"temperature": TEMPERATURE},
}


def fit_asking(data: PanelData, settings: Settings) -> Asking:
    make, panel = ASKING[settings.method], data.panel
    if settings.method == "logits":
        make = partial(ask_logits, clinical=panel.is_clinical)
    simulator = interview.simulator_for(settings)
    questions = make(panel.names, settings, simulator.capabilities)
    return Asking(data, settings, simulator, questions, EXTRAS.get(settings.method))
