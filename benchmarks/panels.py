"""The packaged panels on the evaluation data: every method beside the supervised ceiling, in one table.

    python benchmarks/panels.py --data ../shared/data --out results/panels

Writes `record.json` (command, commit, versions, metrics with intervals), one Parquet file of per-case rows
a run (ids and probabilities, no text), and `README.md` with the tables. Reporting only:
nothing here chooses anything.
"""

import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simdx import Classifier, __version__
from simdx.baselines.by_bank import supervised_ceiling
from simdx.bench import records
from simdx.datasets.dataset import read_cases
from simdx.embedders import embed_texts, get_embedder
from simdx.evaluate import evaluate
from simdx.metrics import evaluate_probabilities

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
KEPT = ("n", "k", *SHOWN, "aurc", "ci")


def runs_of(panel: str, data: Path, out: Path, resamples: int, core: bool) -> Iterator[dict[str, Any]]:
    """Every method, then the supervised ceiling of each embedder; `core`: what the core install can run."""
    inside, ood = (data / file for file in records.CASES[panel])
    names = Classifier(panel).panel.names
    cases, outside = read_cases(inside, labels=names), read_cases(ood, labelled=False)
    for method, options in RUNS:
        if core and "minilm" in options.get("embedder", ""):
            continue
        classifier = Classifier(panel, method=method, **options)
        result = evaluate(classifier, cases, ood=outside, resamples=resamples)
        rows = result.rows()
        assert not {"text", "texts"} & set(rows)
        file = "-".join([panel, method, *options.values()]).replace("+", "_") + ".parquet"
        pq.write_table(pa.table(rows), out / file, compression="zstd")
        about = {"panel": panel, "method": method, **options, "embedder": classifier.embedder.id}
        about["bank"] = classifier.bank.name
        keys = (*KEPT, "ood", "among_labels", "second_order")
        yield about | {key: result.record.get(key) for key in keys}
    y = cases.label_index(names)
    for embedder in ("wordllama",) if core else ("wordllama", "minilm", BEST):
        vectors = embed_texts(get_embedder(embedder), cases.texts)
        p = supervised_ceiling(vectors, y, len(names), list(cases.texts))
        measured = evaluate_probabilities(p, y, resamples=resamples, rng=np.random.default_rng(0))
        about = {"panel": panel, "method": "supervised", "embedder": embedder}
        yield about | {key: measured.get(key) for key in KEPT}


def page(record: dict[str, Any]) -> str:
    out = [
        "# Packaged panels on the evaluation data",
        "",
        f"`{record['command']}` at commit {record['commit']}, simdx {record['simdx']}. "
        "No label of any case was used, except in the supervised rows (cross-validated ceiling). "
        "95 % bootstrap intervals in brackets. `auto` has none of these among its outcomes, wrong for every "
        "one of these cases; the other methods have no background.",
        "",
    ]
    for panel in records.CASES:
        runs, rows = [run for run in record["runs"] if run["panel"] == panel], []
        for run in runs:
            auroc = (run.get("ood") or {}).get("auroc")
            cells = [_name(run), _short(run["embedder"]), *(_cell(run, metric) for metric in SHOWN)]
            rows.append([*cells, "–" if auroc is None else f"{auroc:.3f}"])
        out += [f"## {panel} (N = {runs[0]['n']}, K = {runs[0]['k']})", ""]
        out += [*records.table(["method", "embedder", *SHOWN, "out-of-class AUROC"], rows), ""]
    out += [
        "Our banks were written by a large language model; see the panels' notices. The paper's figures "
        "stand in docs/results.md.",
        "",
    ]
    return "\n".join(out)


def _name(run: dict[str, Any]) -> str:
    return " ".join([run["method"], *(run[key] for key in ("engine", "kernel") if run.get(key))])


def _cell(run: dict[str, Any], metric: str) -> str:
    value, interval = run.get(metric), (run.get("ci") or {}).get(metric)
    if value is None:
        return "–"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def _short(embedder: str) -> str:
    return "+".join(part.split("/")[0] for part in embedder.split("+"))


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/panels"))
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--core", action="store_true", help="only what the core install can run")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for panel in records.CASES:
        for run in runs_of(panel, asked.data, asked.out, asked.resamples, asked.core):
            runs.append(run)
            told = [f"{metric} {_cell(run, metric)}" for metric in ("accuracy", "ece", "error_auroc")]
            print(panel, _name(run), _short(run["embedder"]), *told, file=sys.stderr, flush=True)
    core = " --core" if asked.core else ""
    record = {
        **records.heading(f"python benchmarks/panels.py --data DATA --out {asked.out}{core}"),
        "simdx": __version__,
        "python": platform.python_version(),
        "resamples": asked.resamples,
        "labels_used": "none; supervised rows are five-fold cross-validated on the evaluation cases",
        "runs": runs,
    }
    records.write_record(asked.out / "record.json", record)
    (asked.out / "README.md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
