"""Does building a bank keep the simulator busy? Tokens per second against a plain load generator.

One embedded server, the same requests for both, in turns whose order alternates, so that a machine whose
speed drifts treats them alike. The load generator is a thread pool that throws the answers away; the build
stores, fsyncs, judges and re-plans. The prompt cache is off, so that going second gives no advantage. Tokens
are generated ones.
"""

import sys
import tempfile
import time
from collections.abc import Callable
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
    model: str = "smollm2",
    requests: int = 16,
    max_tokens: int = 48,
    rounds: int = ROUNDS,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> dict[str, Any]:
    """`raw_tok_s`, `build_tok_s` and their `ratio`, with what was run beside them."""
    panel = load_panel(PANEL)
    simulator = get_simulator(model)
    try:
        ask(simulator, Request("Say hello.", max_tokens=8))  # the first request pays for warming up
        totals = {False: [0.0, 0.0], True: [0.0, 0.0]}  # builds?: tokens, seconds
        for round_ in range(rounds):
            settings = BuildSettings(
                per_label=requests,  # more than can be reached: the request limit ends the build
                max_tokens=max_tokens,
                seed=round_,
                voice="short",
                options={"cache_prompt": False},
            )
            for builds in (False, True) if round_ % 2 == 0 else (True, False):
                measured = _build if builds else _raw
                tokens, seconds = measured(simulator, panel, settings, requests)
                totals[builds][0] += tokens
                totals[builds][1] += seconds
                what = "build" if builds else "raw"
                say(f"round {round_ + 1} of {rounds}, {what}: {tokens / seconds:.1f} tokens/s")
    finally:
        simulator.close()
    (raw_tokens, raw_seconds), (build_tokens, build_seconds) = totals[False], totals[True]
    if not raw_tokens or not build_tokens:
        raise RunFailed(f"simulator '{simulator.id}' generated nothing: the bench has nothing to compare")
    raw, built = raw_tokens / raw_seconds, build_tokens / build_seconds
    return {
        "raw_tok_s": raw,
        "build_tok_s": built,
        "ratio": built / raw,
        "conditions": {
            "simulator": simulator.id,
            "concurrency": simulator.concurrency,
            "rounds": rounds,
            "requests_per_round": requests,
            "raw_tokens": raw_tokens,
            "build_tokens": build_tokens,
            "raw_seconds": raw_seconds,
            "build_seconds": build_seconds,
        },
    }


def _raw(simulator: Simulator, panel: Panel, settings: BuildSettings, requests: int) -> tuple[int, float]:
    plan = BankPlan(panel, simulator.id, settings)
    names = panel.names
    asked = [plan.planned(names[i % len(names)], i // len(names)).request for i in range(requests)]
    started = time.monotonic()
    with ThreadPoolExecutor(simulator.concurrency) as pool:
        tokens = sum(pool.map(lambda request: ask(simulator, request).completion_tokens, asked))
    return tokens, time.monotonic() - started


def _build(simulator: Simulator, panel: Panel, settings: BuildSettings, requests: int) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        report = build_bank(
            panel, simulator, settings, Path(folder) / "bank", BuildLimits(max_requests=requests)
        )
        return report.completion_tokens, time.monotonic() - started
