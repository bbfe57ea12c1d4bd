"""How far is ABC from the exact posterior under its own simulator?

    python -m benchmarks.exactness --fresh FRESH.jsonl.gz --data ../shared/data/sd/cases.jsonl

The simulator's likelihood is known (`results/voices/scores`), so its exact posterior is: temperature 1, the
mixture over the label's prompts, an even prior. Pools are texts that the model wrote from those very prompts
at temperature 1, nothing cut off or rejected (`voices_scores.py --fresh`). M-SMC, D-SMC and the recipe are
fitted to nested pools and compared with the exact answer by total variation, on real cases and, where they
were scored, on held-out texts of the model's own.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.voices import SCORES, accuracy_and_ece, density
from simdx.abc.prior import Prior
from simdx.embedders import get_embedder
from simdx.fitting import fit_method
from simdx.methods import Material, Settings
from simdx.panels import load_panel
from simdx.types import Bank, Float, Int
from simdx.voices.likelihood import mixture, posterior_under

PANEL = "symptom-to-diagnosis"
OUT = Path("results/voices/exactness.json")
HELD_OUT = 200  # texts of each label that are cases of their own, never in a pool
POOLS = (25, 50, 100, 200, 400, 1000)
MOST_FOR_RECIPE = 200
METHODS: dict[str, dict[str, Any]] = {
    "M-SMC, 3 populations": {"method": "m-smc", "populations": 3},
    "M-SMC, 5 populations": {"method": "m-smc", "populations": 5},
    "M-SMC, 7 populations": {"method": "m-smc", "populations": 7},
    "M-SMC, soft kernel": {"method": "m-smc", "kernel": "soft"},
    "D-SMC": {"method": "d-smc"},
    "recipe": {"method": "auto"},
}


def total_variation(p: Float, q: Float) -> float:
    return float(np.abs(p - q).sum(axis=1).mean() / 2)


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--fresh", type=Path, required=True)
    parse.add_argument("--data", type=Path, required=True)
    asked = parse.parse_args()
    panel, embedder = load_panel(PANEL), get_embedder("wordllama")
    n_labels = len(panel.names)
    with gzip.open(asked.fresh, "rt") as file:
        rows = [json.loads(line) for line in file]
    by_label = [[r for r in rows if r["label"] == k] for k in range(n_labels)]
    real = [json.loads(line) for line in asked.data.read_text(encoding="utf-8").splitlines()]
    sets: dict[str, tuple[list[str], Int, Float]] = {
        "real cases": (
            [r["text"] for r in real],
            np.array([panel.names.index(r["label"]) for r in real]),
            posterior_under(density(f"{PANEL}.cases", n_labels).labels, Prior.uniform(n_labels)),
        )
    }
    own = SCORES / f"{PANEL}.fresh.npz"
    if own.is_file():
        kept = np.load(own)
        held = [r["text"] for texts in by_label for r in texts[:HELD_OUT]]
        exact = posterior_under(mixture(kept["scores"], n_labels).labels, Prior.uniform(n_labels))
        sets["the model's own texts"] = (held, kept["label"], exact)
    record: dict[str, Any] = {
        "panel": PANEL, "model": "Qwen2.5-Coder-1.5B-Instruct", "held_out_per_label": HELD_OUT,
        "own_texts": "measured" if own.is_file() else "not scored yet", "sets": {},
    }  # fmt: skip
    for name, (_, truth, exact) in sets.items():
        right, gap = accuracy_and_ece(exact, truth)
        record["sets"][name] = {"n": len(truth), "exact": {"accuracy": right, "ece": gap}, "pools": {}}
    for size in POOLS:
        chosen = [r for texts in by_label for r in texts[HELD_OUT : HELD_OUT + size] if r["text"].strip()]
        bank = Bank(
            PANEL,
            panel.names,
            tuple(r["text"] for r in chosen),
            np.array([r["label"] for r in chosen]),
            name="own",
        )
        material = Material.prepare(panel, bank, embedder)
        for method, options in METHODS.items():
            if options["method"] == "auto" and size > MOST_FOR_RECIPE:
                continue
            fitted = fit_method(material, Settings(**options))
            for name, (texts, truth, exact) in sets.items():
                p = fitted.answer(material.observe(texts), Prior.uniform(n_labels)).posterior_in_class
                right, gap = accuracy_and_ece(p, truth)
                found = {"total_variation": total_variation(p, exact), "accuracy": right, "ece": gap}
                record["sets"][name]["pools"].setdefault(method, {})[str(size)] = found
        print(
            size, {m: v.get(str(size)) for m, v in record["sets"]["real cases"]["pools"].items()}, flush=True
        )
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
