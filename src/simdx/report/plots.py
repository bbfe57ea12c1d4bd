"""Plots of several series, told apart by dash and mark as well as colour, with the key inside the drawing.

The page that shows them carries `CSS`. Colours are those of Okabe and Ito, darkened where thin lines need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from simdx.report.axes import BOTTOM, RIGHT, TOP, Axes

N_STYLES = 8


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    marks: bool = False  # a dot at every point: for a handful of settings, not for a dense curve
    intervals: Sequence[Sequence[float] | None] = ()  # one per point, where there are any


def line_plot(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    x: tuple[float, float] | None = None,
    y: tuple[float, float] | None = None,
    size: tuple[int, int] = (520, 320),
    x_ticks: Sequence[tuple[float, str]] | None = None,
) -> str:
    """Lines on shared axes; the key stands to the right, outside the frame."""
    shown = [s for s in series if len(s.x)]
    across = x or _range([v for s in shown for v in s.x])
    up = y or _range([v for s in shown for v in s.y])
    axes = Axes(title, x_label, y_label, x=across, y=up, size=size)
    axes.x_ticks = x_ticks
    for i, s in enumerate(shown):
        for a, interval in zip(s.x, s.intervals, strict=False):
            if interval is not None:
                axes.whisker(a, interval[0], interval[1], f"whisker s{i % N_STYLES}")
        axes.line(list(s.x), list(s.y), f"series s{i % N_STYLES}")
        if s.marks:
            for a, b in zip(s.x, s.y, strict=True):
                axes.dot(a, b, f"mark m{i % N_STYLES}", note=f"{s.name}: {a:g}, {b:.3f}")
    return _with_key(axes, [s.name for s in shown])


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; `style` groups rows, `theirs` is the paper's figure for the same."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    theirs: float | None = None
    style: int = 0


def interval_plot(
    title: str, x_label: str, rows: Sequence[Estimate], *, x: tuple[float, float] | None = None
) -> str:
    """One row an estimate: a dot on its interval, a diamond where the paper has a figure; a line at zero."""
    step, left, width = 22, 290, 360
    values = [v for r in rows for v in (r.value, r.low, r.high, r.theirs) if v is not None]
    low, high = x or _range(values)
    height = TOP + step * max(len(rows), 1) + BOTTOM
    bottom = height - BOTTOM

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * width

    out = [
        f'<svg viewBox="0 0 {left + width + 20} {height}" width="{left + width + 20}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
    ]
    for i in range(6):
        value = low + i / 5 * (high - low)
        out.append(f'<line x1="{at(value):.1f}" x2="{at(value):.1f}" y1="{TOP}" y2="{bottom}" class="grid"/>')
        out.append(f'<text x="{at(value):.1f}" y="{bottom + 16}" class="tick-x">{value:.2g}</text>')
    if low < 0 < high:
        out.append(f'<line x1="{at(0):.1f}" x2="{at(0):.1f}" y1="{TOP}" y2="{bottom}" class="ideal"/>')
    for i, row in enumerate(rows):
        y = TOP + step * i + step / 2
        out.append(f'<text x="{left - 10}" y="{y + 4:.1f}" class="name small">{escape(row.name)}</text>')
        if row.low is not None and row.high is not None:
            span = f'x1="{at(row.low):.1f}" x2="{at(row.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
            out.append(f'<line {span} class="span s{row.style % N_STYLES}"/>')
        if row.value is not None:
            note = f"<title>{escape(row.name)}: {row.value:.3f}</title>"
            dot = f'cx="{at(row.value):.1f}" cy="{y:.1f}" r="4"'
            out.append(f'<circle {dot} class="mark m{row.style % N_STYLES}">{note}</circle>')
        if row.theirs is not None:
            cx = at(row.theirs)
            path = f"M{cx:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6Z"
            out.append(f'<path d="{path}" class="theirs"><title>the paper: {row.theirs:.3f}</title></path>')
    middle = left + width / 2
    out.append(f'<text x="{middle:.0f}" y="{height - 8}" class="tick-x">{escape(x_label)}</text>')
    return "".join(out) + "</svg>"


def _with_key(axes: Axes, names: Sequence[str]) -> str:
    drawing = axes.svg()
    widest = max((len(name) for name in names), default=0)
    room = 44 + 7 * widest
    width = axes.width + room
    key = []
    for i, name in enumerate(names):
        y = TOP + 14 + 19 * i
        x = axes.width - RIGHT + 12
        style = i % N_STYLES
        key.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" class="series s{style}"/>')
        key.append(f'<text x="{x + 30}" y="{y}" class="small">{escape(name)}</text>')
    old = f'viewBox="0 0 {axes.width} {axes.height}" width="{axes.width}"'
    height = max(axes.height, TOP + 19 * len(names) + 10)
    wider = drawing.replace(old, f'viewBox="0 0 {width} {height}" width="{width}"', 1)
    return wider.removesuffix("</svg>") + "".join(key) + "</svg>"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The values' span from nought (or below) with a little air above; never empty."""
    low, high = min([0.0, *values]), max([0.0, *values])
    air = 0.04 * (high - low) or 1.0
    return (low - air if low < 0 else low), high + air


CSS = """
.grid{stroke:var(--line);stroke-width:.6}.tick-x{text-anchor:middle;font-size:12px!important}
.tick-y{text-anchor:end;font-size:12px!important}.small{font-size:12px!important}
.frame{fill:none;stroke:var(--soft)}.ideal{fill:none;stroke:var(--soft);stroke-dasharray:5 4;stroke-width:1.5}
.series,.span{fill:none;stroke-width:2}.span{stroke-width:2.5}
.s0{stroke:var(--lead)}
.s1{stroke:var(--warm);stroke-dasharray:8 3}.s2{stroke:var(--green);stroke-dasharray:2 3}
.s3{stroke:var(--violet);stroke-dasharray:9 3 2 3}.s4{stroke:#56a5d8}.s5{stroke:#c79100;stroke-dasharray:5 3}
.s6{stroke:var(--soft);stroke-dasharray:1 3}.s7{stroke:#c05a8a;stroke-dasharray:12 4}
.span,.whisker{stroke-dasharray:none}.whisker{fill:none;stroke-width:1}
.mark{stroke:var(--paper);stroke-width:1}.m0{fill:var(--lead)}.m1{fill:var(--warm)}
.m2{fill:var(--green)}.m3{fill:var(--violet)}
.m4{fill:#56a5d8}.m5{fill:#c79100}.m6{fill:var(--soft)}.m7{fill:#c05a8a}
.theirs{fill:var(--paper);stroke:var(--ink);stroke-width:1.5}
.curve,.wrong,.outside{fill:none;stroke-width:2.2}.curve{stroke:var(--lead)}.wrong{stroke:var(--warm)}
.outside{stroke:var(--violet);stroke-dasharray:7 4}.point{fill:var(--lead);stroke:var(--paper)}
.cross{stroke:var(--warm);stroke-width:1.8;fill:none}
"""

__all__ = ["CSS", "Estimate", "Series", "interval_plot", "line_plot"]
