"""A panel of many labels: every method measured, beside the model asked.

    simdx bank build --panel benchmarks/data/ddxplus41/panel.yaml --simulator hf:qwen2.5-coder-1.5b \\
        --per-label 40 --background 80 --out results/banks/ddxplus41-qwen2.5-coder-1.5b
    python -m benchmarks.ask_numbers --simulator hf:qwen2.5-coder-1.5b
    python -m benchmarks.many_labels

Writes the record and its page. Without a bank it measures what needs none. The bank's folder need not have
been built here; the cases are read and never written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ask_numbers import ASKED, DATA, PANEL, read_asked
from simdx import Classifier, __version__
from simdx.abc.prior import Prior
from simdx.bank.files import assemble, read_bank
from simdx.decide.guarantees import KINDS, calibrate, coverage_of
from simdx.metrics import evaluate_probabilities
from simdx.metrics.ood import ood_auroc
from simdx.panels import load_panel
from simdx.runs.record import current_commit
from simdx.types import Bank, Float, Int, Panel

METHODS = ("auto", "m-smc", "d-smc", "centroid", "zero-shot")
LEVEL, SPLITS, HELD_OUT, DRAWS = 0.9, 50, 8, 3
# Of a label's twelve cases; from fewer than nine, class-conditional sets at 90 % hold every label.
CALIBRATION = (6, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--bank", type=Path, default=Path("results/banks/ddxplus41-qwen2.5-coder-1.5b"))
    parser.add_argument("--asked", type=Path, default=ASKED)
    parser.add_argument("--out", type=Path, default=Path("results/transfer"))
    report(parser.parse_args(), load_panel(PANEL))


def report(asked: argparse.Namespace, panel: Panel) -> None:
    cases, built = read_cases(asked.data, panel), asked.bank.is_dir()
    # Without a bank a label's only text is its description, which is what zero-shot reads anyway.
    described = assemble(panel, [(label.name, label.description) for label in panel.labels], (), "none")
    bank = read_bank(asked.bank, panel) if built else described
    texts, y = [c["text"] for c in cases], np.array([c["y"] for c in cases])
    reference = np.array([c["reference"] for c in cases])
    methods: dict[str, Any] = {}
    posteriors: dict[str, Float] = {}
    for method in METHODS if built else ("zero-shot",):
        classifier = Classifier(panel, bank, method=method)
        began = time.monotonic()
        table = classifier.infer_batch(texts)
        posteriors[method] = table.posterior
        took = {"ms_per_case": 1000 * (time.monotonic() - began) / len(texts)}
        methods[method] = measured(posteriors[method], y, reference) | took
        if table.out_of_class is not None:  # what is none of these leaves its mass to the prior
            inside = f"{method}, given one of the labels"
            methods[inside] = measured(table.posterior_in_class, y, reference)
    best = next(iter(posteriors))
    replies = read_asked(asked.asked)
    both = [i for i, c in enumerate(cases) if c["id"] in replies]
    if both:
        rows = [replies[cases[i]["id"]] for i in both]
        p = np.array([row["p"] for row in rows])
        took = {"ms_per_case": 1000 * float(np.mean([row["seconds"] for row in rows]))}
        named = f"asking {rows[0]['by']}, {rows[0]['rotations']} rotations"
        methods[named] = measured(p / p.sum(1, keepdims=True), y[both], reference[both]) | took
        if len(both) < len(cases):
            p = posteriors[best][both]
            methods[f"{best}, the cases asked about"] = measured(p, y[both], reference[both])
    record = {
        "command": " ".join(["python -m benchmarks.many_labels", *sys.argv[1:]]),
        "commit": current_commit(),
        "version": __version__,
        "n": len(y),
        "labels": len(panel.names),
        "bank": {"hash": bank.hash, "background": len(bank.background), "labels": bank.counts}
        if built
        else None,
        "methods": methods,
        "none_of_these": [outside(panel, bank, cases, seed) for seed in range(DRAWS)] if built else [],
        "conformal": list(conformal(Classifier(panel, bank, method=best), texts, y)),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    name = panel.name
    (asked.out / f"{name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (asked.out / f"{name}.md").write_text(page(record))


def measured(p: Float, y: Int, reference: Float) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    whole: dict[str, Any] = evaluate_probabilities(p, y, rng=rng)
    own = p[np.arange(len(y)), y][:, None]
    above, alike = (p > own).sum(1), (p == own).sum(1)
    known = reference.sum(1) > 0
    apart = np.abs(p - reference / np.maximum(reference.sum(1, keepdims=True), 1e-12)).sum(1) / 2
    at = {f"accuracy at {k}": mean_of(np.clip((k - above) / alike, 0, 1), rng) for k in (3, 5)}
    return {
        "n": len(y),
        **{name: [whole[name], *(whole["ci"][name] or ())] for name in ("accuracy", "ece", "nll")},
        **at,  # labels of equal probability share the places that are left
        "TV to differential": mean_of(apart[known], rng),
        "mean confidence": float(p.max(1).mean()),
    }


def mean_of(values: Float, rng: np.random.Generator) -> list[float]:
    """The mean with its 95 % bootstrap interval."""
    drawn = values[rng.integers(0, len(values), (2000, len(values)))].mean(1)
    return [float(values.mean()), *map(float, np.quantile(drawn, (0.025, 0.975)))]


def outside(panel: Panel, bank: Bank, cases: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Labels left out of panel and bank: their cases are none of these."""
    away = set(np.random.default_rng(seed).choice(panel.names, HELD_OUT, replace=False).tolist())
    smaller = replace(panel, labels=tuple(label for label in panel.labels if label.name not in away))
    rows = [(bank.labels[i], t) for i, t in zip(bank.label_index, bank.texts, strict=True)]
    kept = assemble(smaller, [r for r in rows if r[0] not in away], bank.background, bank.name)
    table = Classifier(smaller, kept).infer_batch([c["text"] for c in cases])
    if table.out_of_class is None:
        return {"left_out": sorted(away), "auroc": None}
    out = np.array([c["label"] in away for c in cases])
    return {
        "left_out": sorted(away), "n_outside": int(out.sum()), "n_inside": int((~out).sum()),
        "auroc": ood_auroc(table.out_of_class[~out], table.out_of_class[out]).value,
        "mean_inside": float(table.out_of_class[~out].mean()),
        "mean_outside": float(table.out_of_class[out].mean()),
    }  # fmt: skip


def conformal(classifier: Classifier, texts: list[str], y: Int) -> Iterator[dict[str, Any]]:
    """Coverage and size over random splits; under the changed prior the k-th label is drawn as 1 / k."""
    seen, k = classifier.observe(texts), len(classifier.panel.names)
    for prior, weight in (("uniform", np.ones(k)), ("changed", 1 / (1.0 + np.arange(k)))):
        p = classifier.infer_batch_observed(seen, Prior(weight / weight.sum(), float(k))).posterior
        for each, kind in itertools.product(CALIBRATION, KINDS):
            found = []
            for seed in range(SPLITS):
                rng = np.random.default_rng(seed)
                own = [rng.permutation(np.flatnonzero(y == j))[:each] for j in range(k)]
                chosen = np.concatenate(own)
                rest = np.setdiff1d(np.arange(len(y)), chosen)
                if prior == "changed":
                    rest = rng.choice(rest, len(rest), p=weight[y[rest]] / weight[y[rest]].sum())
                sets = calibrate(p[chosen], y[chosen], level=LEVEL, kind=kind).sets(p[rest])
                found.append((coverage_of(sets, y[rest]), float(sets.sum(1).mean())))
            cover, size = np.array(found).T
            spread = [float(q) for q in np.quantile(cover, (0.025, 0.975))]
            said = {"method": classifier.settings.method, "prior": prior, "kind": kind, "per_label": each}
            yield said | {"coverage": [float(cover.mean()), *spread], "size": float(size.mean())}


def page(record: dict[str, Any]) -> str:
    columns = [c for c in next(iter(record["methods"].values())) if c != "ms_per_case"]
    bank = record["bank"]
    held = "none, so only what needs none was measured"
    if bank is not None:
        held = f"at least {min(bank['labels'].values())} texts a label, {bank['background']} of others"
    lines = [
        f"# {record['labels']} labels, {record['n']} cases of DDXPlus", "",
        f"`{record['command']}`, commit {record['commit']}. Bank: {held}. Brackets: 95 % intervals, cases "
        "resampled; for coverage, over random splits within labels. `per_label`: cases to calibrate on.", "",
        "| method | " + " | ".join(columns) + " | ms a case |", "|---" * (len(columns) + 2) + "|",
    ]  # fmt: skip
    for name, row in record["methods"].items():
        took = f"{row['ms_per_case']:.2f}" if "ms_per_case" in row else ""
        lines.append(f"| {name} | " + " | ".join(cell(row[c]) for c in columns) + f" | {took} |")
    for title, rows in (("None of these", record["none_of_these"]), ("Conformal sets", record["conformal"])):
        if rows:
            lines += ["", f"## {title}", "", "| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
            lines += ["| " + " | ".join(cell(v) for v in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], float):
        low = f" [{value[1]:.3f}, {value[2]:.3f}]" if len(value) == 3 else ""
        return f"{value[0]:.3f}{low}"
    return (
        f"{value:.3f}"
        if isinstance(value, float)
        else ", ".join(value)
        if isinstance(value, list)
        else str(value)
    )


def read_cases(path: Path, panel: Panel) -> list[dict[str, Any]]:
    place = {name: i for i, name in enumerate(panel.names)}
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for case in cases:
        case["y"], case["reference"] = place[case["label"]], np.zeros(len(place))
        for name, share in case["differential"]:
            if name in place:
                case["reference"][place[name]] += share
    return cases


if __name__ == "__main__":
    main()
