"""Where a build stops, what it would ask and cost, how far it has come, and how it ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from simdx.bank.plan import BankPlan, BuildSettings
from simdx.bank.scrub import Scrubber, tidy
from simdx.bank.store import LEAST_YIELD, STORE_FILE, TextVerdict, read_answers
from simdx.errors import RunFailed
from simdx.simulators.base import Completion
from simdx.types import Panel

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

    def reached(self, progress: BuildProgress) -> str | None:
        if self.max_requests is not None and progress.asked >= self.max_requests:
            return f"--max-requests {self.max_requests} reached"
        spent = progress.prompt_tokens + progress.completion_tokens
        if self.max_tokens is not None and spent >= self.max_tokens:
            return f"--max-tokens {self.max_tokens} reached"
        return None


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
    found: int = 0  # usable texts of earlier runs

    def count(self, completion: Completion, verdict: TextVerdict | None, limits: BuildLimits) -> None:
        """One more answer; without a verdict, one more failure."""
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        self.cost = limits.cost(self.prompt_tokens, self.completion_tokens)
        self.failed += verdict is None
        self.answered += verdict is not None
        if verdict is not None and verdict.reason is not None:
            self.rejected[verdict.reason] += 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far of usable texts; None before there is one."""
        made = self.usable - self.found
        return self.seconds * (self.wanted - self.usable) / made if made > 0 else None


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


def failed_line(report: BuildReport, out: Path) -> RunFailed:
    have, want = sum(report.usable.values()), sum(report.wanted.values())
    return RunFailed(
        f"the bank is not complete ({have} of {want} usable): {report.stopped}; every answer is kept in "
        f"'{out}', run the same command again to continue"
    )


# --------------------------------------------------------------------------- worked out without asking


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
    """Read-only: the folder is neither made nor locked."""
    plan = BankPlan(panel, model, settings)
    answers = {a.key: a for a in read_answers(out / STORE_FILE) if a.error is None} if out.is_dir() else {}
    wanted = sum(plan.targets.values())
    usable = answered = prompt_characters = completion_tokens = 0
    for name, target in plan.targets.items():
        found = 0
        for index in range(target if not answers else 40 * target):
            planned = plan.planned(name, index)
            if index < target:
                prompt_characters += len(planned.request.prompt) + len(planned.request.opening)
            answer = answers.get(planned.key)
            if answer is None:
                if index >= target:
                    break
                continue
            answered += 1
            completion_tokens += answer.completion_tokens
            scrubber = Scrubber.for_topic(panel, planned.topic)
            found += scrubber.reason(tidy(answer.text, answer.finish_reason)) is None
            if found >= target:
                break
        usable += min(found, target)
    share = max(usable, 1) / answered if answered else ASSUMED_USABLE
    missing = wanted - usable
    expected = round(missing / share)
    length = completion_tokens / answered if answered else ASSUMED_LENGTH * planned.request.max_tokens
    prompt_tokens = round(expected * prompt_characters / wanted / CHARACTERS_PER_TOKEN)
    tokens = (prompt_tokens, round(expected * length))
    return BuildEstimate(
        wanted, usable, missing, expected, *tokens, share, bool(answered), limits.cost(*tokens)
    )
