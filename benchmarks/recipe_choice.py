"""How the shipped recipe's constants were chosen, from simulated text alone.

    python benchmarks/recipe_choice.py --out results/recipe_choice

A panel's two banks were written to different instructions, so one stands in for a shift in style: the
recipe is fitted to `bank.jsonl` and judged by its log loss on `bank_b.jsonl`, all panels together. Plain
leave-one-out is far too easy to choose anything. What belongs to none of these is set by
`outside_banks.py`. No case of any data set is read.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from simdx.bank.files import jsonl_rows, read_bank
from simdx.embedders import embed_cached, get_embedder
from simdx.experiments.records import current_commit
from simdx.methods.comparison import KERNEL_SHARE, Comparison
from simdx.methods.lexical import Lexicon
from simdx.methods.material import Observations
from simdx.methods.recipe import BANDWIDTH, SHARPNESS
from simdx.panels import PACKAGED, load_source
from simdx.types import EmbeddedBank

BANDWIDTHS = (0.03, 0.05, 0.07, 0.1, 0.14)
PENALTIES = (0.03, 0.1, 0.3, 1.0)
SHARES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5)
SHARPNESSES = (1.0, 1.25, 1.5, 1.85, 2.25, 2.75)


def observed(embedder: Any, texts: tuple[str, ...]) -> Observations:
    return Observations(texts, embed_cached(embedder, texts), tuple(range(len(texts))))


def in_class_losses(name: str, embedder: Any) -> dict[tuple[float, float, float, float], float]:
    """Log loss on the second bank of every setting, fitted to the first."""
    source = load_source(name)
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    background = tuple(row["text"] for _, row in jsonl_rows(source.folder / "background.jsonl"))
    k = len(source.panel.names)
    lexicon = Lexicon([*first.texts, *background])
    embedded = EmbeddedBank(embed_cached(embedder, first.texts), first.label_index, k, embedder.blocks)
    cases = observed(embedder, second.texts)
    row = np.arange(len(second.texts))
    kernels, summaries = {}, {}
    for width in BANDWIDTHS:
        c = Comparison.fit(lexicon, first.texts, embedded, bandwidth=width, self_consistent=True)
        kernels[width] = log_softmax(c.kernel(c.observe(cases)[1]), axis=1)
    for penalty in PENALTIES:
        c = Comparison.fit(
            lexicon, first.texts, embedded, bandwidth=BANDWIDTH, self_consistent=False, penalty=penalty
        )
        summaries[penalty] = c.summary(c.observe(cases)[0])
    losses = {}
    for width, penalty, share, sharp in itertools.product(BANDWIDTHS, PENALTIES, SHARES, SHARPNESSES):
        pooled = log_softmax(sharp * (summaries[penalty] + share * kernels[width]), axis=1)
        losses[width, penalty, share, sharp] = float(-pooled[row, second.label_index].mean())
    return losses


def best_sharpness(name: str, embedder: Any) -> float:
    """The sharpness with the least loss on the second bank, other constants as shipped."""
    source = load_source(name)
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    background = tuple(row["text"] for _, row in jsonl_rows(source.folder / "background.jsonl"))
    embedded = EmbeddedBank(
        embed_cached(embedder, first.texts), first.label_index, len(source.panel.names), embedder.blocks
    )
    lexicon = Lexicon([*first.texts, *background])
    c = Comparison.fit(lexicon, first.texts, embedded, bandwidth=BANDWIDTH, self_consistent=True)
    lexical, joint = c.observe(observed(embedder, second.texts))
    score = c.summary(lexical) + KERNEL_SHARE * log_softmax(c.kernel(joint), axis=1)
    row = np.arange(len(second.texts))

    def loss(log_sharp: float) -> float:
        return float(-log_softmax(np.exp(log_sharp) * score, axis=1)[row, second.label_index].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-2, 3), method="bounded").x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedder", default="wordllama")
    arguments = parser.parse_args()
    embedder = get_embedder(arguments.embedder)
    losses = {name: in_class_losses(name, embedder) for name in PACKAGED}
    keys = list(next(iter(losses.values())))
    mean = {key: float(np.mean([losses[name][key] for name in PACKAGED])) for key in keys}
    ranked = sorted(mean, key=mean.__getitem__)
    sharp = {name: best_sharpness(name, embedder) for name in PACKAGED}
    shipped = (BANDWIDTH, 0.1, KERNEL_SHARE, SHARPNESS)
    record = {
        "command": f"python benchmarks/recipe_choice.py --embedder {arguments.embedder}",
        "commit": current_commit(),
        "embedder": embedder.id,
        "criterion": "mean log loss on bank_b of the recipe fitted to bank, three packaged panels",
        "order": ["bandwidth", "penalty", "kernel_share", "sharpness"],
        "shipped": {"setting": shipped, "loss": mean.get(shipped), "rank": ranked.index(shipped) + 1},
        "settings": len(keys),
        "best": [
            {"setting": key, "loss": mean[key], "per_panel": {n: losses[n][key] for n in PACKAGED}}
            for key in ranked[:20]
        ],
        "best_sharpness": {**sharp, "geometric_mean": float(np.exp(np.mean(np.log(list(sharp.values())))))},
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.embedder.replace('+', '_')}.json").write_text(
        json.dumps(record, indent=1) + "\n"
    )
    print(json.dumps({k: record[k] for k in ("shipped", "best_sharpness")}, indent=1))
    for entry in record["best"][:8]:
        print(entry["setting"], round(entry["loss"], 4))


if __name__ == "__main__":
    main()
