"""The drawings of a page as inline SVG, by matplotlib: no script, no request, words escaped.

Series differ in dash and mark as well as in colour. Colours are those of Okabe and Ito.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.errors import MissingExtra
from simdx.types import Bank, Float, Int

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, PALE, ORANGE, VIOLET, GREY = "#0b62a8", "#7fb0d8", "#b35900", "#7a2e8e", "#57606a"
_NO_METADATA: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "simdx", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "text.parse_math": False,
}  # fmt: skip


LACKING = "<p class='notice'>A drawing needs matplotlib: pip install 'simdx[report]'.</p>"


def drawn(title: str, size: tuple[float, float], draw: Callable[[Axes], None], *, inline: bool = True) -> str:
    """What `draw(axes)` draws, as SVG under a title; `size` in inches.

    Without matplotlib a page says so in the drawing's place, and a file of its own is refused.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        if inline:
            return LACKING
        raise MissingExtra("a drawing", "report") from None
    out = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size)
        draw(figure.subplots())
        figure.savefig(out, format="svg", bbox_inches="tight", metadata=_NO_METADATA)
    found = out.getvalue()
    named = f'<svg role="img" aria-label="{escape(title)}"'
    return found[found.index("<svg") :].replace("<svg", named, 1)


# --------------------------------------------------------------------------- of one answer


_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])


def _triangle(axes: Axes, labels: Sequence[str]) -> None:
    axes.plot(*_CORNERS[[0, 1, 2, 0]].T, color=GREY, linewidth=0.8)
    for label, (x, y), side in zip(labels, _CORNERS, ("top", "top", "bottom"), strict=True):
        axes.text(x, y + (0.04 if side == "bottom" else -0.04), _fit(label), ha="center", va=side)
    axes.set_aspect("equal")
    axes.axis("off")


def ternary(points: Float, labels: Sequence[str], mean: Sequence[float]) -> str:
    """Draws from a posterior on the three-label simplex, with its mean."""

    def draw(axes: Axes) -> None:
        _triangle(axes, labels)
        axes.plot(*(np.asarray(points) @ _CORNERS).T, ".", color=BLUE, markersize=3, alpha=0.5)
        axes.plot(*(np.asarray(mean) @ _CORNERS), "o", color=ORANGE)

    return drawn("Posterior draws on the probability simplex", (3.5, 3), draw)


def _fit(text: str, limit: int = 34) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --------------------------------------------------------------------------- of an evaluation


def reliability_plot(bins: Mapping[str, Sequence[float]]) -> str:
    def draw(axes: Axes) -> None:
        full = [i for i, n in enumerate(bins["n"]) if n]
        left, right = np.asarray(bins["edges"][:-1])[full], np.asarray(bins["edges"][1:])[full]
        share = np.asarray(bins["accuracy"])[full]
        axes.bar(left, share, width=right - left, align="edge", color=PALE, edgecolor="white")
        axes.plot([0, 1], [0, 1], "--", color=GREY)
        area = 15 + 60 * np.asarray(bins["n"], dtype=float)[full] / max(bins["n"])
        axes.scatter(np.asarray(bins["confidence"])[full], share, s=area, color=BLUE, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence of the top label", ylabel="share correct")

    return drawn("Reliability diagram", (4, 3), draw)


def risk_plot(curve: Mapping[str, Sequence[float]]) -> str:
    def draw(axes: Axes) -> None:
        axes.plot(curve["coverage"], curve["risk"], color=BLUE)
        top = max([0.05, *curve["risk"]])
        axes.set(xlim=(0, 1), ylim=(0, top), xlabel="coverage (most certain first)", ylabel="error rate")

    return drawn("Risk–coverage curve", (4, 3), draw)


def entropy_plot(correct: Float, wrong: Float, outside: Float | None, maximum: float) -> str:
    """Shares per band of entropy: bars for correct, a line for wrong, a dashed line for out of class."""

    def draw(axes: Axes) -> None:
        edges = np.linspace(0, maximum, 21)
        styles = ((correct, PALE, "-"), (wrong, ORANGE, "-"), (outside, VIOLET, "--"))
        for i, (values, colour, dash) in enumerate(styles):
            if values is not None:
                shares = np.histogram(values, edges)[0] / max(len(values), 1)
                axes.stairs(shares, edges, fill=i == 0, color=colour, linestyle=dash)
        axes.set(xlabel="entropy (bits)", ylabel="share of cases")

    return drawn("Entropy of the posterior", (4, 3), draw)


def ternary_plot(p: Float, y: Int, labels: Sequence[str]) -> str:
    """Every case's posterior in the triangle: circles where it was right, crosses where it was wrong."""

    def draw(axes: Axes) -> None:
        _triangle(axes, labels)
        places, right = p @ _CORNERS, p.argmax(axis=1) == y
        axes.plot(*places[right].T, "o", color=BLUE, markersize=4, alpha=0.5, markeredgewidth=0)
        axes.plot(*places[~right].T, "x", color=ORANGE, markersize=6)

    return drawn("Posteriors on the simplex", (4, 3.5), draw)


def bank_map(bank: Bank, vectors: Float) -> str:
    """The bank on its first two principal axes, one colour a label, background (the last rows) in grey."""
    n = len(bank.texts)
    mean = vectors[:n].mean(axis=0)
    _, _, directions = np.linalg.svd(vectors[:n] - mean, full_matrices=False)
    places = ((vectors - mean) @ directions[:2].T).astype(float)

    def draw(axes: Axes) -> None:
        if len(places) > n:
            axes.plot(*places[n:].T, ".", color="#bbbbbb", markersize=4, label="background")
        for k, name in enumerate(bank.labels):
            mark = "os^Dv<>P*X"[k // 10 % 10]  # ten colours, then another mark
            own = places[:n][bank.label_index == k]
            axes.plot(*own.T, mark, color=f"C{k % 10}", markersize=3.5, linestyle="none", label=name)
        axes.set(xlabel="first principal axis", ylabel="second principal axis")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)

    return drawn(f"{bank.name or bank.panel}: n = {n}", (6, 5), draw, inline=False) + "\n"
