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
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

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
    right: Counter[str] = Counter()
    told: Counter[str] = Counter()
    true: Counter[str] = Counter()
    by_kind: dict[str, list[bool]] = {}
    for row in rows:
        found = reader(row["text"], [(start, end) for start, end, _ in row["spans"]])
        for got, (_, _, meant) in zip(found, row["spans"], strict=True):
            want = meant if meant in known else "present"
            told[got] += 1
            true[want] += 1
            right[want] += got == want
            by_kind.setdefault(row["kind"], []).append(got == want)
    out = {name: _f1(right[name], told[name], true[name]) for name in ("present", *known)}
    sums = (sum(counts[name] for name in known) for counts in (right, told, true))
    return {
        "findings": sum(true.values()),
        "all": _f1(*sums),
        "by_assertion": out,
        "accuracy_by_kind": {kind: round(statistics.mean(hits), 4) for kind, hits in sorted(by_kind.items())},
    }


def _f1(right: int, told: int, true: int) -> dict[str, float]:
    return {
        "n": true,
        "precision": round(right / told, 4) if told else 0.0,
        "recall": round(right / true, 4) if true else 0.0,
        "f1": round(2 * right / (told + true), 4) if told + true else 0.0,
    }


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
    asked = [(row["text"], [(start, end) for start, end, _ in row["spans"]]) for row in rows]
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for text, places in asked:
            reader(text, places)
        best = min(best, time.perf_counter() - start)
    return round(best / len(rows) * 1e6, 1)


def main() -> None:
    """Measure and write the record."""
    rows = gold()
    held_out = [row for row in rows if row["half"] == "held-out"]
    development = [row for row in rows if row["half"] == "development"]
    record: dict[str, Any] = {
        "command": "python benchmarks/reading.py",
        "gold": str(GOLD.relative_to(ROOT)),
        "sentences": {"development": len(development), "held-out": len(held_out)},
        "python": platform.python_version(),
        "readers": {},
    }
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
        record["readers"][name] = {
            "version": _version(name),
            "held-out": scores(held_out, reader, known),
            "development": scores(development, reader, known),
            "held-out, negation alone": scores(held_out, _negation_of(reader), ("negated",)),
            "us_a_sentence": microseconds(held_out, reader),
        }
        print(name, json.dumps(record["readers"][name]["held-out"]["all"]))
    if "medspacy" in record["readers"]:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _negation_of(reader: Reader) -> Reader:
    return lambda text, places: [one if one == "negated" else "present" for one in reader(text, places)]


def _version(name: str) -> str:
    return __version__ if name == "simdx" else version(name)


if __name__ == "__main__":
    main()
