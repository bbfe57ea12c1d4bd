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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from simdx.bank.files import (
    BACKGROUND_FILE,
    BANK_FILE,
    FORMAT,
    MANIFEST_FILE,
    assemble,
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
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Panel

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

    def after(self, report: BuildReport) -> BuildLimits:
        """What a run has left of them."""
        tokens = report.prompt_tokens + report.completion_tokens
        return replace(
            self,
            max_requests=None if self.max_requests is None else max(0, self.max_requests - report.asked),
            max_tokens=None if self.max_tokens is None else max(0, self.max_tokens - tokens),
        )


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
    refuse_foreign(out, panel)
    refuse_lesser(out, panel, simulator.id, settings)
    with AnswerStore(out) as store:
        refuse_lesser(out, panel, simulator.id, settings)  # another build may just have finished here
        build = _Build(
            BankPlan(panel, simulator.id, settings), simulator, store, limits or BuildLimits(), watch
        )
        with _stop_on_signal(build.progress):
            build.ask_what_is_missing()
        return build.finish(settings)


class _Build:
    def __init__(
        self, plan: BankPlan, simulator: Simulator, store: AnswerStore, limits: BuildLimits, watch: Watch
    ) -> None:
        self._plan, self._simulator, self._store = plan, simulator, store
        self._limits, self._watch = limits, watch
        self._by_name = strata_of(plan, store, lockstep=simulator.lockstep)
        self._strata = tuple(self._by_name.values())
        self.progress = BuildProgress(sum(plan.targets.values()), sum(s.usable for s in self._strata))

    # ----------------------------------------------------------------- asking

    def ask_what_is_missing(self) -> None:
        progress = self.progress
        while progress.stopped is None and any(s.missing > 0 for s in self._strata):
            before = progress.answered + progress.failed
            self._one_round()
            # Near-duplicates were judged in the order of arrival; the plan's order has the last word.
            for stratum in self._strata:
                stratum.settle()
            if progress.answered + progress.failed == before:
                return

    def _one_round(self) -> None:
        progress, asked = self.progress, list[Planned]()
        failures_in_a_row = 0
        for position, completion in self._simulator.complete(self._requests(asked)):
            planned = asked[position]
            row = answer_row(
                completion, key=planned.key, model=self._plan.model, stratum=planned.stratum,
                index=planned.index, topic=planned.topic, facets=dict(planned.facets),
            )  # fmt: skip
            self._store.append(row)
            self._count(self._by_name[planned.stratum].take(planned, row), completion)
            failures_in_a_row = failures_in_a_row + 1 if row.error else 0
            progress.last_error = row.error or progress.last_error
            progress.usable = sum(min(s.usable, s.target) for s in self._strata)
            if failures_in_a_row >= HOPELESS:
                progress.stopped = f"the simulator failed {HOPELESS} times in a row ({row.error})"
            self._watch(progress)

    def _requests(self, asked: list[Planned]) -> Iterator[Request | None]:
        """Requests in turn over the strata, so that labels grow evenly; None while answers are awaited."""
        progress, limits = self.progress, self._limits
        while progress.stopped is None:
            tokens = progress.prompt_tokens + progress.completion_tokens
            if limits.max_requests is not None and progress.asked >= limits.max_requests:
                progress.stopped = f"--max-requests {limits.max_requests} reached"
            elif limits.max_tokens is not None and tokens >= limits.max_tokens:
                progress.stopped = f"--max-tokens {limits.max_tokens} reached"
            if progress.stopped is not None:
                return
            due = min(
                (s for s in self._strata if s.missing > 0 and s.has_next()),
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

    def _count(self, verdict: TextVerdict | None, completion: Completion) -> None:
        progress = self.progress
        progress.prompt_tokens += completion.prompt_tokens
        progress.completion_tokens += completion.completion_tokens
        progress.cost = self._limits.cost(progress.prompt_tokens, progress.completion_tokens)
        if verdict is None:
            progress.failed += 1
            return
        progress.answered += 1
        if verdict.reason is not None:
            progress.rejected[verdict.reason] += 1

    # ----------------------------------------------------------------- finishing

    def finish(self, settings: BuildSettings) -> BuildReport:
        progress = self.progress
        rejected = sum((Counter(stratum.rejected) for stratum in self._strata), Counter[str]())
        complete = all(s.missing <= 0 for s in self._strata)
        answers = sum(len(s.verdicts) for s in self._strata)
        self._write_rejected()
        digest = None
        if complete:
            about = {"settings": asdict(settings), "answers": answers}
            digest = str(self._write_complete(dict(rejected.most_common()), about)["hash"])
        elif progress.stopped is None:
            progress.stopped = self._why_incomplete()
        return BuildReport(
            complete=complete,
            usable={_shown(s.name): s.usable for s in self._strata},
            wanted={_shown(s.name): s.target for s in self._strata},
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

    def _why_incomplete(self) -> str:
        for stratum in self._strata:
            if stratum.exhausted:
                return (
                    f"'{_shown(stratum.name)}' has {stratum.usable} usable of {stratum.target} after "
                    f"{stratum.horizon} requests: try another simulator or temperature"
                )
        return f"{self.progress.failed} requests failed, the last with: {self.progress.last_error}"

    def _write_rejected(self) -> None:
        rows = (
            {
                "label" if s.name != BACKGROUND else "condition": v.planned.topic,
                "index": v.planned.index,
                "reason": v.reason,
                "text": v.answer.text,
                "key": v.planned.key,
            }
            for s in self._strata
            for v in s.verdicts
            if v.reason is not None
        )
        write_jsonl(self._store.folder / REJECTED_FILE, rows)

    def _write_complete(self, rejected: dict[str, int], about: dict[str, Any]) -> dict[str, Any]:
        """Bank files, then the manifest. An older manifest goes first: it must not vouch for new files."""
        folder, panel = self._store.folder, self._plan.panel
        _remove(folder / MANIFEST_FILE)
        usable = {name: _chosen(stratum) for name, stratum in self._by_name.items()}
        labelled = [(name, v) for name in panel.names for v in usable[name]]
        rows = (
            {"label": n, "text": v.text, "facets": dict(v.planned.facets), "key": v.planned.key}
            for n, v in labelled
        )
        files = {BANK_FILE: write_jsonl(folder / BANK_FILE, rows)}
        background = usable.get(BACKGROUND, [])
        if background:
            others = (
                {"condition": v.planned.topic, "text": v.text, "key": v.planned.key} for v in background
            )
            files[BACKGROUND_FILE] = write_jsonl(folder / BACKGROUND_FILE, others)
        else:
            _remove(
                folder / BACKGROUND_FILE
            )  # of a build with other settings that never came to its manifest
        texts = [(name, v.text) for name, v in labelled]
        bank = assemble(panel, texts, tuple(v.text for v in background), panel.name)
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "panel": panel.name,
            "panel_hash": panel.hash,
            "labels": bank.counts,
            "rejected": rejected,
            "hash": bank.hash,
            "files": files,
            "simulator": self._plan.model,
            **about,
        }
        return write_manifest(folder, manifest)


def _shown(stratum: str) -> str:
    return "(background)" if stratum == BACKGROUND else stratum


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def _chosen(stratum: Stratum) -> list[TextVerdict]:
    usable = sorted((v for v in stratum.verdicts if v.reason is None), key=lambda v: v.planned.index)
    return usable[: stratum.target]


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
