"""The recipe beside the baselines that `simdx evaluate --compare` offers, on the packaged panels.

    python benchmarks/comparison.py --data ../shared/data --work out/comparison

Eight cases of each label, the first of the file, are what few-shot methods learn from (`--real`); all methods
are asked about the others. Each run is one `simdx evaluate`, kept in `--work`: what is there is not run again
and alone enters the record. Reporting only: nothing here chooses anything.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from simdx import __version__
from simdx.runs.record import current_commit

PANELS = {"oral-lesions": "oral/vignettes.jsonl", "symptom-to-diagnosis": "sd/cases.jsonl"}
GROUPS = {  # methods beside `auto`; with the labelled cases or without
    "cheap": (("tfidf", "bank-logistic", "centroid", "zero-shot", "m-smc", "d-smc"), False),
    "real": (("setfit-real",), True),
    "zerogen": (("zerogen",), False),
    "setfit": (("setfit",), False),
}
SHOTS = 8
SHOWN = ("accuracy", "ece", "nll", "brier", "error_auroc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/comparison"))
    parser.add_argument("--no-run", action="store_true", help="write the record of what is there")
    asked = parser.parse_args()
    record: dict[str, Any] = {
        "command": "python benchmarks/comparison.py --data ../shared/data --work out/comparison",
        "commit": current_commit(),
        "simdx": __version__,
        "models": {"recipe": "wordllama/l2_supercat_256", "setfit, setfit-real, zerogen": "all-MiniLM-L6-v2"},
        "shots": SHOTS,
        "panels": {},
    }
    for panel, file in PANELS.items():
        learned, cases = split(asked.data / file, asked.work / panel)
        found: dict[str, Any] = {}
        for group, (methods, real) in GROUPS.items():
            kept = asked.work / f"{panel}-{group}.json"
            if not asked.no_run and not kept.is_file():
                evaluate(panel, cases, methods, learned if real else None, kept)
            if kept.is_file() and kept.stat().st_size:
                found |= rows(json.loads(kept.read_text("utf-8")), "auto, real cases" if real else "auto")
        record["panels"][panel] = found
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def split(file: Path, stem: Path) -> tuple[Path, Path]:
    seen: Counter[str] = Counter()
    parts: dict[str, list[str]] = {"real": [], "rest": []}
    for line in file.read_text("utf-8").splitlines():
        label = json.loads(line)["label"]
        seen[label] += 1
        parts["real" if seen[label] <= SHOTS else "rest"].append(line)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {name: stem.with_name(f"{stem.name}-{name}.jsonl") for name in parts}
    for name, lines in parts.items():
        paths[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths["real"], paths["rest"]


def evaluate(panel: str, cases: Path, methods: tuple[str, ...], real: Path | None, kept: Path) -> None:
    command = [sys.executable, "-m", "simdx", "evaluate", "--panel", panel, "--data", str(cases), "--json"]
    command += [part for method in methods for part in ("--compare", method)]
    command += [] if real is None else ["--real", str(real)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    kept.write_text(done.stdout, encoding="utf-8")


def rows(told: dict[str, Any], ours: str) -> dict[str, Any]:
    """method -> metrics, and the difference of accuracies to the recipe with its paired interval."""
    found = {ours: {"n": told["n"], **{name: told[name] for name in SHOWN}}}
    for pair in told["compare"]:
        other, gap = pair["second"], pair["difference"]["accuracy"]
        found[other["run"]] = {
            "n": pair["n"],
            **{name: other[name] for name in SHOWN},
            "accuracy_less_the_recipes": [gap["difference"], gap["low"], gap["high"]],
        }
    return found


if __name__ == "__main__":
    main()
