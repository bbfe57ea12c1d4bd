"""The answers of a build, append-only, one JSON line each, so that no paid answer is lost.

A row is flushed as it is written, so a killed process leaves whole rows and at most one torn last line, which
the next opening repairs. Rows reach the disk within `SYNC_SECONDS` or when the store is closed: a power cut
costs at most that. A lock refuses a second builder on the same folder.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from simdx.bank.plan import BankPlan, BuildSettings, Planned
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.disk import CannotWrite, seal_holds, sealed
from simdx.errors import BadInput, RunFailed
from simdx.simulators.base import Completion
from simdx.types import Panel

STORE_FILE = "answers.jsonl"
LOCK_FILE = ".build.lock"
SYNC_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One row: an answered request, or with `error` a failed attempt at one."""

    key: str
    model: str
    stratum: str
    index: int
    topic: str
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    error: str | None = None
    facets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Planned, model: str, completion: Completion) -> StoredAnswer:
        return cls(
            planned.key, model, planned.stratum, planned.index, planned.topic, completion.text,
            completion.finish_reason, completion.prompt_tokens, completion.completion_tokens,
            round(completion.seconds, 4), completion.error, dict(planned.facets),
        )  # fmt: skip


class AnswerStore:
    """Answers by key, and how often a key failed. One that `open_store` opened can be appended to."""

    def __init__(self, folder: Path, file: BinaryIO | None = None) -> None:
        self.folder = folder
        self.answers: dict[str, StoredAnswer] = {}
        self.failures = Counter[str]()
        self._file, self._synced = file, 0.0
        for answer in read_answers(folder / STORE_FILE):
            self._remember(answer)

    def append(self, answer: StoredAnswer) -> None:
        assert self._file is not None, "the store is not open"
        # Half a surrogate pair has no place in a file; the seal is over what the file can hold.
        row = json.loads(json.dumps(asdict(answer), ensure_ascii=False).encode("utf-8", "replace"))
        with _keeping_what_is_there(self.folder / STORE_FILE):
            self._file.write(json.dumps(sealed(row), ensure_ascii=False).encode("utf-8") + b"\n")
            self._file.flush()
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        self._remember(answer)

    def _remember(self, answer: StoredAnswer) -> None:
        if answer.error is None:
            self.answers.setdefault(answer.key, answer)
        else:
            self.failures[answer.key] += 1


@contextmanager
def open_store(folder: Path) -> Iterator[AnswerStore]:
    """The store of a folder, for one builder at a time."""
    lock, path = FileLock(folder / LOCK_FILE, timeout=0), folder / STORE_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise BadInput(f"another build is running on '{folder}': wait for it, or stop it first") from None
    except OSError as error:
        raise BadInput(f"'{folder}' cannot be written: {error.strerror}") from None
    try:
        with _keeping_what_is_there(path):
            file = path.open("ab")
            _repair_last_line(path)
            store = AnswerStore(folder, file)
        try:
            yield store
        finally:
            with _keeping_what_is_there(path), file:
                os.fsync(file)
    finally:
        lock.release()


@contextmanager
def _keeping_what_is_there(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"'{path}' cannot be written: {error.strerror}; the answers in it are kept, run the same "
            "command again when that is mended"
        ) from None


def read_answers(path: Path) -> Iterator[StoredAnswer]:
    """Every row of a store; a damaged row other than a torn last line is refused by its number."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line.decode("utf-8"))
                if not isinstance(row, dict) or ("seal" in row and not seal_holds(row)):
                    raise ValueError
                answer = StoredAnswer(**{name: value for name, value in row.items() if name != "seal"})
                if not isinstance(answer.key, str) or not isinstance(answer.text, str):
                    raise TypeError
            except (ValueError, TypeError, RecursionError):
                raise BadInput(
                    f"{path.name} line {number} is not an answer as it was written: restore the file, or "
                    "remove that line and it is asked again"
                ) from None
            yield answer


def _repair_last_line(path: Path) -> None:
    """Repair the row a killed builder was writing: end it if it is complete, else drop it."""
    with path.open("rb+") as file:
        last = next(iter(deque(file, maxlen=1)), b"\n")
        if last.endswith(b"\n"):
            return
        try:
            json.loads(last.decode("utf-8"))
            file.write(b"\n")
        except ValueError:
            file.truncate(file.tell() - len(last))
        file.flush()
        os.fsync(file)


# --------------------------------------------------------------------------- verdicts
#
# The state of a build, derived from its answers, so that an interrupted build needs no other memory. For one
# stratum with target N the *horizon* is the smallest h for which the usable answers among requests 0…h−1,
# plus those of them still without an answer, make N. Requests below the horizon are what the build has to
# ask; a rejected answer moves it one further. A build is complete when every horizon is fully answered.

GIVE_UP_AFTER = 5  # recorded failures of one request, over all runs, after which another takes its place
MOST_PER_USABLE = 40  # requests per wanted description; then the simulator cannot write the label
LEAST_YIELD = 0.1  # usable share of a label's texts below which a run stops, unless the user says otherwise
# Once the usable share is known, a simulator that works in lockstep gets more requests than are missing.
KNOWN_AFTER = 20  # judged answers
CAUTION = 0.75  # of the usable share so far is counted on
MOST_AHEAD = 8  # requests per missing description


@dataclass(frozen=True, slots=True)
class TextVerdict:
    """An answer judged: `reason` is None for a usable text."""

    planned: Planned
    answer: StoredAnswer
    text: str
    reason: str | None


class Stratum:
    """One label (or the background): its usable texts, and the requests still to send."""

    def __init__(self, plan: BankPlan, store: AnswerStore, name: str, lockstep: bool = False) -> None:
        self.name, self.target = name, plan.targets[name]
        self._plan, self._store, self._lockstep = plan, store, lockstep
        self._scrubber = cache(lambda topic: Scrubber.for_topic(plan.panel, topic))
        self._reasons: dict[str, str | None] = {}  # per key: judging a text again on every look would be slow
        self.settle()

    def settle(self) -> None:
        """Judge every answer in plan order and find the horizon anew."""
        self.verdicts: list[TextVerdict] = []
        self.due: list[Planned] = []
        self.horizon = self.usable = 0
        seen = Duplicates()
        while self.usable + self._expected() < self.target and not self.exhausted:
            planned = self._plan.planned(self.name, self.horizon)
            self.horizon += 1
            answer = self._store.answers.get(planned.key)
            if answer is not None:
                text, reason = self.judge(planned, answer)
                if reason is None and seen.seen(text):
                    reason = "near-duplicate"
                self.verdicts.append(TextVerdict(planned, answer, text, reason))
                self.usable += reason is None
            elif self._store.failures[planned.key] < GIVE_UP_AFTER:
                self.due.append(planned)

    def judge(self, planned: Planned, answer: StoredAnswer) -> tuple[str, str | None]:
        """The text, and why it is not usable by itself; duplicates are found later."""
        text = tidy(answer.text, answer.finish_reason)
        if planned.key not in self._reasons:
            self._reasons[planned.key] = self._scrubber(planned.topic).reason(text)
        return text, self._reasons[planned.key]

    def _expected(self) -> float:
        """How many of the requests without an answer are counted on.

        All of them, so that nothing is asked in vain; in lockstep, the share that has been usable. Answers
        beyond the horizon stay in the store and change no bank: it takes the first usable ones of the plan.
        """
        judged = len(self.verdicts)
        if not self._lockstep or judged < KNOWN_AFTER:
            return len(self.due)
        return len(self.due) * max(CAUTION * self.usable / judged, 1 / MOST_AHEAD)

    @property
    def missing(self) -> int:
        return self.target - self.usable

    @property
    def chosen(self) -> list[TextVerdict]:
        """The first usable texts of the plan, as many as are wanted."""
        return [v for v in self.verdicts if v.reason is None][: self.target]

    @property
    def rejected(self) -> Counter[str]:
        return Counter(v.reason for v in self.verdicts if v.reason is not None)

    @property
    def exhausted(self) -> bool:
        """True when this simulator will not reach the target at an acceptable price."""
        return self.missing > 0 and self.horizon >= max(60, MOST_PER_USABLE * self.target)

    @property
    def is_known(self) -> bool:
        """True when enough texts have been judged to estimate the usable share."""
        return len(self.verdicts) >= 2 * KNOWN_AFTER

    def is_hopeless(self, least_yield: float) -> bool:
        """True when so few texts are usable that the build should stop and report it."""
        poor = self.is_known and self.usable < least_yield * len(self.verdicts)
        return self.missing > 0 and (poor or (self.exhausted and not self.due)) and bool(self.rejected)


# --------------------------------------------------------------------------- limits, reports and estimates


CHARACTERS_PER_TOKEN = 4.0  # of English text, roughly, for any common tokenizer
ASSUMED_USABLE = 0.5  # before anything was answered; a large model does better, a small one worse
ASSUMED_LENGTH = 0.7  # of the token limit


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Where this run stops, and what its tokens cost per million; None: no limit, no price."""

    max_requests: int | None = None
    max_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    least_yield: float = LEAST_YIELD  # usable share of a label's texts below which the run stops; 0: never

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        if self.price_in is None and self.price_out is None:
            return None
        return ((self.price_in or 0) * prompt_tokens + (self.price_out or 0) * completion_tokens) / 1e6

    def after(self, report: BuildReport) -> BuildLimits:
        requests, tokens = self.max_requests, self.max_tokens
        spent = report.prompt_tokens + report.completion_tokens
        return replace(
            self,
            max_requests=None if requests is None else max(0, requests - report.asked),
            max_tokens=None if tokens is None else max(0, tokens - spent),
        )


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


def failed_line(report: BuildReport, out: Path) -> RunFailed:
    have, want = sum(report.usable.values()), sum(report.wanted.values())
    return RunFailed(
        f"the bank is not complete ({have} of {want} usable): {report.stopped}; every answer is kept in "
        f"'{out}', run the same command again to continue"
    )


@dataclass(frozen=True, slots=True)
class BuildEstimate:
    """Requests and tokens still to come. `measured` says whether earlier answers of this plan informed it."""

    wanted: int
    usable: int
    requests_at_least: int
    requests_expected: int
    prompt_tokens: int
    completion_tokens: int
    usable_share: float
    measured: bool
    cost: float | None

    def describe(self) -> str:
        basis = "measured on earlier answers" if self.measured else "assumed"
        cost = f", cost about {self.cost:.2f}" if self.cost is not None else ""
        return (
            f"{self.usable} of {self.wanted} done; at least {self.requests_at_least} requests, "
            f"about {self.requests_expected} with {self.usable_share:.0%} of the texts usable ({basis}); "
            f"about {self.prompt_tokens} prompt and {self.completion_tokens} generated tokens{cost}"
        ).replace("; at least 0 requests, about 0", "; nothing is missing")


def estimate(
    panel: Panel, model: str, settings: BuildSettings, out: Path, limits: BuildLimits
) -> BuildEstimate:
    """An estimate without any request; the folder is neither made nor locked."""
    plan, store = BankPlan(panel, model, settings), AnswerStore(out)
    strata = [Stratum(plan, store, name) for name in plan.targets]
    answers = [verdict.answer for stratum in strata for verdict in stratum.verdicts]
    wanted = sum(plan.targets.values())
    usable = sum(min(stratum.usable, stratum.target) for stratum in strata)
    share = max(usable, 1) / len(answers) if answers else ASSUMED_USABLE
    expected = round((wanted - usable) / share)
    requests = [plan.planned(name, i).request for name, n in plan.targets.items() for i in range(n)]
    asked = sum(len(request.prompt) + len(request.opening) for request in requests) / wanted
    written = ASSUMED_LENGTH * requests[0].max_tokens
    if answers:
        written = sum(answer.completion_tokens for answer in answers) / len(answers)
    tokens = (round(expected * asked / CHARACTERS_PER_TOKEN), round(expected * written))
    return BuildEstimate(
        wanted, usable, wanted - usable, expected, *tokens, share, bool(answers), limits.cost(*tokens)
    )
