"""Two pictures of the code, read off it: `python docs/tools/house.py` writes docs/pictures/house/*.svg.

rooms.svg   the rooms of `src/simdx`, each above everything it imports. An arrow that follows from others is
            left out, and so are `types` and `errors`, which every room may use
way.svg     which files one text goes through, in order, recorded while `Classifier.infer` answers

`--check` writes nothing and fails where a committed picture is another one.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "simdx"
OUT = ROOT / "docs" / "pictures" / "house"
FREE = {"types", "errors"}
TEXTS = ("A soft, bluish, painless swelling.", "A hard white patch of the tongue. It has grown for weeks.")
STYLE = (
    "<style>svg{font:13px system-ui,sans-serif}rect{fill:#eef3f8;stroke:#5b7a99}text{fill:#1b1f24}"
    ".small{font-size:11px;fill:#57606a}path{fill:none;stroke:#7d8fa3;marker-end:url(#tip)}"
    ".sheet{fill:#fff;stroke:none}</style>"
    "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6' markerHeight='6' "
    "orient='auto'><path d='M0 0L8 4L0 8z' style='fill:#7d8fa3;stroke:none;marker-end:none'/></marker></defs>"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="Compare; write nothing.")
    check = parser.parse_args().check
    stale = []
    for name, drawing in (("rooms", draw_rooms(arrows())), ("way", draw_way(record()))):
        path = OUT / f"{name}.svg"
        if check and (not path.exists() or path.read_text(encoding="utf-8") != drawing):
            stale.append(path.name)
        elif not check:
            OUT.mkdir(parents=True, exist_ok=True)
            path.write_text(drawing, encoding="utf-8")
    if stale:
        print(f"{' and '.join(stale)} in docs/pictures/house: out of date; run python docs/tools/house.py")
    return len(stale)


# --------------------------------------------------------------------------- rooms


def arrows() -> dict[str, set[str]]:
    """Room -> the rooms its files import, lazily or not."""
    rooms = {path.stem for path in SOURCE.glob("*.py")} | {path.parent.name for path in SOURCE.glob("*/*.py")}
    rooms = {room for room in rooms if not room.startswith("__")} - FREE
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in rooms:
            imported = (
                part for node in ast.walk(ast.parse(file.read_text("utf-8"))) for part in _rooms(node)
            )
            found[room] |= (set(imported) & rooms) - {room}
    return found


def _rooms(node: ast.AST) -> Iterable[str]:
    """The rooms that an import statement names."""
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        return
    for name in names:
        first, _, rest = name.partition(".")
        if first == "simdx" and rest:
            yield rest.split(".")[0]


def draw_rooms(found: Mapping[str, set[str]]) -> str:
    level: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in level:
            level[room] = 1 + max((height(other) for other in found[room]), default=-1)
        return level[room]

    def reached(room: str) -> set[str]:
        return found[room].union(*(reached(other) for other in found[room]))

    rows: list[list[str]] = [[] for _ in range(1 + max(map(height, found)))]
    for room in sorted(found):
        rows[level[room]].append(room)
    near = {room: found[room].difference(*(reached(o) for o in found[room])) for room in found}
    width, gap, tall = 104, 26, 66
    wide = max(len(row) for row in rows) * (width + gap) + gap
    x = {room: gap + (j + 0.5) * wide / len(row) - width / 2 for row in rows for j, room in enumerate(row)}
    joined = {room: near[room] | {other for other in near if room in near[other]} for room in near}
    for _ in range(12):  # each room goes to the middle of those it has arrows with, as far as there is room
        for row in rows:
            row.sort(key=lambda room: sum(x[other] for other in joined[room]) / max(1, len(joined[room])))
            for j, room in enumerate(row):
                wanted = sum(x[other] for other in joined[room]) / max(1, len(joined[room]))
                least = x[row[j - 1]] + width + gap if j else gap
                most = wide - (len(row) - j) * (width + gap)
                x[room] = min(max(wanted, least), most)
    place = {room: (x[room], (len(rows) - 1 - level[room]) * tall + 20) for room in x}
    body = []
    for room, others in sorted(near.items()):
        for other in sorted(others):
            (x1, y1), (x2, y2) = place[room], place[other]
            x1, y1, x2, y2 = x1 + width / 2, y1 + 28, x2 + width / 2, y2 - 1
            bend = (y2 - y1) / 2
            curve = f"{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
            body.append(f"<path d='M{x1:.0f} {y1:.0f}C{curve}'/>")
    body += [_box(room, *place[room], width) for room in sorted(place)]
    return _sheet(wide, len(rows) * tall + 10, "The rooms of simdx, each above what it imports", body)


# --------------------------------------------------------------------------- a text's way


def record() -> list[tuple[int, str, str]]:
    """(depth, file, function) of every file that a text goes through, below the file that first called it.

    A first text fills the caches, so that what is recorded for the second is what every text costs.
    """
    from simdx.classifier import Classifier

    classifier = Classifier("oral-lesions")
    classifier.infer(TEXTS[0])
    calls: dict[str, tuple[str, str]] = {}  # file -> the file it was first called from, and what was called

    def entered(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event != "call" or not file.is_relative_to(SOURCE) or frame.f_code.co_name.startswith("<"):
            return
        name = file.relative_to(SOURCE).with_suffix("").as_posix()
        if name in calls or name in FREE:
            return
        caller = frame.f_back
        while caller is not None and _name_of(caller) not in calls:
            caller = caller.f_back
        calls[name] = ("" if caller is None else _name_of(caller), frame.f_code.co_name)

    sys.setprofile(entered)
    try:
        classifier.infer(TEXTS[1])
    finally:
        sys.setprofile(None)

    def below(caller: str, depth: int) -> Iterable[tuple[int, str, str]]:
        for name, (above, function) in calls.items():
            if above == caller:
                yield depth, name, function
                yield from below(name, depth + 1)

    return list(below("", 0))


def _name_of(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename)
    return file.relative_to(SOURCE).with_suffix("").as_posix() if file.is_relative_to(SOURCE) else ""


def draw_way(steps: list[tuple[int, str, str]]) -> str:
    indent, tall, width = 46, 34, 170
    body, last = [], dict[int, int]()
    for i, (depth, name, function) in enumerate(steps):
        x, y = 20 + depth * indent, 20 + i * tall
        if depth:
            top = 20 + last[depth - 1] * tall + 24
            body.append(f"<path d='M{x - indent + 14} {top}V{y + 12}H{x - 1}'/>")
        last[depth] = i
        body.append(_box(name, x, y, width, 24))
        body.append(f"<text class='small' x='{x + width + 8}' y='{y + 16}'>{escape(function)}</text>")
    wide = 20 + max(depth for depth, _, _ in steps) * indent + width + 190
    return _sheet(wide, len(steps) * tall + 30, "The files one text goes through, in order", body)


def _box(name: str, x: float, y: float, width: float, tall: float = 28) -> str:
    middle = f"x='{x + width / 2:.0f}' y='{y + tall / 2 + 4:.0f}' text-anchor='middle'"
    box = f"<rect x='{x:.0f}' y='{y:.0f}' width='{width}' height='{tall:.0f}' rx='5'/>"
    return f"{box}<text {middle}>{escape(name)}</text>"


def _sheet(wide: float, tall: float, title: str, body: list[str]) -> str:
    size = f"width='{wide:.0f}' height='{tall:.0f}' viewBox='0 0 {wide:.0f} {tall:.0f}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'><title>{escape(title)}</title>"
    sheet = f"<rect class='sheet' width='{wide:.0f}' height='{tall:.0f}'/>"
    return "\n".join([head, STYLE, sheet, *body, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
