"""What every fault is tried on: a panel, a bank beside it and labelled cases on disk, and a network."""

import json
from pathlib import Path

import numpy as np

from simdx.amortised.network import HIDDEN, Card, Network, TrainingPrior
from simdx.types import content_hash
from tests.builders import WORDS, toy_texts

PANEL = """\
name: toy
register: plain
embedder: hashing
labels:
- {name: apple, aliases: [pome]}
- name: river
- {name: engine, must_not_miss: true}
"""


def write_world(folder: Path, per_label: int = 5) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "panel.yaml").write_text(PANEL, "utf-8")
    (folder / "with-bank.yaml").write_text(PANEL + "banks: [rows.jsonl]\n", "utf-8")
    texts, index = toy_texts(per_label, 1)
    labels = [list(WORDS)[i] for i in index]
    rows = [{"label": label, "text": text} for label, text in zip(labels, texts, strict=True)]
    cases = [{**row, "id": str(i), "text": f"{row['text']}, number {i}"} for i, row in enumerate(rows)]
    for name, items in (("rows.jsonl", rows), ("cases.jsonl", cases)):
        (folder / name).write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")


def toy_network(seed: int, width: int = 8) -> Network:
    """A whole network without training one: what matters to faults is its files."""
    rng = np.random.default_rng(seed)
    shapes = ((width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, len(WORDS)))
    layers = tuple(
        (rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32))
        for shape in shapes
    )
    card = Card(
        panel="toy", panel_hash=content_hash("panel", *WORDS), labels=tuple(WORDS), bank="toy",
        bank_hash="0" * 64, embedder="toy", blocks=(width,), populations=5, prior_conditioned=False,
        prior=TrainingPrior(probabilities=(0.5, 0.25, 0.25), alpha0=3.0), objective="kl",
        observations="bank", settings={"seed": seed}, version="1",
    )  # fmt: skip
    return Network(layers, card)
