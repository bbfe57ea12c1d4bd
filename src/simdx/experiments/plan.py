"""What a run would do and cost, without starting a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simdx.baselines.asking import ASKING
from simdx.baselines.interview import CallPlan, Question, Speed, plan_questions, replies_path, reply_key
from simdx.baselines.replies import ReplyStore
from simdx.errors import SimdxError
from simdx.experiments.cells import Loaded, Setting, load, settings_of
from simdx.experiments.config import SimulatorPart
from simdx.experiments.grid import Cell
from simdx.experiments.records import standing
from simdx.simulators import identity_of
from simdx.simulators.base import Capabilities
from simdx.types import case_key

# What a server can do is known once it is started; a plan supposes the best.
_ABLE = Capabilities(logprobs=True, grammars=True, seeds=True, system_prompts=True)
_WITHOUT_GRAMMARS = replace(_ABLE, grammars=False)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with what it needs. `state`: run, done (its record stands), or why it cannot be loaded."""

    cell: Cell
    state: str
    n: int
    plan: CallPlan
    seconds: float | None
    price: float | None


def plan_cells(cells: tuple[Cell, ...], setting: Setting) -> list[PlannedCell]:
    return [_planned(cell, setting) for cell in cells]


def is_done(cell: Cell, setting: Setting, loaded: Loaded) -> bool:
    return standing(setting.out, cell.slug, loaded.identity) is not None


def _planned(cell: Cell, setting: Setting) -> PlannedCell:
    nothing = CallPlan(0, 0, 0, 0)
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
    stored = _stored(cell, setting, loaded.source.panel.names)
    make, keys = ASKING[cell.method.method], [case_key(text) for text in texts]
    plans = [
        plan_questions(make(loaded.source.panel.names, settings_of(cell, setting), able), texts, keys, stored)
        for able in (_ABLE, _WITHOUT_GRAMMARS)
    ]
    # Which of the two it is, an earlier run tells by its replies.
    plan = max(plans, key=lambda p: p.stored)
    part = cell.simulator
    return PlannedCell(cell, "run", n, plan, _seconds(plan, part), _price(plan, part))


def _stored(cell: Cell, setting: Setting, names: tuple[str, ...]) -> Callable[[Question], bool]:
    """Whether a question was answered in an earlier run, told from the simulator's name alone."""
    assert cell.simulator is not None
    try:
        simulator_id = identity_of(cell.simulator.name)
    except SimdxError:
        return lambda _: False
    path = replies_path(setting.replies, simulator_id)
    if not path.is_file():  # a plan writes nothing, not even an empty folder
        return lambda _: False
    store = ReplyStore(path)
    return lambda question: store.get(reply_key(question, simulator_id, names)) is not None


def _seconds(plan: CallPlan, part: SimulatorPart | None) -> float | None:
    if part is None or part.reading is None or part.writing is None:
        return None
    return Speed(part.reading, part.writing).seconds(plan)


def _price(plan: CallPlan, part: SimulatorPart | None) -> float | None:
    if part is None or (part.prompt_price is None and part.completion_price is None):
        return None
    spent = plan.prompt_tokens * (part.prompt_price or 0) + plan.completion_tokens * (
        part.completion_price or 0
    )
    return spent / 1e6
