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

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from simdx.baselines.interview import Asking, Interview, Question, UnreadableReply
from simdx.errors import BadInput
from simdx.methods.fitted import Settings
from simdx.methods.panel_data import PanelData
from simdx.simulators import DEFAULT
from simdx.simulators.base import Completion, Request
from simdx.types import content_hash

MOST_ROTATIONS = 8  # orders of the options: each is a call
TOP = 20  # as many alternatives as common servers list
FREE_TOKENS = 12  # without a grammar: room for a letter with its label, no room for an essay
GUESSES = 3  # asked for, with a probability each
TOKENS_PER_GUESS = 12  # a letter, a number and their punctuation
SAMPLES = 10
TEMPERATURE = 0.2  # the paper's, of all that it decodes


class Logits(Asking):
    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data, settings)
        if not self.able.logprobs:
            raise BadInput(
                f"simulator '{settings.simulator or DEFAULT}' gives no log-probabilities, which --method "
                "logits reads: choose elicited, ensemble or fidelity, or another server"
            )
        # All K rotations, or as many as are allowed, evenly spread; the list as it is always comes first.
        n = min(len(self.names), settings.budget or MOST_ROTATIONS)
        self.shifts = [i * len(self.names) // n for i in range(n)]

    def questions(self, text: str, key: int) -> list[Question]:
        return [self._question(text, shift) for shift in self.shifts]

    def _question(self, text: str, shift: int) -> Question:
        prompt = choice_of_label(text, self.names[shift:] + self.names[:shift], self.panel.is_clinical)
        request = Request(prompt, temperature=0.0, top_p=1.0, max_tokens=1, seed=0, logprobs=TOP)
        return Question(
            request, lambda reply: np.roll(read_option_tokens(reply, len(self.names)), shift).tolist()
        )

    def more(self, found: Interview) -> dict[str, Any]:
        """Mean probability of each place of the list, and how often another order gave another answer."""
        places, flips, answered = [], 0, 0
        for replies in found.replies:
            read = [(s, r.scores) for s, r in zip(self.shifts, replies, strict=True) if r.scores is not None]
            places += [np.roll(scores, -shift) for shift, scores in read]
            if len(read) == len(self.shifts):
                answered += 1
                flips += len({int(np.argmax(scores)) for _, scores in read}) > 1
        return {
            "position_mass": np.mean(places, axis=0).round(4).tolist() if places else None,
            "order_changes_answer": flips / answered if answered else None,
        }


class Elicited(Asking):
    def questions(self, text: str, key: int) -> list[Question]:
        n, guesses = len(self.names), min(GUESSES, len(self.names))
        request = Request(
            multiple_choice(text, self.names, elicit(guesses)), temperature=0.0, top_p=1.0,
            max_tokens=guesses * TOKENS_PER_GUESS, seed=0,
            grammar=guesses_grammar(n, guesses) if self.able.grammars else None,
        )  # fmt: skip
        return [Question(request, lambda reply: read_guesses(reply.text, n, guesses))]


class _Letter(Asking):
    """One letter is asked for, again and again."""

    def ask_letter(self, text: str, instruction: str, temperature: float, seed: int) -> Question:
        names, grammars = self.names, self.able.grammars
        request = Request(
            multiple_choice(text, names, instruction), temperature=temperature, top_p=1.0, seed=seed,
            max_tokens=2 if grammars else FREE_TOKENS,
            grammar=letter_grammar(len(names)) if grammars else None,
        )  # fmt: skip
        return Question(request, lambda reply: np.eye(len(names))[read_letter(reply.text, names)].tolist())


class Ensemble(_Letter):
    def questions(self, text: str, key: int) -> list[Question]:
        return [
            self.ask_letter(text, phrase, 0.0, 0) for phrase in PARAPHRASES[: self.settings.budget or None]
        ]


class Repeated(_Letter):
    def questions(self, text: str, key: int) -> list[Question]:
        seeds = (  # 31 bits, which every server takes
            int(content_hash("sample", str(self.settings.seed), str(key), str(i))[:8], 16) & 0x7FFF_FFFF
            for i in range(self.settings.budget or SAMPLES)
        )
        return [self.ask_letter(text, CHOOSE, TEMPERATURE, seed) for seed in seeds]

    def more(self, found: Interview) -> dict[str, Any]:
        return {"temperature": TEMPERATURE}


# --------------------------------------------------------------------------- wording
#
# Every prompt begins with the case and the list of options and ends with the instruction. So the eight
# paraphrases, the repeats and the elicitation share a long beginning, which a server has to read once; only
# the permuted option lists of `logits` part earlier.
#
# Replies are read strictly: either one says what was asked for, or it is a failure with a reason. Nothing is
# guessed and nothing is put in the place of an answer that cannot be read.

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

CHOOSE = "Which of the diagnoses above fits this case best? Reply with its letter only."
CHOOSE_GENERAL = "Which of the labels above fits this text best? Reply with its letter only."

# Persona, phrasing and output constraint vary; the question does not.
PARAPHRASES = (
    CHOOSE,
    "You are the clinician in charge of this patient. Choose the single most likely diagnosis from the list "
    "and give nothing but its letter.",
    "As a specialist asked for a second opinion, decide which listed diagnosis explains these findings. "
    "Output one letter.",
    "Weigh every option against the description, then commit to one. Write only the letter of your choice.",
    "This is a question from an examination for medical students. Mark the correct option by its letter.",
    "If you had to bet on one diagnosis from the list, which would it be? One letter, no explanation.",
    "Note for the file: record the letter of the most probable diagnosis. Do not add any other word.",
    "One diagnosis on the list was later confirmed. Say which one, using its letter alone.",
)


def elicit(guesses: int) -> str:
    return (
        f"Give your {guesses} best guesses and, for each, the probability between 0 and 1 that it is the "
        "correct diagnosis. Write one guess on each line as LETTER: PROBABILITY with two decimals, the most "
        "likely guess first, no letter twice, and nothing else."
    )


def multiple_choice(text: str, options: Sequence[str], instruction: str) -> str:
    return f"Case description:\n{text.strip()}\n\n{options_part(options)}\n{instruction}"


def choice_of_label(text: str, options: Sequence[str], clinical: bool) -> str:
    """The bare question, in words that fit what the panel is about."""
    if clinical:
        return multiple_choice(text, options, CHOOSE)
    listed = options_part(options).replace("Possible diagnoses", "Possible labels", 1)
    return f"Text:\n{text.strip()}\n\n{listed}\n{CHOOSE_GENERAL}"


def options_part(options: Sequence[str]) -> str:
    if len(options) > len(LETTERS):
        raise BadInput(
            f"asking a language model works for at most {len(LETTERS)} labels, the panel has {len(options)}"
        )
    return "Possible diagnoses:\n" + "".join(
        f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=False)
    )


# --------------------------------------------------------------------------- grammars (GBNF)


def letter_grammar(n_options: int) -> str:
    return "root ::= " + " | ".join(f'"{letter}"' for letter in LETTERS[:n_options])


def guesses_grammar(n_options: int, guesses: int) -> str:
    """Lines `LETTER: PROBABILITY` in which no letter comes twice: one rule per letters already used."""
    rules = ['p ::= "0." [0-9] [0-9] | "1.00"']

    def rule(used: str) -> str:
        name = "root" if not used else "after-" + used.lower()
        more = len(used) + 1 < guesses
        branches = [
            f'"{letter}: " p' + (f' "\\n" {rule(used + letter)}' if more else "")
            for letter in LETTERS[:n_options]
            if letter not in used
        ]
        rules.append(f"{name} ::= " + " | ".join(branches))
        return name

    rule("")
    return "\n".join(rules)


# --------------------------------------------------------------------------- replies

_LETTER = re.compile(r"\(?([A-Z])\b\)?\s*[.:)]?\s*(.*)")
_GUESS = re.compile(r"\(?([A-Z])\)?\s*:\s*(0?\.\d+|0|1|1\.0+)")
LARGEST_LOGPROB = 0.01


def read_letter(text: str, options: Sequence[str]) -> int:
    """The position of the option a reply names: its letter, its name, or both in agreement."""
    said = text.strip()
    names = {option.casefold(): i for i, option in enumerate(options)}
    bare = said.rstrip(".").casefold()
    if bare in names:
        return names[bare]
    found = _LETTER.fullmatch(said)
    if found is None:
        raise UnreadableReply("no letter" if said else "empty")
    position = LETTERS.index(found[1])
    if position >= len(options):
        raise UnreadableReply("a letter that is not an option")
    if found[2] and names.get(found[2].rstrip(".").casefold()) != position:
        raise UnreadableReply("more than a letter")
    return position


def read_guesses(text: str, n_options: int, guesses: int) -> list[float]:
    """A probability for every option. What the named ones leave is shared by the others.

    Probabilities that sum to more than one, or name every option and sum to less, are divided by their sum.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        raise UnreadableReply("empty")
    if len(lines) != guesses:
        raise UnreadableReply("another number of guesses")
    said: dict[int, float] = {}
    for line in lines:
        found = _GUESS.fullmatch(line)
        if found is None:
            raise UnreadableReply("a line that is not a guess")
        position = LETTERS.index(found[1])
        if position >= n_options:
            raise UnreadableReply("a letter that is not an option")
        if position in said:
            raise UnreadableReply("a letter twice")
        said[position] = float(found[2])
    total = math.fsum(said.values())
    if total <= 0:
        raise UnreadableReply("only zeros")
    left = max(0.0, 1 - total) / max(n_options - len(said), 1)
    return _shares([said.get(i, left) for i in range(n_options)])


def read_option_tokens(completion: Completion, n_options: int) -> list[float]:
    """Next-token probabilities of the option letters, renormalised over the options.

    A server lists only the likeliest tokens. A letter that is not among them has at most the probability of
    the last one listed, and is given that; when no letter is among them the reply is a failure.
    """
    if not completion.logprobs or not completion.logprobs[0].top:
        raise UnreadableReply("no log-probabilities")
    # A server may send any number; a log-probability is none above zero (rounding aside), and no NaN.
    top = [(token, logprob) for token, logprob in completion.logprobs[0].top if logprob <= LARGEST_LOGPROB]
    mass = dict.fromkeys(LETTERS[:n_options], 0.0)
    for token, logprob in top:
        letter = token.strip()
        if letter in mass:  # "A" and " A" are two tokens with one meaning
            mass[letter] += math.exp(logprob)
    if not any(mass.values()):
        raise UnreadableReply("no option among the likeliest tokens")
    floor = math.exp(min(logprob for _, logprob in top))
    return _shares([value or floor for value in mass.values()])


def _shares(values: list[float]) -> list[float]:
    whole = math.fsum(values)
    return [value / whole for value in values]
