"""Conditions told apart by the library's texts alone, beside the supervised ceiling.

    python -m benchmarks.library_alone --data ../shared/data --out results/library/alone.json

All classes of Symptom-to-Diagnosis (cases of the panel and outside ones) and of the DDXPlus excerpt. A class
that the library does not know by name is told and left out. Reporting only.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from simdx import Classifier, library
from simdx.baselines.supervised import supervised_ceiling
from simdx.embedders import embed_texts, get_embedder
from simdx.runs import current_commit
from simdx.types import Float, Int, Label

FILES = {
    "symptom-to-diagnosis, six labels": ("sd/cases.jsonl",),
    "symptom-to-diagnosis, all classes": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "ddxplus41": ("transfer/ddxplus41/cases.jsonl",),
}
AT = (1, 3, 5)


def rows(path: Path) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], row.get("label") or row["topic"]) for row in found]


def at_most(scores: Float, truth: Int) -> dict[str, float]:
    rank = (scores > scores[np.arange(len(truth)), truth][:, None]).sum(axis=1)
    return {str(k): round(float((rank < k).mean()), 4) for k in AT}


def measured(cases: list[tuple[str, str]]) -> dict[str, Any]:
    names = sorted({label for _, label in cases})
    known = [name for name in names if library.texts_for(Label(name))]
    kept = [(text, known.index(label)) for text, label in cases if label in known]
    texts, truth = [text for text, _ in kept], np.array([label for _, label in kept])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "panel.yaml"
        file.write_text(json.dumps({"register": "patient", "labels": known}), encoding="utf-8")
        answers = Classifier(file, embedder="wordllama").infer_batch(texts)
    vectors = embed_texts(get_embedder("wordllama"), texts)
    ceiling = supervised_ceiling(vectors, truth, len(known), texts)
    return {
        "cases": len(kept),
        "classes": len(known),
        "not in the library": sorted(set(names) - set(known)),
        "library alone": at_most(answers.among_labels, truth),
        "supervised": at_most(ceiling, truth),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/library/alone.json"))
    asked = parser.parse_args()
    found: dict[str, Any] = {
        "command": "python -m benchmarks.library_alone --data DATA",
        "commit": current_commit(),
    }
    for name, files in FILES.items():
        found[name] = measured([row for file in files for row in rows(asked.data / file)])
        print(name, found[name], flush=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
