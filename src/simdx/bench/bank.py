"""Does building a bank keep the simulator busy? Tokens per second against a plain load generator.

One embedded server, the same requests for both, in turns whose order alternates, so that a machine whose
speed drifts treats them alike. The load generator is a thread pool that throws the answers away; the build
stores, fsyncs, judges and re-plans. The prompt cache is off, so that going second gives no advantage. Tokens
are generated ones.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from simdx.bank.builder import BuildLimits, build_bank
from simdx.bank.plan import BankPlan, BuildSettings
from simdx.errors import RunFailed
from simdx.panels import load_panel
from simdx.simulators import get_simulator
from simdx.simulators.base import Request, Simulator, ask
from simdx.types import Panel

PANEL = "oral-lesions"
ROUNDS = 3  # of raw requests and a build in turns; their totals are compared


def run(
    model: str = "smollm2", requests: int = 16, max_tokens: int = 48, rounds: int = ROUNDS
) -> dict[str, Any]:
    """`raw_tok_s`, `build_tok_s` and their `ratio`, with what was run beside them."""
    panel = load_panel(PANEL)
    simulator = get_simulator(model)
    totals = {"raw": [0.0, 0.0], "build": [0.0, 0.0]}  # tokens, seconds
    try:
        ask(simulator, Request("Say hello.", max_tokens=8))  # the first request pays for warming up
        for round_ in range(rounds):
            settings = BuildSettings(
                per_label=requests,  # more than can be reached: the request limit ends the build
                max_tokens=max_tokens,
                seed=round_,
                voice="short",
                options={"cache_prompt": False},
            )
            for what in ("raw", "build") if round_ % 2 == 0 else ("build", "raw"):
                started = time.monotonic()
                tokens = (_raw if what == "raw" else _build)(simulator, panel, settings, requests)
                seconds = time.monotonic() - started
                totals[what][0] += tokens
                totals[what][1] += seconds
                said = f"round {round_ + 1} of {rounds}, {what}: {tokens / seconds:.1f} tokens/s"
                print(said, file=sys.stderr, flush=True)
    finally:
        simulator.close()
    if not totals["raw"][0] or not totals["build"][0]:
        raise RunFailed(f"simulator '{simulator.id}' generated nothing: the bench has nothing to compare")
    raw, build = (tokens / seconds for tokens, seconds in totals.values())
    return {
        "raw_tok_s": raw,
        "build_tok_s": build,
        "ratio": build / raw,
        "conditions": {
            "simulator": simulator.id,
            "concurrency": simulator.concurrency,
            "rounds": rounds,
            "requests_per_round": requests,
            **{f"{what}_tokens": tokens for what, (tokens, _) in totals.items()},
            **{f"{what}_seconds": seconds for what, (_, seconds) in totals.items()},
        },
    }


def _raw(simulator: Simulator, panel: Panel, settings: BuildSettings, requests: int) -> int:
    plan = BankPlan(panel, simulator.id, settings)
    names = panel.names
    asked = [plan.planned(names[i % len(names)], i // len(names)).request for i in range(requests)]
    with ThreadPoolExecutor(simulator.concurrency) as pool:
        return sum(pool.map(lambda request: ask(simulator, request).completion_tokens, asked))


def _build(simulator: Simulator, panel: Panel, settings: BuildSettings, requests: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        limits = BuildLimits(max_requests=requests)
        return build_bank(panel, simulator, settings, Path(folder) / "bank", limits).completion_tokens
