"""Axes for the small SVG plots: one frame, two linear scales, marks in data coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 46


class Axes:
    """Collects marks; `svg()` gives the finished drawing."""

    def __init__(
        self,
        title: str,
        x_label: str,
        y_label: str,
        *,
        x: tuple[float, float] = (0.0, 1.0),
        y: tuple[float, float] = (0.0, 1.0),
        size: tuple[int, int] = (400, 300),
    ) -> None:
        self.title, self.x_label, self.y_label = title, x_label, y_label
        # a scale of no length would divide by zero; any positive length draws the same flat picture
        self.x_range = x if x[1] > x[0] else (x[0], x[0] + 1)
        self.y_range = y if y[1] > y[0] else (y[0], y[0] + 1)
        self.width, self.height = size
        self.marks: list[str] = []
        # Ticks of one's own (position, word), where six even steps would not do: for settings on a log scale.
        self.x_ticks: Sequence[tuple[float, str]] | None = None

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (
            LEFT + (x - x0) / (x1 - x0) * (self.width - LEFT - RIGHT),
            self.height - BOTTOM - (y - y0) / (y1 - y0) * (self.height - TOP - BOTTOM),
        )

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        points = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in zip(xs, ys, strict=True))
        self.marks.append(f'<polyline points="{points}" class="{kind}"/>')

    def whisker(self, x: float, low: float, high: float, kind: str) -> None:
        """An upright interval with end strokes, cut at the frame."""
        px, top = self.at(x, min(high, self.y_range[1]))
        _, bottom = self.at(x, max(low, self.y_range[0]))
        path = f"M{px - 3:.1f} {top:.1f}h6m-3 0V{bottom:.1f}m-3 0h6"
        self.marks.append(f'<path d="{path}" class="{kind}"/>')

    def bar(self, x0: float, x1: float, y: float, kind: str, note: str = "") -> None:
        left, top = self.at(x0, y)
        right, bottom = self.at(x1, self.y_range[0])
        hint = f"<title>{escape(note)}</title>" if note else ""
        self.marks.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" '
            f'height="{max(bottom - top, 0):.1f}" class="{kind}">{hint}</rect>'
        )

    def dot(self, x: float, y: float, kind: str, radius: float = 3, note: str = "") -> None:
        cx, cy = self.at(x, y)
        hint = f"<title>{escape(note)}</title>" if note else ""
        self.marks.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}" class="{kind}">{hint}</circle>'
        )

    def svg(self) -> str:
        x0, y0 = LEFT, self.height - BOTTOM
        x1, y1 = self.width - RIGHT, TOP
        ticks = []
        for x, word in self.x_ticks or _even(*self.x_range):
            px, _ = self.at(x, self.y_range[0])
            ticks.append(f'<text x="{px:.1f}" y="{y0 + 16}" class="tick-x">{escape(word)}</text>')
        for y, word in _even(*self.y_range):
            _, py = self.at(self.x_range[0], y)
            ticks.append(f'<text x="{x0 - 6}" y="{py + 4:.1f}" class="tick-y">{word}</text>')
            ticks.append(f'<line x1="{x0}" x2="{x1}" y1="{py:.1f}" y2="{py:.1f}" class="grid"/>')
        across, along = (x0 + x1) / 2, -(y0 + y1) / 2
        words = (
            f'<text x="{across:.0f}" y="{self.height - 8}" class="tick-x">{escape(self.x_label)}</text>'
            f'<text transform="rotate(-90)" x="{along:.0f}" y="14" class="tick-x">'
            f"{escape(self.y_label)}</text>"
        )
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img" '
            f'aria-label="{escape(self.title)}" xmlns="http://www.w3.org/2000/svg">'
            f"<title>{escape(self.title)}</title>{''.join(ticks)}{''.join(self.marks)}"
            f'<path d="M{x0} {y1}V{y0}H{x1}" class="frame"/>'
            f"{words}</svg>"
        )


def _even(low: float, high: float) -> list[tuple[float, str]]:
    places = [low + share / 5 * (high - low) for share in range(6)]
    return [(place, f"{place:.2g}") for place in places]
