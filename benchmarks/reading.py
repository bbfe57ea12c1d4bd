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
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.metrics import precision_recall_fscore_support

from simdx import __version__
from simdx.reading import read

ROOT = Path(__file__).resolve().parent.parent
GOLD = ROOT / "tests/data/reading_gold.jsonl"
OUT = ROOT / "results/reading/assertion.json"
ASSERTIONS = ("negated", "possible", "hypothetical", "past", "family")

Reader = Callable[[str, list[tuple[int, int]]], list[str]]  # a text and its findings' places -> assertions
Row = dict[str, Any]


def gold() -> list[Row]:
    """Sentences with `kind`, `half`, `text` and `spans` of (start, end, assertion)."""
    return [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()]


def simdx_reads(text: str, places: list[tuple[int, int]]) -> list[str]:
    """Our own reader."""
    reading = read(text)
    return [reading.assertion(start, end) for start, end in places]


def scores(rows: list[Row], reader: Reader, known: tuple[str, ...] = ASSERTIONS) -> dict[str, Any]:
    """Precision, recall and F1 of each assertion and of all together; accuracy by kind of sentence.

    An assertion that a library does not know counts as present, for it and in the gold set.
    """
    told, true = list[str](), list[str]()
    by_kind: dict[str, list[bool]] = {}
    for row in rows:
        told += reader(row["text"], _places(row))
        true += [meant if meant in known else "present" for *_, meant in row["spans"]]
        own = slice(-len(row["spans"]), None)
        hits = [got == want for got, want in zip(told[own], true[own], strict=True)] if row["spans"] else []
        by_kind.setdefault(row["kind"], []).extend(hits)
    names = ("present", *known)
    options: dict[str, Any] = {"labels": names, "zero_division": 0.0}
    each = zip(names, *precision_recall_fscore_support(true, told, **options), strict=True)
    options = {"labels": known, "average": "micro", "zero_division": 0.0}
    *whole, _ = precision_recall_fscore_support(true, told, **options)
    return {
        "findings": len(true),
        "all": _row(*whole, sum(one in known for one in true)),
        "by_assertion": {name: _row(*figures) for name, *figures in each},
        "accuracy_by_kind": {kind: round(statistics.mean(hits), 4) for kind, hits in sorted(by_kind.items())},
    }


def _row(precision: float, recall: float, f1: float, n: int) -> dict[str, float]:
    return {"n": int(n), "precision": round(precision, 4), "recall": round(recall, 4), "f1": round(f1, 4)}


def _places(row: Row) -> list[tuple[int, int]]:
    return [(start, end) for start, end, _ in row["spans"]]


# --------------------------------------------------------------------------- the libraries


def _document(nlp: Any, text: str, places: list[tuple[int, int]]) -> Any:
    """The pipeline with the findings set as entities before the components that judge them."""
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(start, end, label="FINDING", alignment_mode="expand") for start, end in places]
    for _, component in nlp.pipeline:
        doc = component(doc)
    return doc


def negspacy_reader() -> Reader:
    """negspaCy with its clinical terms."""
    import negspacy.negation  # noqa: F401  registers the component
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("negex")

    def reader(text: str, places: list[tuple[int, int]]) -> list[str]:
        return ["negated" if ent._.negex else "present" for ent in _document(nlp, text, places).ents]

    return reader


def medspacy_reader() -> Reader:
    """medspaCy's ConText with its default rules, and its sections of past and family history."""
    import medspacy.context
    import medspacy.section_detection  # noqa: F401  registers the component
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("medspacy_context")
    nlp.add_pipe("medspacy_sectionizer")

    def meant(ent: Any) -> str:
        section = ent._.section_category or ""
        if ent._.is_family or section == "family_history":
            return "family"
        if ent._.is_hypothetical:
            return "hypothetical"
        if ent._.is_negated:
            return "negated"
        if ent._.is_uncertain:
            return "possible"
        return "past" if ent._.is_historical or section == "past_medical_history" else "present"

    def reader(text: str, places: list[tuple[int, int]]) -> list[str]:
        return [meant(ent) for ent in _document(nlp, text, places).ents]

    return reader


def microseconds(rows: list[Row], reader: Reader, rounds: int = 20) -> float:
    """A sentence of the gold set, the fastest of some rounds."""
    asked = [(row["text"], _places(row)) for row in rows]
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for text, places in asked:
            reader(text, places)
        best = min(best, time.perf_counter() - start)
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
            "gold": str(GOLD.relative_to(ROOT)),
            "sentences": {half: len(rows) for half, rows in halves.items()},
            "python": platform.python_version(),
            "readers": readers,
        }
        OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
