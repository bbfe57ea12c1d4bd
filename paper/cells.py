"""Cells and clauses: our figure with its interval, the paper's with its doubts, words made from numbers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paper.theirs import Quote

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
DOUBT, NONE, UNDEFINED = "†", "–", "undefined"


def method_name(name: str) -> str:
    return METHODS.get(name, name.replace("d-smc", "D-SMC"))


def number(value: float | None, interval: Sequence[float] | None = None, digits: int = 3) -> str:
    """`0.857 [0.812, 0.901]`; a missing or non-finite value says so."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    shown = f"{value:.{digits}f}"
    return shown if interval is None else f"{shown} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def signed(value: float | None, interval: Sequence[Any], p: float | None = None) -> str:
    """A difference: `+0.012 [-0.004, +0.028], p 0.13`."""
    if value is None or interval[0] is None:
        return number(value)
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(value, *interval) + ("" if p is None else f", p {p:.2g}")


def ours(scores: Mapping[str, Any], metric: str, digits: int = 3) -> str:
    """A headline metric with its interval."""
    return number(scores[metric], scores["ci"].get(metric), digits)


def quoted(quote: Quote | None, digits: int = 3) -> str:
    """The paper's figure, a dash where it has none, a dagger where it contradicts itself about it."""
    if quote is None:
        return NONE
    around = None if quote.low is None or quote.high is None else (quote.low, quote.high)
    return number(quote.value, around, digits) + dagger(quote)


def dagger(quote: Quote | None) -> str:
    return DOUBT if quote is not None and quote.doubts else ""


def doubts(quotes: Iterable[Quote | None]) -> str:
    """What the daggers mean, once each."""
    said = dict.fromkeys(doubt for quote in quotes if quote is not None for doubt in quote.doubts)
    return " ".join(f"{DOUBT} {d[0].upper()}{d[1:]}{'' if d.endswith('.') else '.'}" for d in said)


def ranged(values: Sequence[float | None], digits: int = 3) -> str:
    """`mean (least–most)` over simulators."""
    known = [v for v in values if v is not None]
    if not known:
        return UNDEFINED
    return f"{sum(known) / len(known):.{digits}f} ({min(known):.{digits}f}–{max(known):.{digits}f})"


def placed(interval: Sequence[float] | None, paper: float) -> str:
    """Where the paper's figure lies: `inside`, `above` or `below` our interval; `unknown` without one."""
    if interval is None:
        return "unknown"
    return "above" if paper > interval[1] else "below" if paper < interval[0] else "inside"


def counted(n: int, of: int, what: str) -> str:
    """`7 of 12 comparisons`, `all 12 comparisons`, `none of 12 comparisons`."""
    return f"all {of} {what}" if of and n == of else f"{n or 'none'} of {of} {what}"


def several(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:,.1f} ms"
