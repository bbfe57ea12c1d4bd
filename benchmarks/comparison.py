"""The recipe beside the baselines that `simdx evaluate --compare` offers, on two packaged panels.

    python benchmarks/comparison.py --data ../shared/data --work out/comparison --jobs
    python benchmarks/comparison_tuned.py --jobs out/comparison/jobs.json --encoder MINILM_FOLDER \\
        --out results/comparison/tuned.json.gz
    python benchmarks/comparison.py --data ../shared/data --work out/comparison

Eight cases of each label, the first of the file, are what few-shot methods learn from (`--real`); all methods
are asked about the others. Each method is one `simdx evaluate --out` below `--work`: what is there is not run
again. Fine-tuned encoders are trained by the second command, on a GPU where there is one. Reporting only:
nothing here chooses anything.
"""

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from simdx import __version__
from simdx.classifier import Classifier
from simdx.compare import Run, compare
from simdx.runs.record import current_commit
from simdx.types import plain

PANELS = {"oral-lesions": "oral/vignettes.jsonl", "symptom-to-diagnosis": "sd/cases.jsonl"}
OURS = "auto"
METHODS = (OURS, "tfidf", "bank-logistic", "centroid", "zero-shot", "m-smc", "d-smc")
WITH_CASES = "auto, real cases"
TUNED = ("setfit", "zerogen", "setfit-real")
SEEDS = (0, 1, 2)  # of fine-tuning; the first is the product's
SHOTS = 8
SHOWN = ("accuracy", "ece", "nll", "brier", "error_auroc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/comparison"))
    parser.add_argument("--jobs", action="store_true", help="write what is to be fine-tuned, and stop")
    asked = parser.parse_args()
    parts = {panel: split(asked.data / file, asked.work / panel) for panel, file in PANELS.items()}
    if asked.jobs:
        jobs = [job for panel, files in parts.items() for job in to_tune(panel, *files)]
        (asked.work / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        return
    kept = asked.out / "tuned.json.gz"
    tuned = json.loads(gzip.decompress(kept.read_bytes())) if kept.is_file() else []
    record: dict[str, Any] = {
        "command": "python benchmarks/comparison.py --data ../shared/data --work out/comparison",
        "commit": current_commit(),
        "simdx": __version__,
        "models": {"recipe": "wordllama/l2_supercat_256", ", ".join(TUNED): "all-MiniLM-L6-v2"},
        "shots": SHOTS,
        "panels": {},
    }
    for panel, (real, rest) in parts.items():
        runs = {m: evaluated(panel, m, rest, None, asked.work / panel / m) for m in METHODS}
        runs[WITH_CASES] = evaluated(panel, OURS, rest, real, asked.work / panel / "auto-real")
        found = {name: row(runs[OURS], run) for name, run in runs.items()}
        for method in TUNED:
            if jobs := [job for job in tuned if (job["panel"], job["method"]) == (panel, method)]:
                found[method] = seeds(runs[OURS], jobs)
        record["panels"][panel] = found
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def split(file: Path, folder: Path) -> tuple[Path, Path]:
    seen: Counter[str] = Counter()
    known: set[str] = set()
    parts: dict[str, list[str]] = {"real": [], "rest": []}
    for line in file.read_text("utf-8").splitlines():
        case = json.loads(line)
        seen[case["label"]] += 1
        if seen[case["label"]] <= SHOTS:
            known.add(plain(case["text"]))
            parts["real"].append(line)
        elif plain(case["text"]) not in known:  # a text that was learned from says nothing
            parts["rest"].append(line)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.jsonl" for name in parts}
    for name, lines in parts.items():
        paths[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths["real"], paths["rest"]


def to_tune(panel: str, real: Path, rest: Path) -> list[dict[str, Any]]:
    """One job for each method and seed: texts and labels to learn from, cases to answer."""
    bank = Classifier(panel).bank
    shots, cases = ([json.loads(line) for line in f.read_text("utf-8").splitlines()] for f in (real, rest))
    of_shots = [case["text"] for case in shots], [bank.labels.index(case["label"]) for case in shots]
    of_bank = list(bank.texts), bank.label_index.tolist()
    out = []
    for method in TUNED:
        texts, labels = of_shots if method == "setfit-real" else of_bank
        told = {"texts": texts, "labels": labels, "n_labels": len(bank.labels)}
        told |= {"ids": [case["id"] for case in cases], "cases": [case["text"] for case in cases]}
        out += [{"panel": panel, "method": method, "seed": seed, **told} for seed in SEEDS]
    return out


def evaluated(panel: str, method: str, cases: Path, real: Path | None, folder: Path) -> Run:
    if not (folder / "metrics.json").is_file():
        command = [sys.executable, "-m", "simdx", "evaluate", "--panel", panel, "--data", str(cases)]
        command += ["--method", method, "--out", str(folder), *(["--real", str(real)] if real else [])]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return Run.read(folder)


def row(ours: Run, other: Run) -> dict[str, Any]:
    """Metrics, and the difference of accuracies to the recipe with its paired interval."""
    pair = compare(ours, other)
    gap = pair["difference"]["accuracy"]
    found = {"n": pair["n"], **{name: pair["second"][name] for name in SHOWN}}
    if other is not ours:
        found["accuracy_less_the_recipes"] = [gap["difference"], gap["low"], gap["high"]]
    return found


def seeds(ours: Run, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """The first seed's row, and the accuracy of every seed."""
    truth = dict(zip(ours.ids, ours.truth, strict=True))
    rows = []
    for job in sorted(jobs, key=lambda job: job["seed"]):
        kept = [(i, p) for i, p in zip(job["ids"], job["posterior"], strict=True) if i in truth]
        ids, posterior = zip(*kept, strict=True)
        answers = tuple(truth[i] for i in ids), ours.labels, np.array(posterior)
        rows.append(row(ours, Run(job["method"], ids, *answers)))
    return {
        **rows[0],
        "accuracies": [found["accuracy"] for found in rows],
        "device": jobs[0]["device"],
        "seconds": [job["seconds"] for job in jobs],
    }


if __name__ == "__main__":
    main()
