"""Building a bank: ask for what is missing, keep every answer, finish or stop cleanly.

The loop has no state of its own worth saving. Each answer is appended to the store before anything is
concluded from it; where the build stands is read off the store (see `verdicts`). Killing it anywhere and
running the same command again therefore asks only for what is not there: at most the requests that were
under way are repeated. The manifest, written last, says that a bank is complete.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank.files import (
    BACKGROUND_FILE,
    BANK_FILE,
    FORMAT,
    MANIFEST_FILE,
    read_manifest,
    write_jsonl,
    write_manifest,
)
from simdx.bank.plan import BACKGROUND, BankPlan, BuildSettings, Planned
from simdx.bank.store import STORE_FILE, AnswerStore, answer_row
from simdx.bank.successor import refuse_lesser
from simdx.bank.verdicts import Stratum, TextVerdict, strata_of
from simdx.disk import cannot_write
from simdx.errors import BadInput, RunFailed
from simdx.simulators.base import Request, Simulator
from simdx.types import Bank, Panel

REJECTED_FILE = "rejected.jsonl"
# So many failures without one answer between them mean the server is gone, not that requests are bad.
HOPELESS = 24


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Where this run stops, and what its tokens cost per million; None: no limit, no price."""

    max_requests: int | None = None
    max_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        if self.price_in is None and self.price_out is None:
            return None
        return ((self.price_in or 0) * prompt_tokens + (self.price_out or 0) * completion_tokens) / 1e6


@dataclass(slots=True)
class BuildProgress:
    """What this run has done so far, for whoever draws it."""

    wanted: int
    usable: int
    started: float = field(default_factory=time.monotonic)
    asked: int = 0
    answered: int = 0
    failed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    stopped: str | None = None
    last_error: str | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class BuildReport:
    """How a run ended. `usable` and `rejected` are over the whole store, the rest over this run."""

    complete: bool
    usable: Mapping[str, int]
    wanted: Mapping[str, int]
    rejected: Mapping[str, int]
    answers: int
    asked: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None
    stopped: str | None
    hash: str | None

    @property
    def usable_share(self) -> float | None:
        return sum(self.usable.values()) / self.answers if self.answers else None

    def describe(self) -> str:
        lines = ["complete" if self.complete else "not complete"]
        lines += [f"  {n:6} of {self.wanted[label]}  {label}" for label, n in self.usable.items()]
        lines.append(f"  {self.answers} texts in all, {sum(self.rejected.values())} rejected")
        lines += [f"  {n:6}  rejected: {reason}" for reason, n in self.rejected.items()]
        speed = self.completion_tokens / self.seconds if self.seconds else 0.0
        lines.append(
            f"  this run: {self.asked} requests, {self.failed} failed, "
            f"{self.prompt_tokens}+{self.completion_tokens} tokens in {self.seconds:.0f} s ({speed:.0f}/s)"
            + (f", cost {self.cost:.4f}" if self.cost is not None else "")
        )
        return "\n".join(lines)


Watch = Callable[[BuildProgress], None]


def build_bank(
    panel: Panel,
    simulator: Simulator,
    settings: BuildSettings,
    out: Path,
    limits: BuildLimits | None = None,
    watch: Watch = lambda _: None,
) -> BuildReport:
    """Bring the bank at `out` to the settings' numbers, or as far as the limits allow."""
    limits = limits or BuildLimits()
    refuse_foreign(out, panel)
    refuse_lesser(out, panel, simulator.id, settings)
    with AnswerStore(out) as store:
        refuse_lesser(out, panel, simulator.id, settings)  # another build may just have finished here
        plan = BankPlan(panel, simulator.id, settings)
        strata = strata_of(plan, store, lockstep=simulator.lockstep)
        progress = BuildProgress(sum(plan.targets.values()), sum(s.usable for s in strata.values()))
        with _stop_on_signal(progress):
            _ask_what_is_missing(plan, strata, simulator, store, limits, progress, watch)
        return _finish(plan, strata, store, limits, progress, settings)


# --------------------------------------------------------------------------- asking


def _ask_what_is_missing(
    plan: BankPlan,
    strata: Mapping[str, Stratum],
    simulator: Simulator,
    store: AnswerStore,
    limits: BuildLimits,
    progress: BuildProgress,
    watch: Watch,
) -> None:
    while progress.stopped is None and any(s.missing > 0 for s in strata.values()):
        before = progress.answered + progress.failed
        _one_round(plan, strata, simulator, store, limits, progress, watch)
        # Near-duplicates were judged in the order of arrival; the plan's order has the last word.
        for stratum in strata.values():
            stratum.settle()
        if progress.answered + progress.failed == before:
            return


def _one_round(
    plan: BankPlan,
    strata: Mapping[str, Stratum],
    simulator: Simulator,
    store: AnswerStore,
    limits: BuildLimits,
    progress: BuildProgress,
    watch: Watch,
) -> None:
    asked: list[Planned] = []
    failures_in_a_row = 0
    for position, completion in simulator.complete(_requests(strata, asked, limits, progress)):
        planned = asked[position]
        row = answer_row(
            completion,
            key=planned.key,
            model=plan.model,
            stratum=planned.stratum,
            index=planned.index,
            topic=planned.topic,
            facets=dict(planned.facets),
        )
        store.append(row)
        verdict = strata[planned.stratum].take(planned, row)
        failures_in_a_row = failures_in_a_row + 1 if row.error else 0
        progress.last_error = row.error or progress.last_error
        _count(progress, verdict, completion.prompt_tokens, completion.completion_tokens, limits)
        progress.usable = sum(min(s.usable, s.target) for s in strata.values())
        if failures_in_a_row >= HOPELESS:
            progress.stopped = f"the simulator failed {HOPELESS} times in a row ({row.error})"
        watch(progress)


def _requests(
    strata: Mapping[str, Stratum], asked: list[Planned], limits: BuildLimits, progress: BuildProgress
) -> Iterator[Request | None]:
    """Requests in turn over the strata, so that labels grow evenly; None while answers are awaited."""
    while progress.stopped is None:
        if limits.max_requests is not None and progress.asked >= limits.max_requests:
            progress.stopped = f"--max-requests {limits.max_requests} reached"
        elif limits.max_tokens is not None and _tokens(progress) >= limits.max_tokens:
            progress.stopped = f"--max-tokens {limits.max_tokens} reached"
        if progress.stopped is not None:
            return
        due = min(
            (s for s in strata.values() if s.missing > 0 and s.has_next()),
            key=lambda s: s.handed_out / s.target,
            default=None,
        )
        if due is None:
            yield None  # the stream ends by itself when nothing is under way any more
            continue
        planned = due.next()
        asked.append(planned)
        progress.asked += 1
        yield planned.request


def _tokens(progress: BuildProgress) -> int:
    return progress.prompt_tokens + progress.completion_tokens


def _count(
    progress: BuildProgress,
    verdict: TextVerdict | None,
    prompt_tokens: int,
    completion_tokens: int,
    limits: BuildLimits,
) -> None:
    progress.prompt_tokens += prompt_tokens
    progress.completion_tokens += completion_tokens
    progress.cost = limits.cost(progress.prompt_tokens, progress.completion_tokens)
    if verdict is None:
        progress.failed += 1
        return
    progress.answered += 1
    if verdict.reason is not None:
        progress.rejected[verdict.reason] += 1


@contextmanager
def _stop_on_signal(progress: BuildProgress) -> Iterator[None]:
    """First Ctrl-C: ask nothing more and keep what is under way. Second: leave at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: Any) -> None:
        if progress.stopped is not None:
            raise KeyboardInterrupt
        progress.stopped = "interrupted"

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


# --------------------------------------------------------------------------- finishing


def _finish(
    plan: BankPlan,
    strata: Mapping[str, Stratum],
    store: AnswerStore,
    limits: BuildLimits,
    progress: BuildProgress,
    settings: BuildSettings,
) -> BuildReport:
    rejected: Counter[str] = Counter()
    for stratum in strata.values():
        rejected.update(stratum.rejected)
    complete = all(s.missing <= 0 for s in strata.values())
    answers = sum(len(s.verdicts) for s in strata.values())
    _write_rejected(store.folder, strata)
    digest = None
    if complete:
        manifest = _write_complete(plan, strata, store.folder, rejected, answers, settings)
        digest = str(manifest["hash"])
    elif progress.stopped is None:
        progress.stopped = _why_incomplete(strata, progress)
    return BuildReport(
        complete=complete,
        usable={_shown(s.name): s.usable for s in strata.values()},
        wanted={_shown(s.name): s.target for s in strata.values()},
        rejected=dict(rejected.most_common()),
        answers=answers,
        asked=progress.asked,
        failed=progress.failed,
        prompt_tokens=progress.prompt_tokens,
        completion_tokens=progress.completion_tokens,
        seconds=round(progress.seconds, 2),
        cost=progress.cost,
        stopped=None if complete else progress.stopped,
        hash=digest,
    )


def _why_incomplete(strata: Mapping[str, Stratum], progress: BuildProgress) -> str:
    for stratum in strata.values():
        if stratum.exhausted:
            return (
                f"'{_shown(stratum.name)}' has {stratum.usable} usable of {stratum.target} after "
                f"{stratum.horizon} requests: try another simulator or temperature"
            )
    return f"{progress.failed} requests failed, the last with: {progress.last_error}"


def _shown(stratum: str) -> str:
    return "(background)" if stratum == BACKGROUND else stratum


def _write_rejected(folder: Path, strata: Mapping[str, Stratum]) -> None:
    rows = (
        {
            "label" if s.name != BACKGROUND else "condition": v.planned.topic,
            "index": v.planned.index,
            "reason": v.reason,
            "text": v.answer.text,
            "key": v.planned.key,
        }
        for s in strata.values()
        for v in s.verdicts
        if v.reason is not None
    )
    write_jsonl(folder / REJECTED_FILE, rows)


def _write_complete(
    plan: BankPlan,
    strata: Mapping[str, Stratum],
    folder: Path,
    rejected: Counter[str],
    answers: int,
    settings: BuildSettings,
) -> dict[str, Any]:
    """Bank files, then the manifest. An older manifest goes first: it must not vouch for new files."""
    _remove(folder / MANIFEST_FILE)
    usable = {name: _chosen(stratum) for name, stratum in strata.items()}
    labelled = [(name, v) for name in plan.panel.names for v in usable[name]]
    files = {
        BANK_FILE: write_jsonl(
            folder / BANK_FILE,
            (
                {"label": n, "text": v.text, "facets": dict(v.planned.facets), "key": v.planned.key}
                for n, v in labelled
            ),
        )
    }
    background = usable.get(BACKGROUND, [])
    if background:
        files[BACKGROUND_FILE] = write_jsonl(
            folder / BACKGROUND_FILE,
            ({"condition": v.planned.topic, "text": v.text, "key": v.planned.key} for v in background),
        )
    else:
        _remove(folder / BACKGROUND_FILE)  # of a build with other settings that never came to its manifest
    position = {name: i for i, name in enumerate(plan.panel.names)}
    bank = Bank(
        panel=plan.panel.name,
        labels=plan.panel.names,
        texts=tuple(v.text for _, v in labelled),
        label_index=np.array([position[n] for n, _ in labelled], dtype=np.int64),
        background=tuple(v.text for v in background),
    )
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "panel": plan.panel.name,
        "panel_hash": plan.panel.hash,
        "labels": bank.counts,
        "rejected": dict(rejected.most_common()),
        "hash": bank.hash,
        "files": files,
        "simulator": plan.model,
        "settings": asdict(settings),
        "answers": answers,
    }
    return write_manifest(folder, manifest)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def _chosen(stratum: Stratum) -> list[TextVerdict]:
    usable = sorted((v for v in stratum.verdicts if v.reason is None), key=lambda v: v.planned.index)
    return usable[: stratum.target]


def refuse_foreign(out: Path, panel: Panel) -> None:
    """A folder that holds something else is left alone."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"'{out}' is a file: give a folder")
    if (out / MANIFEST_FILE).exists():
        if read_manifest(out)["panel_hash"] != panel.hash:
            raise BadInput(f"'{out}' holds a bank of another panel: choose a new folder")
        if not (out / STORE_FILE).exists():
            raise BadInput(f"'{out}' holds a bank that was not built here: choose a new folder")
    elif out.is_dir() and not (out / STORE_FILE).exists():
        strangers = [p for p in out.iterdir() if not p.name.startswith(".")]
        if strangers:
            raise BadInput(f"'{out}' is not empty and holds no build: choose a new folder")


def failed_line(report: BuildReport, out: Path) -> RunFailed:
    """The one line an incomplete build ends with."""
    have, want = sum(report.usable.values()), sum(report.wanted.values())
    return RunFailed(
        f"the bank is not complete ({have} of {want} usable): {report.stopped}; every answer is kept in "
        f"'{out}', run the same command again to go on"
    )
