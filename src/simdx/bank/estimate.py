"""What a build would ask and cost, worked out without asking anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simdx.bank.plan import BankPlan, BuildSettings
from simdx.bank.report import BuildLimits
from simdx.bank.scrub import Scrubber, tidy
from simdx.bank.store import STORE_FILE, read_answers
from simdx.types import Panel

CHARACTERS_PER_TOKEN = 4.0  # of English text, roughly, for any common tokenizer
ASSUMED_USABLE = 0.5  # before anything was answered; a large model does better, a small one worse
ASSUMED_LENGTH = 0.7  # of the token limit


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
            f"{self.usable} of {self.wanted} are there; at least {self.requests_at_least} requests, "
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
    return BuildEstimate(
        wanted=wanted,
        usable=usable,
        requests_at_least=missing,
        requests_expected=expected,
        prompt_tokens=prompt_tokens,
        completion_tokens=round(expected * length),
        usable_share=share,
        measured=bool(answered),
        cost=limits.cost(prompt_tokens, round(expected * length)),
    )
