"""Which of a user's own texts to label, and the labels kept as they are given.

A dozen labels say more about how sure answers may be than any simulated text. They say most when the texts
differ in what they are answered, so texts are drawn from strata of the scores: of none of these, and inside
each evenly over the leading probability. Rare strata have more than their share, because what is chosen by
scores alone leaves the calibration of a label given its scores as it is.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.types import NONE_OF_THESE, content_hash, plain

FEWEST, MOST = 8, 20  # texts that are shown
NONE_EDGES = (0.1, 0.5, 0.9)  # of the strata, in the probability of none of these
LARGEST = 1_000_000  # characters of a text
MOST_TEXTS = 5_000  # that are looked at


def texts_to_ask(classifier: Classifier, texts: Sequence[str], n: int = MOST) -> list[int]:
    """Positions of the texts to show, in an order that may be left off anywhere.

    Equal texts count once, and texts of the bank are left out: their label is known.
    """
    held = {plain(text) for text in (*classifier.bank.texts, *classifier.bank.background)}
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        if (words := plain(text)) and words not in held:
            first.setdefault(words, i)
    rows = sorted(first.values(), key=lambda i: content_hash(texts[i]))[:MOST_TEXTS]
    if not rows:
        return []
    table = classifier.infer_batch([texts[i] for i in rows])
    leading = table.posterior[:, : len(classifier.panel.names)].max(axis=1)
    none = np.zeros(len(rows)) if table.out_of_class is None else table.out_of_class
    stratum = np.digitize(none, NONE_EDGES)
    waiting = {}
    for s in np.unique(stratum).tolist():
        own = np.flatnonzero(stratum == s)
        waiting[s] = _spread(own[np.argsort(leading[own], kind="stable")].tolist())
    weight = {s: len(own) ** (1 / 3) for s, own in waiting.items()}
    chosen: list[int] = []
    taken = dict.fromkeys(waiting, 0)
    while len(chosen) < min(n, len(rows)):
        s = max((s for s in waiting if waiting[s]), key=lambda s: weight[s] / (taken[s] + 0.5))
        chosen.append(rows[waiting[s].pop(0)])
        taken[s] += 1
    return chosen


def _spread(ordered: list[int]) -> list[int]:
    """The same in an order of which every beginning is spread over the whole: the middle, the quarters, …"""
    found: list[int] = []
    spans = [(0, len(ordered))]
    while spans:
        low, high = spans.pop(0)
        if low < high:
            middle = (low + high) // 2
            found.append(ordered[middle])
            spans += [(low, middle), (middle + 1, high)]
    return found


def read_texts(path: Path) -> list[str]:
    """Texts without labels: a table, or a text file with a text a line, or a paragraph each."""
    if path.suffix.lower() != ".txt":
        return read_cases(path, labelled=False).texts
    try:
        whole = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    paragraphs = [text for part in whole.split("\n\n") if (text := " ".join(part.split()))]
    lines = [text for line in whole.splitlines() if (text := line.strip())]
    return [text[:LARGEST] for text in (paragraphs if len(paragraphs) > 1 else lines)]


def labelled_file(panel: Path) -> Path:
    """Where the labels of a panel file are kept: beside it, with their texts."""
    file = panel / "panel.yaml" if panel.is_dir() else panel
    return file.with_name("labelled.jsonl" if file.stem == "panel" else f"{file.stem}-labelled.jsonl")


def read_labelled(path: Path, names: Sequence[str]) -> dict[str, str]:
    """text -> label of those that have been given."""
    if not path.is_file() or not path.stat().st_size:
        return {}
    return {case.text: str(case.label) for case in read_cases(path, labels=(*names, NONE_OF_THESE)).cases}


def write_labelled(path: Path, labelled: Mapping[str, str]) -> None:
    """For their owner's eyes: the texts may be patients'."""
    rows = (json.dumps({"text": t, "label": label}, ensure_ascii=False) for t, label in labelled.items())
    write_atomically(path, "".join(f"{row}\n" for row in rows), mode=0o600)
