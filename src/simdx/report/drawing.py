"""Small drawings as inline SVG: no script, no font, no request.

The standard library's XML writer writes them, so no caller has to escape a word. Colours come from classes:
the page that shows a drawing styles it, in light, dark and print; one that stands alone brings a style.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

Place = tuple[float, float]
Tick = tuple[float, str]  # where it stands, and its word
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 46
# For a drawing in a file of its own: what a page's style gives the others.
ALONE = (
    "text{font:11px sans-serif;fill:#333}.tick-x{text-anchor:middle}.tick-y{text-anchor:end}"
    ".grid{stroke:#e5e5e5}.frame{fill:none;stroke:#555}"
)


class Drawing:
    def __init__(self, title: str, width: float, height: float, style: str = "") -> None:
        self._root = Element("svg", {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}"})
        self._root.attrib |= {"role": "img", "aria-label": title, "xmlns": "http://www.w3.org/2000/svg"}
        self.add("title", words=title)
        if style:
            self.add("style", words=style)

    def add(self, tag: str, kind: str = "", words: str = "", note: str = "", **attributes: object) -> None:
        """One element of a class; `note` is shown when it is pointed at."""
        shown = {k: f"{v:.1f}" if isinstance(v, float) else str(v) for k, v in attributes.items()}
        made = SubElement(self._root, tag, {**shown, **({"class": kind} if kind else {})})
        made.text = words or None
        if note:
            SubElement(made, "title").text = note

    def text(self, x: float, y: float, words: str, kind: str, **more: str) -> None:
        self.add("text", kind, words, x=x, y=y, **more)

    def segment(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.add("line", kind, x1=x1, x2=x2, y1=y1, y2=y2)

    def box(self, x: float, y: float, width: float, height: float, kind: str, note: str = "") -> None:
        self.add("rect", kind, note=note, x=x, y=y, width=max(width, 0), height=max(height, 0))

    def circle(self, x: float, y: float, radius: float, kind: str, note: str = "") -> None:
        self.add("circle", kind, note=note, cx=x, cy=y, r=radius)

    def path(self, steps: str, kind: str, note: str = "") -> None:
        self.add("path", kind, note=note, d=steps)

    def svg(self) -> str:
        return tostring(self._root, encoding="unicode")


class Axes(Drawing):
    """One frame, two linear scales, marks in data coordinates; `key` names lines right of the frame."""

    def __init__(
        self,
        title: str,
        x_label: str,
        y_label: str,
        *,
        x: Place = (0.0, 1.0),
        y: Place = (0.0, 1.0),
        size: tuple[int, int] = (400, 300),
        x_ticks: Sequence[Tick] | None = None,
        key: Sequence[tuple[str, str]] = (),  # (word, class of its line)
        style: str = "",
    ) -> None:
        # a scale of no length would divide by zero; any positive length draws the same flat picture
        self.x_range = x if x[1] > x[0] else (x[0], x[0] + 1)
        self.y_range = y if y[1] > y[0] else (y[0], y[0] + 1)
        self._size = size
        room = 44 + 7 * max(len(word) for word, _ in key) if key else 0
        super().__init__(title, size[0] + room, max(size[1], TOP + 19 * len(key) + 10), style)
        x0, y0, x1, y1 = LEFT, size[1] - BOTTOM, size[0] - RIGHT, TOP
        for value, word in x_ticks or even_ticks(*self.x_range):
            self.text(self.at(value, 0)[0], y0 + 16, word, "tick-x")
        for value, word in even_ticks(*self.y_range):
            py = self.at(0, value)[1]
            self.text(x0 - 6, py + 4, word, "tick-y")
            self.segment(x0, py, x1, py, "grid")
        self.path(f"M{x0} {y1}V{y0}H{x1}", "frame")
        self.text((x0 + x1) / 2, size[1] - 8, x_label, "tick-x")
        self.text(-(y0 + y1) / 2, 14, y_label, "tick-x", transform="rotate(-90)")
        for i, (word, kind) in enumerate(key):
            py = TOP + 14 + 19 * i
            self.segment(x1 + 12, py - 4, x1 + 36, py - 4, kind)
            self.text(x1 + 42, py, word, "small")

    def at(self, x: float, y: float) -> Place:
        (x0, x1), (y0, y1), (width, height) = self.x_range, self.y_range, self._size
        return (
            LEFT + (x - x0) / (x1 - x0) * (width - LEFT - RIGHT),
            height - BOTTOM - (y - y0) / (y1 - y0) * (height - TOP - BOTTOM),
        )

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        points = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in zip(xs, ys, strict=True))
        self.add("polyline", kind, points=points)

    def whisker(self, x: float, low: float, high: float, kind: str) -> None:
        """An upright interval with end strokes, cut at the frame."""
        px, top = self.at(x, min(high, self.y_range[1]))
        bottom = self.at(x, max(low, self.y_range[0]))[1]
        self.path(f"M{px - 3:.1f} {top:.1f}h6m-3 0V{bottom:.1f}m-3 0h6", kind)

    def bar(self, x0: float, x1: float, y: float, kind: str, note: str = "") -> None:
        left, top = self.at(x0, y)
        right, bottom = self.at(x1, self.y_range[0])
        self.box(left, top, right - left, bottom - top, kind, note)

    def dot(self, x: float, y: float, kind: str, radius: float = 3, note: str = "") -> None:
        self.circle(*self.at(x, y), radius, kind, note)


def even_ticks(low: float, high: float) -> list[Tick]:
    places = [low + share / 5 * (high - low) for share in range(6)]
    return [(place, f"{place:.2g}") for place in places]
