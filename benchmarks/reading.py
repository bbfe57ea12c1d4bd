"""Assertion reading on the gold set, beside negspaCy and medspaCy: `python benchmarks/reading.py`.

Writes results/reading/assertion.json. The two libraries are measured where they are installed (Python 3.12:
`pip install spacy negspacy==1.1.0 medspacy==1.3.1`, with `src` on the path); they are given the places of
the findings, a blank English tokeniser and a sentence splitter. medspaCy also gets its sectioniser. negspaCy
knows negation alone.

The gold set (tests/data/reading_gold.jsonl) was written before the rules, by the same author. The rules were
tuned on its development half; the held-out half was looked at once, when they were done.
"""

from __future__ import annotations

import json
import platform
import statistics
import timeit
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.metrics import classification_report, precision_recall_fscore_support

from simdx import __version__
from simdx.bench import records
from simdx.reading import read

ROOT = Path(__file__).resolve().parent.parent
GOLD = "tests/data/reading_gold.jsonl"
OUT = ROOT / "results/reading/assertion.json"
ASSERTIONS = ("negated", "possible", "hypothetical", "past", "family")

Reader = Callable[[str, list[tuple[int, int]]], list[str]]  # a text and its findings' places -> assertions
Row = dict[str, Any]


def gold() -> list[Row]:
    """Sentences with `kind`, `half`, `text` and `spans` of (start, end, assertion)."""
    return [json.loads(line) for line in (ROOT / GOLD).read_text(encoding="utf-8").splitlines()]


def simdx_reads(text: str, places: list[tuple[int, int]]) -> list[str]:
    """Our own reader."""
    reading = read(text)
    return [reading.assertion(start, end) for start, end in places]


def scores(rows: list[Row], reader: Reader, known: tuple[str, ...] = ASSERTIONS) -> dict[str, Any]:
    """Precision, recall and F1 of each assertion and of all together; accuracy by kind of sentence.

    An assertion that a library does not know counts as present, for it and in the gold set.
    """
    told, true, by_kind = list[str](), list[str](), dict[str, list[bool]]()
    for row in rows:
        own = reader(row["text"], places_of(row))
        meant = [one if one in known else "present" for *_, one in row["spans"]]
        told, true = told + own, true + meant
        by_kind.setdefault(row["kind"], []).extend(a == b for a, b in zip(own, meant, strict=True))
    report = classification_report(
        true, told, labels=("present", *known), output_dict=True, zero_division=0.0
    )
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, told, labels=known, average="micro", zero_division=0.0
    )
    whole = {"support": sum(one in known for one in true), "precision": precision, "recall": recall}
    return {
        "findings": len(true),
        "all": rounded(whole | {"f1-score": f1}),
        "by_assertion": {name: rounded(report[name]) for name in ("present", *known)},
        "accuracy_by_kind": {kind: round(statistics.mean(hits), 4) for kind, hits in sorted(by_kind.items())},
    }


def rounded(one: dict[str, float]) -> dict[str, float]:
    figures = {"precision": one["precision"], "recall": one["recall"], "f1": one["f1-score"]}
    return {"n": int(one["support"]), **{name: round(value, 4) for name, value in figures.items()}}


def places_of(row: Row) -> list[tuple[int, int]]:
    return [(start, end) for start, end, _ in row["spans"]]


# --------------------------------------------------------------------------- the libraries


def _document(nlp: Any, text: str, places: list[tuple[int, int]]) -> Any:
    """The pipeline with the findings set as entities before the components that judge them."""
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(start, end, label="FINDING", alignment_mode="expand") for start, end in places]
    for _, component in nlp.pipeline:
        doc = component(doc)
    return doc


def pipeline(*parts: str) -> Any:
    import spacy

    nlp = spacy.blank("en")
    for part in ("sentencizer", *parts):
        nlp.add_pipe(part)
    return nlp


def negspacy_reader() -> Reader:
    """negspaCy with its clinical terms."""
    import negspacy.negation  # noqa: F401  registers the component

    nlp = pipeline("negex")
    return lambda text, places: [
        "negated" if ent._.negex else "present" for ent in _document(nlp, text, places).ents
    ]


def medspacy_reader() -> Reader:
    """medspaCy's ConText with its default rules, and its sections of past and family history."""
    import medspacy.context
    import medspacy.section_detection  # noqa: F401  registers the component

    nlp = pipeline("medspacy_context", "medspacy_sectionizer")

    def meant(ent: Any) -> str:
        section = ent._.section_category or ""
        signs = {
            "family": ent._.is_family or section == "family_history",
            "hypothetical": ent._.is_hypothetical,
            "negated": ent._.is_negated,
            "possible": ent._.is_uncertain,
            "past": ent._.is_historical or section == "past_medical_history",
        }
        return next((name for name, holds in signs.items() if holds), "present")

    return lambda text, places: [meant(ent) for ent in _document(nlp, text, places).ents]


def microseconds(rows: list[Row], reader: Reader, rounds: int = 20) -> float:
    """A sentence of the gold set, the fastest of some rounds."""
    asked = [(row["text"], places_of(row)) for row in rows]
    best = min(timeit.repeat(lambda: [reader(*one) for one in asked], number=1, repeat=rounds))
    return round(best / len(rows) * 1e6, 1)


def main() -> None:
    """Measure and write the record, where all three are installed."""
    halves = {half: [row for row in gold() if row["half"] == half] for half in ("development", "held-out")}
    held_out, readers = halves["held-out"], {}
    for name, make, known in (
        ("simdx", lambda: simdx_reads, ASSERTIONS),
        ("negspacy", negspacy_reader, ("negated",)),
        ("medspacy", medspacy_reader, ASSERTIONS),
    ):
        try:
            reader: Reader = make()
        except ImportError:
            print(f"{name} is not installed: left out")
            continue

        def negation(text: str, places: list[tuple[int, int]], reader: Reader = reader) -> list[str]:
            return [one if one == "negated" else "present" for one in reader(text, places)]

        readers[name] = {
            "version": __version__ if name == "simdx" else version(name),
            **{half: scores(halves[half], reader, known) for half in ("held-out", "development")},
            "held-out, negation alone": scores(held_out, negation, ("negated",)),
            "us_a_sentence": microseconds(held_out, reader),
        }
        print(name, json.dumps(readers[name]["held-out"]["all"]))
    if "medspacy" in readers:
        record = {
            "command": "python benchmarks/reading.py",
            "gold": GOLD,
            "sentences": {half: len(rows) for half, rows in halves.items()},
            "python": platform.python_version(),
            "readers": readers,
        }
        records.write_record(OUT, record)


if __name__ == "__main__":
    main()
