"""The rooms of the house: their order, what each imports, and how long a file may be."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.source import FILES, SOURCE, imported, trees

FREE = {"types", "errors", "plugins"}  # every room may use them
# From low to high: a room imports only rooms that stand before it.
ORDER = [
    "types", "errors", "plugins", "egress", "disk", "rows", "reading",
    "answer", "abc", "metrics", "models", "simulators", "embedders", "datasets", "library", "panels", "bank",
    "methods", "upkeep", "amortised", "baselines", "fitting", "decide", "classifier",
    "archive", "estimator", "runs",
    "evaluation", "report", "transfer", "evaluate", "bank_score", "review",
    "scale", "service", "bench", "demo", "cli",
]  # fmt: skip
LONGEST = 400  # lines
# file -> why it is one all the same
LONG = {
    "amortised/train.py": "observations, their targets and the training on them share their shapes",
    "answer.py": "the answer and the sentences that every reader shows of it",
    "classifier.py": "the front door is one class",
    "cli/bank.py": "ten verbs of one noun, which say the same of a folder",
    "methods/calibration.py": "by rehearsal, by the library and by labelled cases: one idea, shared scores",
    "review.py": "forms out, forms in and what was said share one sheet of scales and hashes",
}
_ROW = re.compile(r"^\| (`[^|]+`) \|.*\| ([^|]*) \|$", re.M)


def told() -> dict[str, set[str]]:
    """Room -> the rooms its row of the table lets it import."""
    out: dict[str, set[str]] = {}
    for names, allowed in _ROW.findall((ROOT / "docs/architecture.md").read_text(encoding="utf-8")):
        others = {part.strip() for part in allowed.split(",")} - {"–"}
        for name in re.findall(r"`([\w.]+)/?`", names):
            out[name.removesuffix(".py")] = others
    return out


MODULES = {
    ".".join(("simdx", *Path(file).with_suffix("").parts)).removesuffix(".__init__"): file for file in FILES
}
TOLD = told()


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules it imports. That `simdx` states its version is no import of what lies in it."""
    known = MODULES.keys() - {"simdx"}
    return {name: imported(trees()[file], known) & known for name, file in MODULES.items()}


@cache
def rooms() -> dict[str, set[str]]:
    """Room -> the rooms its modules import."""
    out: dict[str, set[str]] = {}
    for name, others in imports().items():
        room = name.split(".")[1] if "." in name else ""
        out.setdefault(room, set()).update(other.split(".")[1] for other in others)
    return {room: others - {room} for room, others in out.items() if room and not room.startswith("__")}


def test_every_room_has_a_row_in_order() -> None:
    assert set(rooms()) == set(ORDER)
    assert list(TOLD) == ORDER, "docs/architecture.md lists the rooms in another order"


@pytest.mark.parametrize("room", ORDER)
def test_imports_are_those_of_the_table(room: str) -> None:
    if TOLD[room] == {"everything"}:
        return
    together = {name for name in TOLD if TOLD[name] is TOLD[room]}  # rooms that share a row
    used = set().union(*(rooms()[name] for name in together)) - together - FREE
    assert used == TOLD[room], "docs/architecture.md and the code differ"


@pytest.mark.parametrize("room", ORDER)
def test_no_arrow_goes_up(room: str) -> None:
    below = set(ORDER[: ORDER.index(room)])
    assert rooms()[room] <= below, f"{room} imports what stands above it: {rooms()[room] - below}"


def test_files_import_in_no_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(f"files import each other: {' -> '.join(error.args[1])}")


def test_the_numerics_stand_alone() -> None:
    for room in ("abc", "metrics"):
        assert not rooms()[room] - FREE
    assert rooms()["models"] - FREE == {"disk"}


def test_long_files_have_a_reason() -> None:
    lines = {file: len((SOURCE / file).read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file for file, n in lines.items() if n > LONGEST} == set(LONG), (
        "split the file, or say in LONG why it is one"
    )


def test_a_class_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for name, file in MODULES.items():
        for node in trees()[file].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
