"""What a run would do and cost, without starting a model."""

from __future__ import annotations

from dataclasses import dataclass

from simdx.baselines.asking import ASKING
from simdx.baselines.estimate import Speed
from simdx.baselines.interview import Plan, plan_questions
from simdx.errors import SimdxError
from simdx.experiments.cells import Loaded, Setting, load, settings_of
from simdx.experiments.config import SimulatorPart
from simdx.experiments.grid import Cell
from simdx.experiments.records import read_record
from simdx.simulators.base import Capabilities
from simdx.types import case_key

# Every capability: the questions a full server would be asked. One that lacks grammars writes some more.
_ABLE = Capabilities(logprobs=True, grammars=True, seeds=True, system_prompts=True)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with what it needs. `state`: run, done (its record stands), or why it cannot be loaded."""

    cell: Cell
    state: str
    n: int
    plan: Plan
    seconds: float | None
    price: float | None


def plan_cells(cells: tuple[Cell, ...], setting: Setting) -> list[PlannedCell]:
    return [_planned(cell, setting) for cell in cells]


def is_done(cell: Cell, setting: Setting, loaded: Loaded) -> bool:
    record = read_record(setting.out, cell.slug)
    return record is not None and record.get("status") == "done" and record.get("identity") == loaded.identity


def _planned(cell: Cell, setting: Setting) -> PlannedCell:
    nothing = Plan(0, 0, 0, 0)
    try:
        loaded = load(cell, setting)
    except (SimdxError, OSError) as problem:
        return PlannedCell(cell, str(problem), 0, nothing, None, None)
    n = len(loaded.dataset.cases)
    if is_done(cell, setting, loaded):
        return PlannedCell(cell, "done", n, nothing, 0.0, 0.0)
    if not cell.asks:
        return PlannedCell(cell, "run", n, nothing, None, None)
    texts = loaded.dataset.texts
    questions = ASKING[cell.method.method](loaded.source.panel.names, settings_of(cell, setting), _ABLE)
    plan = plan_questions(questions, texts, [case_key(text) for text in texts])
    part = cell.simulator
    return PlannedCell(cell, "run", n, plan, _seconds(plan, part), _price(plan, part))


def _seconds(plan: Plan, part: SimulatorPart | None) -> float | None:
    if part is None or part.reading is None or part.writing is None:
        return None
    return Speed(part.reading, part.writing).seconds(plan)


def _price(plan: Plan, part: SimulatorPart | None) -> float | None:
    if part is None or (part.prompt_price is None and part.completion_price is None):
        return None
    spent = plan.prompt_tokens * (part.prompt_price or 0) + plan.completion_tokens * (
        part.completion_price or 0
    )
    return spent / 1e6
