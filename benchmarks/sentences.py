"""Sentences marked as not explained by the label: foreign ones, and those of correctly answered cases.

    python -m benchmarks.sentences --data FOLDER

To each of some simulated texts, held out, a sentence of a probe about another condition is added
(tests/data/outside_probes.jsonl); probes of even number were looked at while the rule was chosen. The
panel's labelled cases, which FOLDER holds where `simdx.bench.records.CASES` says, and the probes are asked as
they are, once more without red flags. How often red flags are found is asked of the library's own texts, to
which their ways were fitted.
Writes results/library/sentences.json.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from simdx import library
from simdx.answer import Answer
from simdx.bench import records
from simdx.classifier import Classifier
from simdx.methods.world import World, held_out
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
    names = classifier.panel.names
    cases = records.cases_of(names, *(folder / file for file in records.CASES[name]))
    asked = {
        "cases": list(cases.texts),
        "probes": [probe["text"] for probe in probes],
        "emergencies among them": [probe["text"] for probe in probes if probe["emergency"]],
        "outside cases": cases.outside,
    }
    answers = {kind: classifier.infer(texts, explain=False) for kind, texts in asked.items()}
    with patch.object(World, "red_flags", lambda *_: []):
        before = {kind: classifier.infer(texts, explain=False) for kind, texts in asked.items()}
    is_right = [a.label == names[k] for a, k in zip(answers["cases"], cases.truth, strict=True)]
    right = [a for a, held in zip(answers["cases"], is_right, strict=True) if held]
    right_before = [a for a, held in zip(before["cases"], is_right, strict=True) if held]
    led = [a for a in answers["probes"] if a.label in names]
    flags = {"right answers": compared(right_before, right)}
    flags |= {kind: compared(before[kind], answers[kind]) for kind in asked if kind != "cases"}
    return {
        "marked": {kind: {"n": len(by), "share": round(float(np.mean(by)), 4)} for kind, by in found.items()},
        "right answers": {"n": len(right), "marked": sum(map(bool, (a.unexplained for a in right)))},
        "probes led by a label": {"n": len(led), "marked": sum(map(bool, (a.unexplained for a in led)))},
        "red flags": flags,
    }


def compared(before: list[Answer], after: list[Answer]) -> dict[str, int]:
    """What red flags change: answers that only they mark; those that pass every check without and with."""
    passed = [[a.decision.action in ("accept", "likely") for a in some] for some in (before, after)]
    return {
        "n": len(after),
        "newly marked": sum(
            bool(a.unexplained and not b.unexplained) for b, a in zip(before, after, strict=True)
        ),
        "accepted or likely without": sum(passed[0]),
        "and with": sum(passed[1]),
    }


def recall() -> dict[str, Any]:
    """In how many of the library's texts a red flag of their condition is found, and how often each."""
    held, own, flags = Counter[str](), Counter[str](), Counter[str]()
    for text in library.texts():
        found = [flag for *_, flag in library.found_in(text.text)]
        held[text.condition] += 1
        own[text.condition] += any(text.condition in flag.of for flag in found)
        flags.update(flag.name for flag in found)
    pointed = {name for flag in library.red_flags() for name in flag.of}
    urgent = [c.name for c in library.conditions() if c.emergency]
    known = [name for name in urgent if name in pointed]
    return {
        "emergencies": len(urgent),
        "with a red flag": len(known),
        "their texts": sum(held[name] for name in known),
        "in which one is found": sum(own[name] for name in known),
        "share by condition": {name: round(own[name] / held[name], 2) for name in known},
        "texts of the library by red flag": {flag.name: flags[flag.name] for flag in library.red_flags()},
    }


def main() -> None:
    parser = records.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    panels = dict[str, Any]()
    for name in records.CASES:
        panels[name] = measured(name, folder)
        print(name, json.dumps(panels[name]), flush=True)
    said = records.heading("python -m benchmarks.sentences --data FOLDER")
    records.write_record(OUT, said | {"panels": panels, "library": recall()})


if __name__ == "__main__":
    main()
