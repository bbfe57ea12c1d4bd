"""Ours beside theirs: the figure to compare with, means over simulators, and clauses made from numbers."""

from __future__ import annotations

from collections.abc import Sequence

from simdx.experiments.paper.theirs import Quote, data_of_panel, over_models, quote


def theirs(artefact: str, quantity: str, panel: str, method: str | None) -> Quote | None:
    """The paper's figure for that panel's counterpart: its mean over models, else the mean of its models'."""
    data = data_of_panel(panel)
    if method is None or data is None:
        return None
    found = quote(artefact, quantity, data=data, method=method)
    return found or over_models(artefact, quantity, data=data, method=method)


def mean_and_range(values: Sequence[float | None]) -> tuple[float, float, float] | None:
    known = [v for v in values if v is not None]
    return (sum(known) / len(known), min(known), max(known)) if known else None


def ranged(values: Sequence[float | None], digits: int = 3) -> str:
    """`mean (least–most)` over simulators."""
    found = mean_and_range(values)
    if found is None:
        return "undefined"
    mean, low, high = found
    return f"{mean:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def placed(value: float | None, interval: Sequence[float] | None, paper: float) -> str:
    """Where the paper's figure lies: `inside`, `above` or `below` our interval; `unknown` without one."""
    if value is None or interval is None:
        return "unknown"
    if paper > interval[1]:
        return "above"
    return "below" if paper < interval[0] else "inside"


def agreement(holds: bool) -> str:
    return "as in the paper" if holds else "unlike the paper"


def counted(n: int, of: int, what: str) -> str:
    """`7 of 12 comparisons`, `all 12 comparisons`, `none of 12 comparisons`."""
    if of and n == of:
        return f"all {of} {what}"
    return f"{n or 'none'} of {of} {what}"
