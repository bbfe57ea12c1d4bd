"""Does diversity pay? Facets on and off, temperatures 0.2 to 1.0, one panel, one real model.

For every setting a bank is simulated and scrubbed, then used to classify the panel's labelled cases, which
no setting was chosen on: this reports, it tunes nothing. The same is done with the first raw texts of each
label, unscrubbed, so that scrubbing's own share is visible.

    python benchmarks/diversity.py --work out/diversity                  # simulate, evaluate, write
    python benchmarks/diversity.py --work out/diversity --evaluate-only  # what is there so far

Safe to kill: run it again and it goes on where it was. A setting whose request limit is reached before
every label is full is evaluated with what it has, and says so. Results: results/diversity.json and .md.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank.builder import Limits, build_bank
from simdx.bank.plan import BuildSettings, Plan
from simdx.bank.store import AnswerStore
from simdx.bank.verdicts import Stratum, strata_of
from simdx.bank.voice import voice_for
from simdx.classifier import Classifier
from simdx.datasets.oral import load_oral
from simdx.embedders import embed_cached, get_embedder
from simdx.metrics.headline import evaluate_probabilities
from simdx.panels import load_panel
from simdx.simulators import get_simulator, identity_of
from simdx.types import Bank, Panel

PANEL = "oral-lesions"
TEMPERATURES = (0.2, 0.4, 0.6, 0.8, 1.0)
SHOWN = ("accuracy", "brier", "ece", "nll", "error_auroc")


def settings_of(per_label: int, model: str) -> Iterator[tuple[str, BuildSettings]]:
    # The ends of the range first: an unfinished study then says most.
    for temperature in sorted(TEMPERATURES, key=lambda t: -abs(t - 0.6)):
        for facets in (True, False):
            name = f"facets-{'on' if facets else 'off'}-t{temperature:.1f}"
            yield (
                name,
                BuildSettings(per_label, temperature=temperature, facets=facets, voice=voice_for(model)),
            )


def simulate(work: Path, model: str, per_label: int, max_requests: int) -> None:
    panel = load_panel(PANEL)
    simulator = get_simulator(model)
    for name, settings in settings_of(per_label, model):
        done = answered(work / name)
        report = build_bank(
            panel, simulator, settings, work / name, Limits(max_requests=max(0, max_requests - done))
        )
        state = "complete" if report.complete else report.stopped
        print(f"{name}: {dict(report.usable)} of {report.answers} texts, {state}", flush=True)
        if report.stopped == "interrupted":
            sys.exit(1)


def answered(folder: Path) -> int:
    path = folder / "answers.jsonl"
    return sum(1 for _ in path.open("rb")) if path.exists() else 0


def bank_of(panel: Panel, strata: dict[str, Stratum], scrubbed: bool, per_label: int) -> Bank | None:
    texts, index = [], []
    for i, name in enumerate(panel.names):
        ordered = sorted(strata[name].verdicts, key=lambda v: v.planned.index)
        chosen = [v.text for v in ordered if v.reason is None or (not scrubbed and v.text)][:per_label]
        if not chosen:
            return None
        texts += chosen
        index += [i] * len(chosen)
    return Bank(
        panel.name, panel.names, tuple(texts), np.array(index), name="scrubbed" if scrubbed else "raw"
    )


def evaluate(panel: Panel, bank: Bank | None) -> dict[str, Any] | None:
    if bank is None:
        return None
    cases = load_oral().cases
    classifier = Classifier(panel, bank, method="m-smc")
    answer = classifier.infer_batch(cases.texts)
    found = evaluate_probabilities(
        answer.posterior_in_class, cases.label_index(panel.names), rng=np.random.default_rng(0)
    )
    vectors = embed_cached(get_embedder(panel.embedder), bank.texts)
    return {
        "n_texts": len(bank.texts),
        **{key: found[key] for key in SHOWN},
        "ci": {key: found["ci"][key] for key in SHOWN},  # type: ignore[index]
        "effective_simulations": float(answer.effective_simulations.mean()),
        "mean_pairwise_cosine_within_label": within(vectors, bank.label_index),
        "distinct_bigrams": distinct_bigrams(bank.texts),
    }


def within(vectors: np.ndarray, label_index: np.ndarray) -> float:
    """Mean cosine of two different texts of one label: 1 is no diversity at all."""
    means = []
    for k in np.unique(label_index):
        v = vectors[label_index == k]
        if len(v) > 1:
            means.append((np.square(np.linalg.norm(v.sum(axis=0))) - len(v)) / (len(v) * (len(v) - 1)))
    return float(np.mean(means))


def distinct_bigrams(texts: tuple[str, ...]) -> float:
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        words = text.lower().split()
        pairs.update(pairwise(words))
    return len(pairs) / sum(pairs.values())


def collect(work: Path, model: str, per_label: int) -> list[dict[str, Any]]:
    panel = load_panel(PANEL)
    rows = []
    for name, settings in settings_of(per_label, model):
        if not answered(work / name):
            continue
        with AnswerStore(work / name) as store:
            strata = dict(strata_of(Plan(panel, identity_of(model), settings), store))
        texts = sum(len(s.verdicts) for s in strata.values())
        rejected: Counter[str] = Counter()
        for stratum in strata.values():
            rejected.update(stratum.rejected)
        rows.append(
            {
                "setting": name,
                "facets": settings.facets,
                "temperature": settings.temperature,
                "texts": texts,
                "usable": {s.name: s.usable for s in strata.values()},
                "usable_share": sum(s.usable for s in strata.values()) / texts,
                "complete": all(s.missing <= 0 for s in strata.values()),
                "rejected": dict(rejected.most_common()),
                "scrubbed": evaluate(panel, bank_of(panel, strata, True, per_label)),
                "raw": evaluate(panel, bank_of(panel, strata, False, per_label)),
            }
        )
    return sorted(rows, key=lambda row: (not row["facets"], row["temperature"]))


def write(rows: list[dict[str, Any]], out: Path, model: str, per_label: int, max_requests: int) -> None:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    record = {
        "command": "python " + " ".join(sys.argv),
        "commit": commit,
        "panel": PANEL,
        "model": identity_of(model),
        "per_label": per_label,
        "max_requests": max_requests,
        "cases": len(load_oral().cases.texts),
        "embedder": load_panel(PANEL).embedder,
        "method": "m-smc, exact, as shipped",
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "rows": rows,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "diversity.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (out / "diversity.md").write_text(as_markdown(record), encoding="utf-8")


def as_markdown(record: dict[str, Any]) -> str:
    lines = [
        "# Does diversity pay?",
        "",
        f"Panel `{record['panel']}`, simulator `{record['model']}`, {record['per_label']} "
        f"usable texts wanted per label (at most {record['max_requests']} requests a setting), "
        f"embedder {record['embedder']}, "
        f"{record['method']}; N = {record['cases']} labelled cases, on which nothing was tuned.",
        f"Commit `{record['commit'][:12]}`; `{record['command']}`.",
        "",
        "| facets | T | texts made | usable | accuracy | Brier | ECE | NLL | error AUROC | effective sims "
        "| within-label cosine | raw: accuracy | raw: ECE |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        s, r = row["scrubbed"], row["raw"]
        usable = f"{sum(row['usable'].values())} ({row['usable_share']:.0%})" + (
            "" if row["complete"] else " *"
        )
        cells = ["on" if row["facets"] else "off", f"{row['temperature']:.1f}", str(row["texts"]), usable]
        if s is None:
            cells += ["–"] * 7
        else:
            lo, hi = s["ci"]["accuracy"]
            cells += [f"{s['accuracy']:.3f} [{lo:.3f}, {hi:.3f}]"]
            cells += [number(s[key]) for key in ("brier", "ece", "nll", "error_auroc")]
            cells += [f"{s['effective_simulations']:.1f}", f"{s['mean_pairwise_cosine_within_label']:.3f}"]
        cells += [number(r["accuracy"]), number(r["ece"])] if r else ["–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "\\* the request limit came before every label was full.", "", "Rejected, by reason:", ""]
    for row in record["rows"]:
        reasons = ", ".join(f"{reason} {n}" for reason, n in row["rejected"].items()) or "none"
        lines.append(f"- {row['setting']}: {reasons}")
    return "\n".join(lines) + "\n"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("out/diversity"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--simulator", default="smollm2")
    parser.add_argument("--per-label", type=int, default=30)
    parser.add_argument("--max-requests", type=int, default=240)
    parser.add_argument("--evaluate-only", action="store_true")
    args = parser.parse_args()
    if not args.evaluate_only:
        simulate(args.work, args.simulator, args.per_label, args.max_requests)
    rows = collect(args.work, args.simulator, args.per_label)
    write(rows, args.results, args.simulator, args.per_label, args.max_requests)
    print(f"{args.results / 'diversity.md'}: {len(rows)} settings")


if __name__ == "__main__":
    main()
