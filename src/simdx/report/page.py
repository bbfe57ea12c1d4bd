"""Answers as one self-contained HTML page: no script, no request to any host, readable in print.

Pages are Jinja2 templates that escape every value. Only our own drawings are HTML; they are marked `safe`.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from simdx.answer import NO_PROMISE, Answer
from simdx.errors import MissingExtra
from simdx.panels import disclaimer
from simdx.types import Bank, Float, Int, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Section:
    """One case on the page: a heading, the text that was classified, and its answer."""

    heading: str
    text: str
    answer: Answer
    simplex: Float | None = None  # draws from the simplex posterior, for the picture

    @property
    def most_bits(self) -> float:
        return math.log2(len(self.answer.posterior))

    @property
    def label_bits(self) -> float:
        return math.log2(len(self.answer.among_labels))

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """The text in pieces, each with its mark: an assertion other than present, or none. A sentence that
        the leading label does not explain is followed by "unexplained" and the reason."""
        spans = sorted((span.start, span.end, span.assertion) for span in self.answer.spans)
        found = [(self.text.find(sentence), sentence) for sentence in self.answer.unexplained if sentence]
        ends = {
            at + len(sentence): self.answer.why_unexplained(sentence) for at, sentence in found if at >= 0
        }
        cuts = sorted({0, len(self.text), *ends, *(place for span in spans for place in span[:2])})
        out: list[tuple[str, str]] = []
        for start, end in pairwise(cut for cut in cuts if cut <= len(self.text)):
            mark = next((what for low, high, what in spans if low <= start and end <= high), "")
            out.append((self.text[start:end], mark))
            if end in ends:
                out.append((ends[end], "unexplained"))
        return out

    @property
    def provenance(self) -> str:
        return json.dumps(self.answer.to_json()["provenance"], indent=1, ensure_ascii=False)


class Afterword(NamedTuple):
    """A table after the answers."""

    title: str
    words: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def render(
    title: str,
    sections: Sequence[Section],
    *,
    panel: Panel | None = None,
    notice: str = "",
    afterword: Afterword | None = None,
) -> str:
    """The page; `panel` decides whether the disclaimer is a clinical one."""
    return fill(
        "answers.html", title=title, disclaimer=disclaimer(panel), notice=notice, sections=sections,
        afterword=afterword, no_promise=NO_PROMISE,
    )  # fmt: skip


def fill(template: str, **values: Any) -> str:
    """A template with these values in it."""
    return _templates().get_template(template).render(**values)


def number(value: float | None, missing: str = "undefined") -> str:
    return missing if value is None else f"{value:.3f}"


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("simdx.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found.filters["number"] = number
    found.globals.update(ternary=ternary, reliability_plot=reliability_plot, risk_plot=risk_plot)
    return found


# --------------------------------------------------------------------------- drawings
#
# Inline SVG, by matplotlib: no script, no request, words escaped. Series differ in dash and mark as well as
# in colour. Colours are those of Okabe and Ito.


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
