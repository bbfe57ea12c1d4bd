"""How long asking will take, said before it starts.

Two short requests about nothing in particular measure how fast the simulator reads and writes here and
now; the plan's tokens divided by those speeds are the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdx.baselines.interview import Plan
from simdx.simulators.base import Request, Simulator, ask

_FILLER = "The harbour town was quiet that morning, and the boats lay still along the old wall. "
_WRITTEN = 16


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of one request; requests side by side are counted by `at_once`."""

    reading: float
    writing: float
    at_once: int = 1

    def seconds(self, plan: Plan) -> float:
        # A local model shares its cores between slots: reading side by side gains nothing there.
        return plan.prompt_tokens / self.reading + plan.completion_tokens / (self.writing * self.at_once)


def measure(simulator: Simulator) -> Speed | None:
    """None where the simulator does not answer at all."""
    # Another beginning each time, so that a prompt cache cannot answer for the model.
    short = ask(simulator, Request("Count upwards from one.", temperature=0.0, max_tokens=_WRITTEN, seed=0))
    long = ask(simulator, Request(_FILLER * 12, temperature=0.0, max_tokens=1, seed=0))
    if not (short.ok and long.ok) or long.prompt_tokens <= 0 or short.completion_tokens <= 0:
        return None
    reading = long.prompt_tokens / max(long.seconds, 1e-6)
    spent_writing = max(short.seconds - short.prompt_tokens / reading, 1e-6)
    writing = short.completion_tokens / spent_writing
    return Speed(reading, writing, simulator.concurrency if simulator.remote else 1)
