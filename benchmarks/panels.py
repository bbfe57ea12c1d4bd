"""Every packaged panel, every label-free method, on the evaluation data: one record, one table.

    python benchmarks/panels.py --data ../shared/data --out results/panels

Writes `record.json` (command, commit, versions, metrics with intervals), one Parquet file of per-case rows
a run (ids and probabilities, no text), and `README.md` with the tables. Reporting only:
nothing here chooses anything.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from simdx import Classifier, __version__
from simdx.baselines.supervised import supervised_ceiling
from simdx.datasets.dataset import Dataset
from simdx.datasets.files import read_cases
from simdx.embedders import embed_texts, get_embedder
from simdx.evaluate import evaluate
from simdx.metrics import evaluate_probabilities
from simdx.runs import current_commit

PANELS = {
    "symptom-to-diagnosis": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "oral-lesions": ("oral/vignettes.jsonl", "oral/ood.jsonl"),
    "case-reports": ("pmc/cases.jsonl", "pmc/ood.jsonl"),
}
BEST = "wordllama+minilm"
RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("auto", {"embedder": BEST}),
    ("m-smc", {}),
    ("m-smc", {"engine": "particles"}),
    ("m-smc", {"kernel": "soft"}),
    ("m-smc", {"embedder": "minilm"}),
    ("d-smc", {}),
    ("d-smc", {"engine": "particles"}),
    ("d-smc", {"embedder": "minilm"}),
    ("centroid", {}),
    ("tfidf", {}),
    ("zero-shot", {}),
    ("bank-logistic", {}),
    ("bank-logistic", {"embedder": BEST}),
)
SHOWN = (
    "accuracy", "macro_f1", "brier", "ece", "nll", "entropy_bits", "auroc", "error_auroc", "e_aurc",
    "risk_at_80",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/panels"))
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--core", action="store_true", help="only what the core install can run")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for panel, (cases, ood) in PANELS.items():
        labels = Classifier(panel).panel.names
        data = read_cases(arguments.data / cases, labels=labels)
        outside = read_cases(arguments.data / ood, labelled=False)
        for method, options in RUNS:
            if arguments.core and "minilm" in options.get("embedder", ""):
                continue
            runs.append(one_run(panel, method, options, data, outside, arguments))
            print(_line(runs[-1]), file=sys.stderr, flush=True)
        for embedder in ("wordllama",) if arguments.core else ("wordllama", "minilm", BEST):
            runs.append(ceiling(panel, embedder, labels, data, arguments.resamples))
            print(_line(runs[-1]), file=sys.stderr, flush=True)
    record = {
        "command": f"python benchmarks/panels.py --data DATA --out {arguments.out}"
        + (" --core" if arguments.core else ""),
        "commit": current_commit(),
        "simdx": __version__,
        "python": platform.python_version(),
        "resamples": arguments.resamples,
        "labels_used": "none; supervised rows are five-fold cross-validated on the evaluation cases",
        "runs": runs,
    }
    (arguments.out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / "README.md").write_text(markdown(record))


def one_run(
    panel: str,
    method: str,
    options: dict[str, Any],
    data: Dataset,
    outside: Dataset,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    classifier = Classifier(panel, method=method, **options)
    result = evaluate(classifier, data, ood=outside, resamples=arguments.resamples)
    name = "-".join([panel, method, *options.values()]).replace("+", "_")
    write_rows(arguments.out / f"{name}.parquet", result.rows())
    r = result.record
    keep = ("n", "k", *SHOWN, "aurc", "ci", "ood", "among_labels", "second_order")
    return {"panel": panel, "method": method, **options, "embedder": classifier.embedder.id,
            "bank": classifier.bank.name, **{k: r.get(k) for k in keep}}  # fmt: skip


def ceiling(
    panel: str, embedder: str, labels: tuple[str, ...], data: Dataset, resamples: int
) -> dict[str, Any]:
    vectors = embed_texts(get_embedder(embedder), data.texts)
    y = data.label_index(labels)
    p = supervised_ceiling(vectors, y, len(labels), list(data.texts))
    measured = evaluate_probabilities(p, y, resamples=resamples, rng=np.random.default_rng(0))
    kept = {k: measured.get(k) for k in ("n", "k", *SHOWN, "aurc", "ci")}
    return {"panel": panel, "method": "supervised", "embedder": embedder, **kept}


def write_rows(path: Path, rows: dict[str, list[Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert not {"text", "texts"} & set(rows)
    pq.write_table(pa.table(rows), path, compression="zstd")


def markdown(record: dict[str, Any]) -> str:
    out = [
        "# Packaged panels on the evaluation data",
        "",
        f"`{record['command']}` at commit {record['commit']}, simdx {record['simdx']}. "
        "No label of any case was used, except in the supervised rows (cross-validated ceiling). "
        "95 % bootstrap intervals in brackets. `auto` reports the posterior the decision uses, which is "
        "drawn towards the prior by the probability of none of these; the other methods have no background.",
        "",
    ]
    for panel in PANELS:
        rows = [r for r in record["runs"] if r["panel"] == panel]
        out += [f"## {panel} (N = {rows[0]['n']}, K = {rows[0]['k']})", ""]
        out += ["| method | embedder | " + " | ".join(SHOWN) + " | out-of-class AUROC |"]
        out += ["|---|---|" + "---|" * (len(SHOWN) + 1)]
        for r in rows:
            name = " ".join([r["method"], *[str(r[k]) for k in ("engine", "kernel") if r.get(k)]])
            ood = r.get("ood")
            auroc = f"{ood['auroc']:.3f}" if ood and ood.get("auroc") is not None else "–"
            cells = " | ".join(_cell(r, m) for m in SHOWN)
            out.append(f"| {name} | {_short(r['embedder'])} | {cells} | {auroc} |")
        out.append("")
    out += [
        "Our banks were written by a large language model; see the panels' notices. The paper's figures "
        "stand in docs/results.md.",
        "",
    ]
    return "\n".join(out)


def _cell(run: dict[str, Any], metric: str) -> str:
    value = run.get(metric)
    if value is None:
        return "–"
    interval = (run.get("ci") or {}).get(metric)
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def _short(embedder: str) -> str:
    return "+".join(part.split("/")[0] for part in embedder.split("+"))


def _line(run: dict[str, Any]) -> str:
    told = ("accuracy", "ece", "error_auroc")
    shown = " ".join(f"{m} {run[m]:.3f}" for m in told if run.get(m) is not None)
    name = f"{run['method']} {run.get('engine', '')} {run.get('kernel', '')}"
    return f"{run['panel']:22} {name:24} {_short(run['embedder']):18} {shown}"


if __name__ == "__main__":
    main()
