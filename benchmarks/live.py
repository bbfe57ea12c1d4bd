"""What fresh simulations cost: LLM calls, tokens and seconds per case with `--engine live` and `hybrid`.

    python benchmarks/live.py --simulator smollm2 --cases 10 --out results/live/smollm2.json

A random sample of the oral benchmark, M-SMC and D-SMC, both engines, each case asked alone, as at a desk,
under the budgets of requests a case given here. The paper reports 8 generations and 14 s a case for D-SMC
with a 7B model. Accuracy on so few cases is shown with its interval and proves little; the costs are what
this is for. Hybrid inference asks for nothing where the bank suffices. The rows so far are written after
every pair of engine and method.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from simdx.classifier import Classifier
from simdx.datasets.oral import load_oral
from simdx.disk import write_atomically
from simdx.experiments.records import versions

PANEL = "oral-lesions"
COSTS = ("llm_calls", "prompt_tokens", "completion_tokens", "seconds")


def measure(simulator: str, method: str, engine: str, budget: int, rows: np.ndarray) -> dict[str, Any]:
    cases = load_oral().cases
    classifier = Classifier(PANEL, method=method, engine=engine, simulator=simulator, budget=budget)
    truth = cases.label_index(classifier.panel.names)[rows]
    spent: list[list[float]] = []
    hits = 0
    for row, label in zip(rows, truth, strict=True):
        answer = classifier.infer(cases.texts[int(row)])
        live = answer.provenance.live
        if live is None:
            raise SystemExit(f"{method} {engine} did not say what it spent")
        spent.append([float(live[name]) for name in COSTS])
        hits += answer.label == classifier.panel.names[int(label)]
    return {
        "method": method,
        "engine": engine,
        "budget": budget,
        "cases": len(rows),
        "per_case": dict(zip(COSTS, np.mean(spent, axis=0).round(2).tolist(), strict=True)),
        "most": dict(zip(COSTS, np.max(spent, axis=0).round(2).tolist(), strict=True)),
        "accuracy": hits / len(rows),
        "accuracy_ci": list(binomtest(hits, len(rows)).proportion_ci(method="wilson")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulator", default="smollm2")
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--budget-d", type=int, default=9, help="requests a case for D-SMC")
    parser.add_argument("--budget-m", type=int, default=30, help="requests a case for M-SMC")
    parser.add_argument("--device-name", help="the machine, where its name says more than the record's")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    drawn = np.random.default_rng(0).permutation(len(load_oral().cases.texts))[: args.cases]
    done: list[dict[str, Any]] = []
    for method, budget in (("d-smc", args.budget_d), ("m-smc", args.budget_m)):
        for engine in ("hybrid", "live"):
            done.append(measure(args.simulator, method, engine, budget, np.sort(drawn)))
            print(json.dumps(done[-1]), flush=True)
            record = {
                "panel": PANEL,
                "simulator": args.simulator,
                "device": args.device_name,
                "versions": versions(),
                "rows": done,
            }
            write_atomically(args.out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
