"""The drawings of a page, from stored values.

Series differ in dash and mark as well as in colour, blue and orange in lightness as well as in hue, so that
nothing rests on colour alone. Colours are those of Okabe and Ito, darkened where thin lines need it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simdx.report.drawing import ALONE, BOTTOM, TOP, Axes, Drawing, Tick, even_ticks
from simdx.types import Bank, Float, Int

N_STYLES = 8


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    marks: bool = False  # a dot at every point: for a handful of settings, not for a dense curve
    intervals: Sequence[Sequence[float] | None] = ()  # one per point, where there are any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; `style` groups rows, `theirs` is the paper's figure for the same."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    theirs: float | None = None
    style: int = 0


def line_plot(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    x: tuple[float, float] | None = None,
    y: tuple[float, float] | None = None,
    size: tuple[int, int] = (520, 320),
    x_ticks: Sequence[Tick] | None = None,
) -> str:
    """Lines on shared axes; the key stands to the right, outside the frame."""
    shown = [s for s in series if len(s.x)]
    across = x or _range([v for s in shown for v in s.x])
    up = y or _range([v for s in shown for v in s.y])
    key = [(s.name, f"series s{i % N_STYLES}") for i, s in enumerate(shown)]
    axes = Axes(title, x_label, y_label, x=across, y=up, size=size, x_ticks=x_ticks, key=key)
    for i, s in enumerate(shown):
        for a, interval in zip(s.x, s.intervals, strict=False):
            if interval is not None:
                axes.whisker(a, interval[0], interval[1], f"whisker s{i % N_STYLES}")
        axes.line(list(s.x), list(s.y), f"series s{i % N_STYLES}")
        if s.marks:
            for a, b in zip(s.x, s.y, strict=True):
                axes.dot(a, b, f"mark m{i % N_STYLES}", note=f"{s.name}: {a:g}, {b:.3f}")
    return axes.svg()


def interval_plot(
    title: str, x_label: str, rows: Sequence[Estimate], *, x: tuple[float, float] | None = None
) -> str:
    """One row an estimate: a dot on its interval, a diamond where the paper has a figure; a line at zero."""
    step, left, width = 22, 290, 360
    values = [v for r in rows for v in (r.value, r.low, r.high, r.theirs) if v is not None]
    low, high = x or _range(values)
    bottom = TOP + step * max(len(rows), 1)

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * width

    drawing = Drawing(title, left + width + 20, bottom + BOTTOM)
    for value, word in even_ticks(low, high):
        drawing.segment(at(value), TOP, at(value), bottom, "grid")
        drawing.text(at(value), bottom + 16, word, "tick-x")
    if low < 0 < high:
        drawing.segment(at(0), TOP, at(0), bottom, "ideal")
    for i, row in enumerate(rows):
        y, style = TOP + step * (i + 0.5), row.style % N_STYLES
        drawing.text(left - 10, y + 4, row.name, "name small")
        if row.low is not None and row.high is not None:
            drawing.segment(at(row.low), y, at(row.high), y, f"span s{style}")
        if row.value is not None:
            drawing.circle(at(row.value), y, 4, f"mark m{style}", f"{row.name}: {row.value:.3f}")
        if row.theirs is not None:
            steps = f"M{at(row.theirs):.1f} {y - 6:.1f}l6 6l-6 6l-6 -6Z"
            drawing.path(steps, "theirs", f"the paper: {row.theirs:.3f}")
    drawing.text(left + width / 2, bottom + BOTTOM - 8, x_label, "tick-x")
    return drawing.svg()


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The values' span from nought (or below) with a little air above; never empty."""
    low, high = min([0.0, *values]), max([0.0, *values])
    air = 0.04 * (high - low) or 1.0
    return (low - air if low < 0 else low), high + air


# --------------------------------------------------------------------------- of one answer


def posterior_bars(posterior: Mapping[str, float], prior: Mapping[str, float], leading: str) -> str:
    """One bar a label, the prior as a tick on the same axis."""
    row, left, width = 30, 240, 330
    title = "Posterior probability of each label, prior as a tick"
    drawing = Drawing(title, left + width + 70, row * len(posterior) + 8)
    for i, (label, p) in enumerate(sorted(posterior.items(), key=lambda item: -item[1])):
        y, x = 4 + i * row, left + prior.get(label, 0.0) * width
        drawing.text(left - 10, y + 18, _fit(label), "name")
        drawing.box(left, y + 4, width, 18, "track")
        drawing.box(left, y + 4, p * width, 18, "lead" if label == leading else "rest")
        drawing.segment(x, y + 1, x, y + 25, "tick")
        drawing.text(left + width + 8, y + 18, f"{p:.3f}", "value")
    return drawing.svg()


def uncertainty_split(aleatoric: float, epistemic: float, maximum: float) -> str:
    """Total uncertainty as one bar, split into its two parts, on the scale of the maximum entropy."""
    left, width = 10, 560
    a, e = (max(0.0, v) / maximum * width for v in (aleatoric, epistemic))
    drawing = Drawing("Aleatoric and epistemic uncertainty in bits", left + width + 70, 58)
    drawing.box(left, 8, width, 18, "track")
    drawing.box(left, 8, a, 18, "aleatoric")
    drawing.box(left + a, 8, max(e, 1), 18, "epistemic")
    words = (
        f"aleatoric {aleatoric:.2f}", f"epistemic {epistemic:.3f}", f"of at most {maximum:.2f} bits"
    )  # fmt: skip
    for x, word, kind in zip((left, 150, 290), words, ("aleatoric", "epistemic", ""), strict=True):
        if kind:
            drawing.text(x, 46, "■", kind)
        drawing.text(x + 18 if kind else x, 46, word, "key")
    return drawing.svg()


def ternary(points: Float, labels: Sequence[str], mean: Sequence[float]) -> str:
    """Draws from a posterior on the three-label simplex, with its mean."""
    triangle = _Triangle(300, 110, 34)
    drawing = Drawing("Posterior draws on the probability simplex", *triangle.size)
    triangle.draw(drawing, points, labels, mean)
    return drawing.svg()


def ternary_grid(
    title: str, triangles: Sequence[tuple[str, Float, Sequence[float]]], labels: Sequence[str]
) -> str:
    """Several posteriors side by side, two in a row: (heading, draws, mean) each."""
    width, height = _Triangle(230, 115, 64).size
    drawing = Drawing(title, 2 * width, math.ceil(len(triangles) / 2) * height)
    for i, (heading, points, mean) in enumerate(triangles):
        x, y = i % 2 * width, i // 2 * height
        drawing.text(x + width / 2, y + 20, heading, "corner")
        _Triangle(230, x + 115, y + 64).draw(drawing, points, labels, mean)
    return drawing.svg()


class _Triangle:
    def __init__(self, side: float, left: float, top: float) -> None:
        height = side * math.sqrt(3) / 2
        self._corners = np.array([[left, top + height], [left + side, top + height], [left + side / 2, top]])
        self.size = (side + 2 * left, height + top + 40)

    def places(self, points: Float) -> Float:
        return np.asarray(points, dtype=float).reshape(-1, 3) @ self._corners

    def frame(self, drawing: Drawing, labels: Sequence[str]) -> None:
        drawing.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in self._corners) + "Z", "frame")
        for label, (x, y), dy in zip(labels, self._corners, (20, 38, -10), strict=True):
            drawing.text(float(x), float(y) + dy, _fit(label), "corner")

    def draw(self, drawing: Drawing, points: Float, labels: Sequence[str], mean: Sequence[float]) -> None:
        self.frame(drawing, labels)
        for x, y in self.places(points):
            drawing.circle(float(x), float(y), 2, "draw")
        ((x, y),) = self.places(np.asarray(mean))
        drawing.circle(float(x), float(y), 5, "mean")


def _fit(text: str, limit: int = 34) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --------------------------------------------------------------------------- of an evaluation


def reliability_plot(bins: Mapping[str, Sequence[float]]) -> str:
    axes = Axes("Reliability diagram", "confidence of the top label", "share correct")
    full = [i for i, n in enumerate(bins["n"]) if n]
    for i in full:
        n, sure, right = bins["n"][i], bins["confidence"][i], bins["accuracy"][i]
        words = f"{n} cases: confidence {sure:.3f}, correct {right:.3f}"
        axes.bar(bins["edges"][i] + 0.005, bins["edges"][i + 1] - 0.005, right, "rest", words)
    axes.line([0, 1], [0, 1], "ideal")
    for i in full:
        radius = 3 + 6 * math.sqrt(bins["n"][i] / max(bins["n"]))
        axes.dot(bins["confidence"][i], bins["accuracy"][i], "point", radius)
    return axes.svg()


def risk_plot(curve: Mapping[str, Sequence[float]]) -> str:
    top = max([0.05, *curve["risk"]])
    axes = Axes("Risk–coverage curve", "coverage (most certain first)", "error rate", y=(0, top))
    axes.line(curve["coverage"], curve["risk"], "curve")
    return axes.svg()


def entropy_plot(correct: Float, wrong: Float, outside: Float | None, maximum: float) -> str:
    """Shares per band of entropy: bars for correct, a line for wrong, a dashed line for out of class."""
    edges = np.linspace(0, maximum, 21)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    groups = [correct, wrong, *([] if outside is None else [outside])]
    shares = [(np.histogram(v, edges)[0] / max(len(v), 1)).tolist() for v in groups]
    top = max(0.05, *(max(s) for s in shares))
    axes = Axes("Entropy of the posterior", "entropy (bits)", "share of cases", x=(0, maximum), y=(0, top))
    for i, share in enumerate(shares[0]):
        axes.bar(edges[i], edges[i + 1], share, "rest")
    for share, kind in zip(shares[1:], ("wrong", "outside"), strict=False):
        axes.line(middles, share, kind)
    return axes.svg()


def ternary_plot(p: Float, y: Int, labels: Sequence[str]) -> str:
    """Every case's posterior in the triangle: circles where it was right, crosses where it was wrong."""
    triangle = _Triangle(340, 120, 34)
    drawing = Drawing("Posteriors on the simplex", *triangle.size)
    triangle.frame(drawing, labels)
    for (x, v), right in zip(triangle.places(p), p.argmax(axis=1) == y, strict=True):
        if right:
            drawing.circle(float(x), float(v), 2.5, "draw")
        else:
            drawing.path(f"M{x - 4:.1f} {v - 4:.1f}l8 8m0 -8l-8 8", "cross")
    return drawing.svg()


def bank_map(bank: Bank, vectors: Float) -> str:
    """The bank on its first two principal axes, one colour a label, background (the last rows) in grey."""
    n = len(bank.texts)
    mean = vectors[:n].mean(axis=0)
    _, _, directions = np.linalg.svd(vectors[:n] - mean, full_matrices=False)
    places = ((vectors - mean) @ directions[:2].T).astype(float)
    (x0, y0), (x1, y1) = places.min(axis=0), places.max(axis=0)
    # Hues a golden angle apart are told from each other however many labels there are.
    hues = [f"hsl({(205 + 137.5 * k) % 360:.0f} 70% 42%)" for k in range(len(bank.labels))]
    style = "circle{fill-opacity:.75;stroke:none}.sample{stroke-width:6}.other{fill:#bbb;stroke:#bbb}"
    style += "".join(f".l{k}{{fill:{hue};stroke:{hue}}}" for k, hue in enumerate(hues))
    key = [(name, f"l{k} sample") for k, name in enumerate(bank.labels)]
    if len(vectors) > n:
        key.append(("background", "other sample"))
    axes = Axes(
        f"{bank.name or bank.panel}: n = {n}", "first principal axis", "second principal axis",
        x=(x0, x1), y=(y0, y1), size=(640, 520), key=key, style=ALONE + style,
    )  # fmt: skip
    for x, y in places[n:]:
        axes.dot(x, y, "other", 2.2)
    for (x, y), k in zip(places[:n], bank.label_index, strict=True):
        axes.dot(x, y, f"l{k}", 2.6)
    return axes.svg() + "\n"
