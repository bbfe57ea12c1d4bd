"""Where a build stops, what it would cost, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from simdx.bank.plan import BankPlan, BuildSettings
from simdx.bank.store import LEAST_YIELD, AnswerStore, Stratum
from simdx.errors import RunFailed
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
    """Worked out without asking; the folder is neither made nor locked."""
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
