"""Reading a reply strictly: either it says what was asked for, or it is a failure with a reason.

Nothing is guessed and nothing is put in the place of an answer that cannot be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from simdx.baselines.prompts import LETTERS
from simdx.simulators.base import Completion

_LETTER = re.compile(r"\(?([A-Z])\b\)?\s*[.:)]?\s*(.*)")
_GUESS = re.compile(r"\(?([A-Z])\)?\s*:\s*(0?\.\d+|0|1|1\.0+)")
LARGEST_LOGPROB = 0.01


class Unreadable(Exception):
    """The reason as a short phrase that never quotes the reply."""


def read_letter(text: str, options: Sequence[str]) -> int:
    """The position of the option a reply names: its letter, its name, or both in agreement."""
    said = text.strip()
    names = {option.casefold(): i for i, option in enumerate(options)}
    bare = said.rstrip(".").casefold()
    if bare in names:
        return names[bare]
    found = _LETTER.fullmatch(said)
    if found is None:
        raise Unreadable("no letter" if said else "empty")
    position = LETTERS.index(found[1])
    if position >= len(options):
        raise Unreadable("a letter that is no option")
    if found[2] and names.get(found[2].rstrip(".").casefold()) != position:
        raise Unreadable("more than a letter")
    return position


def read_guesses(text: str, n_options: int, guesses: int) -> list[float]:
    """A probability for every option. What the named ones leave is shared by the others.

    Probabilities that sum to more than one, or name every option and sum to less, are divided by their sum.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        raise Unreadable("empty")
    if len(lines) != guesses:
        raise Unreadable("another number of guesses")
    said: dict[int, float] = {}
    for line in lines:
        found = _GUESS.fullmatch(line)
        if found is None:
            raise Unreadable("a line that is no guess")
        position = LETTERS.index(found[1])
        if position >= n_options:
            raise Unreadable("a letter that is no option")
        if position in said:
            raise Unreadable("a letter twice")
        said[position] = float(found[2])
    total = math.fsum(said.values())
    if total <= 0:
        raise Unreadable("only zeros")
    left, others = max(0.0, 1 - total), n_options - len(said)
    if others:
        values = [said.get(i, left / others) for i in range(n_options)]
    else:
        values = [said[i] for i in range(n_options)]
    whole = math.fsum(values)
    return [value / whole for value in values]


def read_option_tokens(completion: Completion, n_options: int) -> list[float]:
    """Next-token probabilities of the option letters, renormalised over the options.

    A server lists only the likeliest tokens. A letter that is not among them has at most the probability of
    the last one listed, and is given that; when no letter is among them the reply is a failure.
    """
    if not completion.logprobs or not completion.logprobs[0].top:
        raise Unreadable("no log-probabilities")
    # A server may send any number; a log-probability is none above zero (rounding aside), and no NaN.
    top = [(token, logprob) for token, logprob in completion.logprobs[0].top if logprob <= LARGEST_LOGPROB]
    mass = dict.fromkeys(LETTERS[:n_options], 0.0)
    for token, logprob in top:
        letter = token.strip()
        if letter in mass:  # "A" and " A" are two tokens with one meaning
            mass[letter] += math.exp(logprob)
    if not any(mass.values()):
        raise Unreadable("no option among the likeliest tokens")
    floor = math.exp(min(logprob for _, logprob in top))
    values = [value or floor for value in mass.values()]
    whole = math.fsum(values)
    return [value / whole for value in values]
