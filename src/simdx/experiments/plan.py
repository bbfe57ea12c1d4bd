"""What a run would do and cost, without starting a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simdx.baselines.asking import ASKING
from simdx.baselines.interview import CallPlan, Question, Speed, plan_questions, replies_path, reply_key
from simdx.baselines.replies import ReplyStore
from simdx.errors import SimdxError
from simdx.experiments.cells import Setting, load, settings_of, spec_of
from simdx.experiments.grid import Cell
from simdx.simulators import identity_of
from simdx.simulators.base import Capabilities
from simdx.types import case_key

# What a server can do is known once it is started; a plan supposes the best.
_ABLE = Capabilities(logprobs=True, grammars=True, seeds=True, system_prompts=True)
_WITHOUT_GRAMMARS = replace(_ABLE, grammars=False)
_NOTHING = CallPlan(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with what it needs. `state`: run, done (its record stands), or why it cannot be loaded."""

    cell: Cell
    state: str
    n: int = 0
    plan: CallPlan = _NOTHING
    seconds: float | None = None
    price: float | None = None


def plan_cell(cell: Cell, setting: Setting) -> PlannedCell:
    try:
        loaded = load(cell, setting)
    except (SimdxError, OSError) as problem:
        return PlannedCell(cell, str(problem))
    n, names = len(loaded.dataset.cases), loaded.source.panel.names
    if setting.store.holds(cell.slug, spec_of(cell, setting).identity(loaded)):
        return PlannedCell(cell, "done", n, seconds=0.0, price=0.0)
    if not cell.asks:
        return PlannedCell(cell, "run", n)
    texts, stored = loaded.dataset.texts, _stored(cell, setting, names)
    make, keys = ASKING[cell.method.method], [case_key(text) for text in texts]
    plans = [
        plan_questions(make(names, settings_of(cell, setting), able), texts, keys, stored)
        for able in (_ABLE, _WITHOUT_GRAMMARS)
    ]
    # Which of the two it is, an earlier run tells by its replies.
    plan = max(plans, key=lambda p: p.stored)
    part = cell.simulator
    assert part is not None
    seconds = price = None
    if part.reading is not None and part.writing is not None:
        seconds = Speed(part.reading, part.writing).seconds(plan)
    if part.prompt_price is not None or part.completion_price is not None:
        read, written = part.prompt_price or 0, part.completion_price or 0
        price = (plan.prompt_tokens * read + plan.completion_tokens * written) / 1e6
    return PlannedCell(cell, "run", n, plan, seconds, price)


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
