"""Cells and clauses several artefacts need: our figure with its interval, the paper's with its doubts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simdx.experiments.paper.artefact import number
from simdx.experiments.paper.theirs import Quote
from simdx.metrics.second_order import Spread

METHODS = {
    "auto": "shipped recipe",
    "m-smc": "M-SMC",
    "d-smc": "D-SMC",
    "abi": "ABI",
    "centroid": "centroid cosine",
    "tfidf": "TF-IDF cosine",
    "zero-shot": "label text alone",
    "bank-logistic": "logistic on the bank",
}
DOUBT = "†"


def ours(scores: Mapping[str, Any], metric: str, digits: int = 3) -> str:
    """A headline metric with its interval, from `context.scores`."""
    return number(scores[metric], scores["ci"].get(metric), digits)


def theirs(quote: Quote | None, digits: int = 3) -> str:
    """The paper's figure, a dash where it has none, a dagger where it contradicts itself about it."""
    if quote is None:
        return "–"
    around = None if quote.low is None or quote.high is None else (quote.low, quote.high)
    return number(quote.value, around, digits) + (DOUBT if quote.doubts else "")


def doubts(quotes: Iterable[Quote | None]) -> str:
    """What the daggers mean, once each."""
    said = dict.fromkeys(doubt for quote in quotes if quote is not None for doubt in quote.doubts)
    return " ".join(f"{DOUBT} {_sentence(doubt)}" for doubt in said)


def quartiles(found: Spread, digits: int = 3) -> str:
    """Median with the quartiles around it."""
    if found.median is None or found.q1 is None or found.q3 is None:
        return "no cases"
    return number(found.median, (found.q1, found.q3), digits)


def several(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + ("" if words.endswith(".") else ".")
