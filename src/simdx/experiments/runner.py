"""Running a grid: resumable, in lanes, with failures on record.

Cells that share a local model wait for each other, because the model already uses every core. Each remote
simulator has a lane of its own, and cells without a model run side by side.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from simdx.bank.files import MANIFEST_FILE
from simdx.baselines.asking import fit_asking
from simdx.baselines.interview import Asking, Question, measure, simulator_for
from simdx.disk import cannot_write, make_folder, write_atomically
from simdx.egress import check_names
from simdx.embedders import get_embedder, parts_of
from simdx.errors import BadInput, RunFailed, SimdxError
from simdx.experiments.cells import Loaded, Setting, bank_path, load, panel_of, settings_of, spec_of
from simdx.experiments.config import ExperimentConfig
from simdx.experiments.grid import Cell, expand
from simdx.experiments.plan import plan_cell
from simdx.experiments.table import markdown_rows, summary_row
from simdx.methods import PanelData
from simdx.runs import Record, fail, run
from simdx.runs.record import FORMAT, versions
from simdx.types import Panel

LOCK_FILE = ".run.lock"
Say = Callable[[str], None]
Lane = list[tuple[Cell, Loaded]]


@dataclass(frozen=True, slots=True)
class Watch:
    """How a run tells of itself: lines, and calls done of calls wanted in the cell under way."""

    say: Say = lambda _: None
    progress: Callable[[str, int, int], None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every cell's record, in the order of the grid."""

    records: tuple[Record, ...]
    resumed: int

    @property
    def failed(self) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.status == "failed")


def run_experiment(
    config: ExperimentConfig,
    out: Path,
    *,
    base: Path | None = None,
    workers: int = 2,
    allow_remote: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run every cell that has no standing record in `out`; write records as they come, a summary last."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file: --out needs a folder")
    setting = Setting(config, base or Path.cwd(), out, allow_remote)
    cells = expand(config)
    check_names(_models(cells, setting), allow_remote)  # one line now, not a failed record for every cell
    make_folder(out)
    try:
        with FileLock(out / LOCK_FILE, timeout=0):
            return _run(cells, setting, workers, watch or Watch())
    except Timeout:
        raise BadInput(f"another run is under way in '{out}': wait for it, or choose another --out") from None
    except OSError as error:  # of the lock
        raise cannot_write(out / LOCK_FILE, error) from None


def _run(cells: tuple[Cell, ...], setting: Setting, workers: int, watch: Watch) -> Outcome:
    _build_missing_banks(cells, setting, watch)
    todo, resumed = _sorted_out(cells, setting, watch)
    if resumed:
        watch.say(f"{resumed} of {len(cells)} cells are done already")
    lanes = _lanes(todo)
    _estimate(todo, setting, watch)
    for name in {cell.embedder or loaded.source.panel.embedder for cell, loaded in todo}:
        with suppress(SimdxError):  # loaded once before lanes ask for it; its cells will fail with the reason
            get_embedder(name, allow_remote=setting.allow_remote)
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        for finished in [pool.submit(_run_lane, lane, setting, watch) for lane in lanes]:
            finished.result()
    records = tuple(record for cell in cells if (record := setting.store.read(cell.slug)) is not None)
    if len(records) < len(cells):
        raise RunFailed(f"{len(cells) - len(records)} records in {setting.out} cannot be read back")
    config, rows = setting.config, [summary_row(record) for record in records]
    write_atomically(setting.out / "summary.md", markdown_rows(config.title or config.name, rows))
    whole = {"format": FORMAT, "config": config.model_dump(mode="json"), "versions": versions(), "rows": rows}
    text = json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(setting.out / "summary.json", text + "\n")
    return Outcome(records, resumed)


def _sorted_out(cells: tuple[Cell, ...], setting: Setting, watch: Watch) -> tuple[Lane, int]:
    """Cells still to run, loaded; those that cannot even be loaded are on record as failed."""
    todo, resumed, store = [], 0, setting.store
    for cell in cells:
        try:
            loaded = load(cell, setting)
        except Exception as problem:
            _fail(cell, setting, problem, watch)
            continue
        if store.damaged(cell.slug):
            watch.say(f"{cell.slug}: its record is damaged, the cell is run again")
        if store.standing(cell.slug, spec_of(cell, setting).identity(loaded)) is not None:
            resumed += 1
        else:
            todo.append((cell, loaded))
    return todo, resumed


def _lanes(todo: Lane) -> list[Lane]:
    alone: list[Lane] = []
    shared: dict[str, Lane] = {}
    for item in todo:
        part = item[0].simulator
        if part is None or not item[0].calls:
            alone.append([item])
        else:
            remote = part.name.startswith("openai:")
            shared.setdefault(part.name if remote else "local models", []).append(item)
    return [*alone, *shared.values()]


def _run_lane(lane: Lane, setting: Setting, watch: Watch) -> None:
    together: set[tuple[object, ...]] = set()
    for cell, loaded in lane:
        about = (cell.simulator, cell.panel, cell.seed)
        if cell.asks and about not in together:
            together.add(about)
            same = [i for i in lane if i[0].asks and about == (i[0].simulator, i[0].panel, i[0].seed)]
            _ask_together(same, setting, watch)
        try:
            spec = spec_of(cell, setting, partial(watch.progress, cell.slug))
            record = run(spec, loaded, setting.store)
        except Exception as problem:  # any failure is a result of this cell and must not end the others
            _fail(cell, setting, problem, watch)
            continue
        metrics = record["metrics"]
        known = [name for name in ("accuracy", "ece") if metrics.get(name) is not None]
        shown = ", ".join(f"{name} {metrics[name]:.3f}" for name in known)
        watch.say(f"{cell.slug}: n {metrics['n']}, {shown} ({record.cost['seconds']:.1f} s)")


def _ask_together(same: Lane, setting: Setting, watch: Watch) -> None:
    """Ask all questions of several methods case by case, so that a model reads each case once.

    The replies land in the store, where the cells find them. Whatever goes wrong here goes wrong again in
    the cell it belongs to, and is recorded there.
    """
    methods: list[Asking] = []
    loaded = same[0][1]
    panel = loaded.source.panel
    embedder = get_embedder(panel.embedder, allow_remote=setting.allow_remote)
    data = PanelData.prepare(panel, loaded.bank, embedder)
    for cell, _ in same:
        with suppress(SimdxError):
            methods.append(fit_asking(data, settings_of(cell, setting)))
    if len(methods) < 2:
        return
    first = methods[0]

    def questions(text: str, key: int) -> list[Question]:
        return [q for method in methods for q in method.questions(text, key)]

    joint = Asking(data, first.settings, first.simulator, questions)
    name = f"{same[0][0].panel.panel}, all questions"
    with suppress(SimdxError):
        joint.ask(data.observe(loaded.dataset.texts), partial(watch.progress, name))


def _fail(cell: Cell, setting: Setting, problem: Exception, watch: Watch) -> None:
    record = fail(spec_of(cell, setting), problem, setting.store)
    watch.say(f"{cell.slug}: FAILED: {record.error}")


def _estimate(todo: Lane, setting: Setting, watch: Watch) -> None:
    """Measure each simulator that will be asked, and say how long it will take."""
    by_simulator: dict[str, list[Cell]] = {}
    for cell, _ in todo:
        if cell.asks and cell.simulator is not None:
            by_simulator.setdefault(cell.simulator.name, []).append(cell)
    for name, cells in by_simulator.items():
        try:
            speed = measure(simulator_for(settings_of(cells[0], setting)))
        except SimdxError:
            continue  # the cells themselves will fail with this reason, on record
        plans = [plan_cell(cell, setting).plan for cell in cells]
        calls = sum(plan.calls for plan in plans)
        if speed is None:
            watch.say(f"{name}: {calls} questions at most; it did not answer the test question")
            continue
        minutes = sum(speed.seconds(plan) for plan in plans) / 60
        watch.say(
            f"{name}: {calls} questions at most, about {minutes:.0f} min at {speed.reading:.0f} tokens/s "
            f"read and {speed.writing:.0f} written"
        )


def _build_missing_banks(cells: tuple[Cell, ...], setting: Setting, watch: Watch) -> None:
    """Banks with `per_label` that are not complete yet. What cannot be built fails in its own cells."""
    from simdx.bank.builder import build_bank
    from simdx.bank.plan import BuildSettings
    from simdx.simulators import get_simulator

    for path, (cell, panel) in _missing_banks(cells, setting).items():
        assert cell.simulator is not None
        assert cell.bank.per_label is not None
        watch.say(f"building {path.name}: {cell.bank.per_label} per label by {cell.simulator.name}")
        try:
            # Labels alone are sent, yet the server is one that a file names: it needs permission.
            opened = get_simulator(cell.simulator.name, allow_remote=setting.allow_remote)
            try:
                build_bank(panel, opened, BuildSettings(per_label=cell.bank.per_label, seed=cell.seed), path)
            finally:
                opened.close()
        except SimdxError as problem:
            watch.say(f"{path.name}: {problem}")


def _missing_banks(cells: tuple[Cell, ...], setting: Setting) -> dict[Path, tuple[Cell, Panel]]:
    """Where each bank is to be built, with the first cell that wants it."""
    missing: dict[Path, tuple[Cell, Panel]] = {}
    for cell in cells:
        if cell.bank.per_label is not None and cell.simulator is not None:
            with suppress(SimdxError):
                panel = panel_of(cell, setting).panel
                path = bank_path(cell, setting.base, panel.name)
                if path is not None and not (path / MANIFEST_FILE).is_file():
                    missing.setdefault(path, (cell, panel))
    return missing


def _models(cells: tuple[Cell, ...], setting: Setting) -> set[str]:
    """All simulators and parts of embedders that a run would send anything to."""
    building = [cell for cell, _ in _missing_banks(cells, setting).values()]
    calling = [*(cell for cell in cells if cell.calls), *building]
    names = {cell.simulator.name for cell in calling if cell.simulator is not None}
    for cell in cells:
        with suppress(SimdxError):  # a panel that cannot be read fails in its own cells
            names.update(parts_of(cell.embedder or panel_of(cell, setting).panel.embedder))
    return names
