"""How much should unlabelled cases teach? Asked of a second simulator's texts.

    OMP_NUM_THREADS=1 python benchmarks/archive_choice.py --out results/recipe_choice

What Qwen2.5-Coder-1.5B wrote for the labels is cut in halves: one is the archive, with none, a tenth or three
tenths of its texts about other conditions (near misses and broad list), the other is asked about, beside the
other conditions that the archive does not hold. The weight of a text of the archive and the pull on its mean
are `methods.archive.WEIGHT` and `PULL`: of those whose log loss in class is within .005 of the least, the one
with the highest out-of-class AUROC, over panels, shares and both embedders. No case of any data set is read.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from outside_shift import LISTS, SECOND, second_background, second_bank

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.embedders import get_embedder
from simdx.embedders.base import Embedder, embed_texts
from simdx.experiments.records import current_commit
from simdx.fitting import fit_method
from simdx.methods import Settings
from simdx.methods.archive import PULL, with_archive
from simdx.methods.material import Material
from simdx.methods.outside import fit_outside
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source

EMBEDDERS = ("wordllama", "wordllama+minilm")
SHARES = (0.0, 0.1, 0.3)  # of the archive's texts that are about other conditions
DRAWS = 2
CANDIDATES = [(weight, PULL) for weight in (0.0, 0.1, 0.3, 1.0, 3.0)] + [(1.0, 0), (1.0, 30)]
TOLERATED = 0.005  # nats


class Remembered:
    """An embedder that embeds each text once: halves are drawn of the same texts again and again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._known = embedder, dict[str, np.ndarray]()
        self.id, self.blocks = embedder.id, embedder.blocks

    def embed_batch(self, texts: Sequence[str]) -> np.ndarray:
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if fresh:
            self._known.update(zip(fresh, embed_texts(self._embedder, fresh), strict=True))
        return np.stack([self._known[text] for text in texts])


def judge(panel: str, embedder: Embedder) -> list[dict[str, Any]]:
    source = load_source(panel)
    material = Material.prepare(source.panel, packaged_bank(source), embedder)
    texts, label = second_bank(panel, SECOND)
    others = [text for name in LISTS for text in second_background(panel, name)]
    rows = []
    for share in SHARES:
        rng = np.random.default_rng(0)
        for draw in range(DRAWS):
            order, outside = rng.permutation(len(texts)), rng.permutation(len(others))
            half = len(order) // 2
            some = round(half * share / (1 - share))
            archive = [texts[i] for i in order[:half]] + [others[i] for i in outside[:some]]
            asked = [texts[i] for i in order[half:]], [others[i] for i in outside[len(others) // 2 :]]
            if some > len(others) // 2:
                raise SystemExit(f"{panel} has too few other conditions for a share of {share}")
            truth = np.asarray(label)[order[half:]]
            for weight, pull in [(None, None), *CANDIDATES]:
                taught = material if weight is None else with_archive(material, archive, weight, pull=pull)
                found = figures(taught, *asked, truth)
                rows.append({"panel": panel, "embedder": embedder.id, "share": share, "draw": draw,
                             "weight": weight, "pull": pull, **found})  # fmt: skip
            print(panel, share, draw, flush=True)
    return rows


def figures(material: Material, inside: list[str], outside: list[str], truth: np.ndarray) -> dict[str, float]:
    infer, out_of_class = fit_method(material, Settings()), fit_outside(material)
    assert out_of_class is not None
    uniform = Prior.uniform(len(material.panel.names))

    cases = material.observe(inside)
    p = infer(cases, uniform)[0].probabilities
    scores = np.concatenate([out_of_class(cases, uniform), out_of_class(material.observe(outside), uniform)])
    return {
        "accuracy": float((p.argmax(axis=1) == truth).mean()),
        "nll": float(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-12)).mean()),
        "ood_auroc": auroc(scores, np.arange(len(scores)) >= len(inside)).value,
    }


def of_embedder(name: str) -> list[dict[str, Any]]:
    embedder = Remembered(get_embedder(name))
    return [row for panel in PACKAGED for row in judge(panel, embedder)]


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every candidate's mean over panels, shares, draws and embedders."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["weight"], row["pull"]].append(row)
    return [
        {"weight": weight, "pull": pull}
        | {name: float(np.mean([row[name] for row in some])) for name in ("accuracy", "nll", "ood_auroc")}
        for (weight, pull), some in groups.items()
    ]


def chosen(table: list[dict[str, Any]]) -> dict[str, Any]:
    taught = [row for row in table if row["weight"] is not None]
    least = min(row["nll"] for row in taught)
    return max((row for row in taught if row["nll"] <= least + TOLERATED), key=lambda row: row["ood_auroc"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    arguments = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        rows = [row for part in pool.map(of_embedder, EMBEDDERS) for row in part]
    table = means(rows)
    record = {
        "command": "python benchmarks/archive_choice.py",
        "commit": current_commit(),
        "second_simulator": SECOND,
        "chosen": chosen(table),
        "means": table,
        "rows": rows,
    }
    (arguments.out / "archive.json").write_text(json.dumps(record, indent=1) + "\n")
    for row in table:
        print({k: v if v is None else round(v, 4) for k, v in row.items()})
    print("chosen", record["chosen"])


if __name__ == "__main__":
    main()
