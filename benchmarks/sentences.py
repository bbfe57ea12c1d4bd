"""Sentences marked as not explained by the label: foreign ones, and those of correctly answered cases.

    python -m benchmarks.sentences --data FOLDER

To each of some simulated texts, held out, a sentence of a probe about another condition is added
(tests/data/outside_probes.jsonl); probes of even number were looked at while the rule was chosen. The
panel's labelled cases, which FOLDER holds where `simdx.bench.records.CASES` says, and the probes are asked as
they are.
Writes results/library/sentences.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bench import records
from simdx.classifier import Classifier
from simdx.methods.world import held_out
from simdx.reading import split_sentences

ROOT = Path(__file__).parents[1]
PROBES = ROOT / "tests" / "data" / "outside_probes.jsonl"
OUT = ROOT / "results" / "library" / "sentences.json"
EACH = 60  # held-out texts of a fold
LEAST_WORDS = 4  # of a foreign sentence


def measured(name: str, folder: Path) -> dict[str, Any]:
    classifier = Classifier(name, embedder="wordllama")
    world, scale = classifier.fitted.world, classifier.fitted.calibration.unexplained
    probes = [
        json.loads(line) | {"odd": i % 2} for i, line in enumerate(PROBES.read_text("utf-8").splitlines())
    ]
    probes = [probe for probe in probes if name not in probe["inside"]]
    foreign: dict[str, list[str]] = {}
    for probe in probes:
        kind = f"{'emergency' if probe['emergency'] else 'other'}, {'odd' if probe['odd'] else 'even'}"
        long = [s for s in split_sentences(probe["text"]) if len(s.split()) >= LEAST_WORDS]
        foreign.setdefault(kind, []).extend(long)
    rng, found = np.random.default_rng(0), dict[str, list[bool]]()
    bank = classifier.bank
    for one in held_out(world):
        own = [split_sentences(bank.texts[row]) for row in one.rows]
        label = bank.label_index[one.rows]
        for by in one.world.excess(own, label):
            found.setdefault("held-out texts as they are", []).append(
                bool(by.max() > scale.threshold(len(by)))
            )
        for kind, added in foreign.items():
            pick = rng.permutation(len(own))[:EACH]
            texts = [[*own[i], added[rng.integers(len(added))]] for i in pick]
            for by in one.world.excess(texts, label[pick]):
                found.setdefault(kind, []).append(bool(by[-1] > scale.threshold(len(by))))
    cases = records.cases_of(classifier.panel.names, *(folder / file for file in records.CASES[name]))
    answers = [classifier.infer(text, explain=False) for text in cases.texts]
    right = [a for a, k in zip(answers, cases.truth, strict=True) if a.label == classifier.panel.names[k]]
    asked = [classifier.infer(probe["text"], explain=False) for probe in probes]
    led = [a for a in asked if a.label in classifier.panel.names]
    return {
        "marked": {kind: {"n": len(by), "share": round(float(np.mean(by)), 4)} for kind, by in found.items()},
        "right answers": {"n": len(right), "marked": sum(map(bool, (a.unexplained for a in right)))},
        "probes led by a label": {"n": len(led), "marked": sum(map(bool, (a.unexplained for a in led)))},
    }


def main() -> None:
    parser = records.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    panels = dict[str, Any]()
    for name in records.CASES:
        panels[name] = measured(name, folder)
        print(name, json.dumps(panels[name]), flush=True)
    records.write_record(
        OUT, records.heading("python -m benchmarks.sentences --data FOLDER") | {"panels": panels}
    )


if __name__ == "__main__":
    main()
