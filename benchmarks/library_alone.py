"""Conditions told apart by the library's texts alone, beside the supervised ceiling.

    python -m benchmarks.library_alone --data ../shared/data --out results/library/alone.json

All classes of Symptom-to-Diagnosis (cases of the panel and outside ones) and of the DDXPlus excerpt. A class
that the library does not know by name is told and left out. Reporting only.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from simdx import Classifier, library
from simdx.baselines.by_bank import supervised_ceiling
from simdx.bench import records
from simdx.embedders import embed_texts, get_embedder
from simdx.types import Float, Int, Label

FILES = {
    "symptom-to-diagnosis, six labels": ("sd/cases.jsonl",),
    "symptom-to-diagnosis, all classes": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "ddxplus41": ("transfer/ddxplus41/cases.jsonl",),
}
AT = (1, 3, 5)


def at_most(scores: Float, truth: Int) -> dict[str, float]:
    rank = (scores > scores[np.arange(len(truth)), truth][:, None]).sum(axis=1)
    return {str(k): round(float((rank < k).mean()), 4) for k in AT}


def measured(files: list[Path]) -> dict[str, Any]:
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    cases = [(row["text"], row.get("label") or row["topic"]) for row in rows]
    names = sorted({label for _, label in cases})
    known = [name for name in names if library.texts_for(Label(name))]
    kept = [(text, known.index(label)) for text, label in cases if label in known]
    texts, truth = [text for text, _ in kept], np.array([label for _, label in kept])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "panel.yaml"
        file.write_text(json.dumps({"register": "patient", "labels": known}), encoding="utf-8")
        answers = Classifier(file, embedder="wordllama").infer_batch(texts)
    ceiling = supervised_ceiling(embed_texts(get_embedder("wordllama"), texts), truth, len(known), texts)
    return {
        "cases": len(kept),
        "classes": len(known),
        "not in the library": sorted(set(names) - set(known)),
        "library alone": at_most(answers.among_labels, truth),
        "supervised": at_most(ceiling, truth),
    }


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/library/alone.json"))
    asked = parser.parse_args()
    found = records.heading("python -m benchmarks.library_alone --data DATA")
    for name, files in FILES.items():
        found[name] = measured([asked.data / file for file in files])
        print(name, found[name], flush=True)
    records.write_record(asked.out, found)


if __name__ == "__main__":
    main()
