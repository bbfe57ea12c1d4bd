"""Figures of the measures, fixed: whoever moves one raises `RECIPE_VERSION`, so that no record goes stale."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paper.artefacts import chosen
from paper.context import Context
from simdx.methods import RECIPE_VERSION

FIXED = Path(__file__).with_name("figures.json")
# Those without a network, whose training rounds differently from machine to machine, and without times.
NAMES = (
    "main-results", "entropy-strata", "error-structure", "cosine-ablation", "prior-sensitivity",
    "pool-size", "post-hoc-calibration", "smc-dynamics", "ternary",
)  # fmt: skip


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield float(value)


def figures(context: Context, name: str) -> list[float]:
    """How many numbers a record would hold, and their sum."""
    found = list(numbers(chosen(name)[0].measure(context).to_json()["data"]))
    return [len(found), sum(found)]


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_moves_without_another_number(context: Context, name: str) -> None:
    fixed = json.loads(FIXED.read_text("utf-8"))
    assert fixed["recipe"] == RECIPE_VERSION
    now = figures(context, name)
    # A near tie that another processor ranks the other way round moves a sum by 2e-4.
    assert now == pytest.approx(fixed[name], rel=5e-4), (
        "raise RECIPE_VERSION, and put these into figures.json"
    )
