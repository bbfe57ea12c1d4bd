"""Which of a panel's banks should stand against its background? Asked of a second simulator's texts.

    python benchmarks/outside_banks.py --out results/recipe_choice

What Qwen2.5-Coder-1.5B wrote for the labels (results/banks) and for other conditions (near misses it named
itself, and the broad list: results/banks/backgrounds) has a right answer. The banks under which the
background's odds tell the two apart best, by the mean AUROC over both lists and both embedders, stand against
the background in the panel file. Draws from both banks of the size of one say how much of the difference is
size. Banks come first, with the background as one label and the bandwidth of the answer among labels; they
are looked at again with the shape that was chosen after them. With the chosen banks the rest of none of these
is set, once for all panels:

bandwidth,      the highest mean AUROC on the same texts, over panels and embedders
kinds

and for each panel, and once for all together, which is what a panel without odds of its own gets:

slope, offset,  as `simdx panel calibrate` fits them: half by the panel's own writers, half by the second
prior           simulator, with either embedder

No case of any data set is read.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from outside_choice import written
from outside_shift import LISTS, SECOND, second_background, second_bank

from simdx.bank.files import packaged_bank
from simdx.embedders import embed_cached, get_embedder
from simdx.embedders.base import Embedder
from simdx.experiments.records import current_commit
from simdx.methods.background import BANDWIDTH, KINDS, Opposition
from simdx.methods.comparison import BANDWIDTH as ANSWER_BANDWIDTH
from simdx.methods.material import Material, Observations
from simdx.methods.odds import Rehearsed, fit_odds, rehearse_other, rehearse_own
from simdx.methods.outside import SHIPPED_ODDS
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source
from simdx.types import Bank

CHOICES = {"bank": (0,), "bank_b": (1,), "both": (0, 1)}
STARTING_SHAPE = (ANSWER_BANDWIDTH, 1)
BANDWIDTHS = (0.03, 0.04, 0.05, 0.06, 0.07, 0.1)
NUMBERS = (1, 3, 6, 9, 12, 18)  # of kinds
DRAWS = 5


def observed(embedder: Embedder, texts: tuple[str, ...]) -> Observations:
    return Observations(texts, embed_cached(embedder, texts), tuple(range(len(texts))))


def opposed(material: Material, bandwidth: float = BANDWIDTH, kinds: int = KINDS) -> Opposition:
    opposition = Opposition.fit(material, bandwidth, kinds)
    if opposition is None:
        raise SystemExit(f"{material.panel.name} has no background")
    return opposition


def ahead(opposition: Opposition, embedder: Embedder, texts: tuple[str, ...]) -> np.ndarray:
    return opposition.ahead(observed(embedder, texts), np.ones(opposition.n_labels, dtype=bool))


def areas(opposition: Opposition, panel: str, embedder: Embedder) -> dict[str, float]:
    """AUROC of the second simulator's other conditions against its labels, by list of conditions."""
    inside, _ = second_bank(panel, SECOND)
    outside = [second_background(panel, name) for name in LISTS]
    scores = ahead(opposition, embedder, (*inside, *(text for texts in outside for text in texts)))
    own, *others = np.split(scores, np.cumsum([len(inside), *map(len, outside)])[:-1])
    return {
        name: auroc(np.concatenate([own, other]), np.arange(len(own) + len(other)) >= len(own)).value
        for name, other in zip(LISTS, others, strict=True)
    }


def judge(panel: str, embedder: Embedder, bandwidth: float, kinds: int) -> list[dict[str, Any]]:
    """Those areas for each choice of banks."""
    source = load_source(panel)
    whole = packaged_bank(source)
    part = np.repeat([0, 1], [len(texts) for texts in written(panel).banks])

    def of(against: np.ndarray) -> dict[str, float]:
        material = Material.prepare(source.panel, replace(whole, against=against), embedder)
        return areas(opposed(material, bandwidth, kinds), panel, embedder)

    rows = []
    for name, parts in CHOICES.items():
        rows.append({"against": name, "texts": int(np.isin(part, parts).sum())})
        rows[-1] |= of(np.isin(part, parts))
    smaller = whole.subset(np.flatnonzero(part == np.bincount(part).argmin()))
    drawn = [of(draw(whole, smaller.counts, seed)) for seed in range(DRAWS)]
    rows.append({"against": f"{DRAWS} draws from both", "texts": len(smaller.texts)})
    rows[-1] |= {name: float(np.mean([d[name] for d in drawn])) for name in LISTS}
    return [{"panel": panel, "embedder": embedder.id, **row} for row in rows]


def draw(bank: Bank, counts: dict[str, int], seed: int) -> np.ndarray:
    """A mask of so many texts of every label, at random."""
    order = np.random.default_rng(seed).permutation(len(bank.texts))
    mask = np.zeros(len(bank.texts), dtype=bool)
    for i, label in enumerate(bank.labels):
        mask[order[bank.label_index[order] == i][: counts[label]]] = True
    return mask


def chosen(rows: list[dict[str, Any]]) -> dict[str, str]:
    def mean(panel: str, name: str) -> float:
        return float(
            np.mean([r[k] for r in rows if (r["panel"], r["against"]) == (panel, name) for k in LISTS])
        )

    return {panel: max(CHOICES, key=lambda name: mean(panel, name)) for panel in PACKAGED}


# ------------------------------------------------------------------------------------- bandwidth, kinds


def with_chosen(panel: str, choice: str, embedder: Embedder) -> Material:
    source = load_source(panel)
    part = np.repeat([0, 1], [len(texts) for texts in written(panel).banks])
    bank = replace(packaged_bank(source), against=np.isin(part, CHOICES[choice]))
    return Material.prepare(source.panel, bank, embedder)


def shapes(panel: str, choice: str, embedder: Embedder) -> list[dict[str, Any]]:
    """The same areas for every bandwidth and number of kinds, with the chosen banks."""
    material = with_chosen(panel, choice, embedder)
    rows = []
    for kinds in NUMBERS:
        fitted = opposed(material, kinds=kinds)
        for bandwidth in BANDWIDTHS:
            other = replace(fitted, comparison=replace(fitted.comparison, bandwidth=bandwidth))
            row = {"panel": panel, "embedder": embedder.id, "kinds": kinds, "bandwidth": bandwidth}
            rows.append(row | areas(other, panel, embedder))
    return rows


def best_shape(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean area of every shape, the best first."""
    means = [
        {
            "kinds": kinds,
            "bandwidth": bandwidth,
            "mean": float(
                np.mean(
                    [r[n] for r in rows if (r["kinds"], r["bandwidth"]) == (kinds, bandwidth) for n in LISTS]
                )
            ),
        }
        for kinds in NUMBERS
        for bandwidth in BANDWIDTHS
    ]
    return sorted(means, key=lambda m: -m["mean"])


# --------------------------------------------------------------------------- slope, offset, prior mass


def rehearsals(panel: str, choice: str, embedder: Embedder) -> list[Rehearsed]:
    """Own writers and the second simulator, as `simdx panel calibrate` has them."""
    material = with_chosen(panel, choice, embedder)
    others = tuple(text for name in LISTS for text in second_background(panel, name))
    second = observed(embedder, second_bank(panel, SECOND)[0]), observed(embedder, others)
    return [rehearse_own(material, written(panel).condition), rehearse_other(material, *second)]


def fitted(parts: list[Rehearsed]) -> dict[str, Any]:
    found = fit_odds(parts)
    return {**asdict(found.odds), "rise_bits": {str(p): bits for p, bits in found.rise_bits.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedders", nargs="+", default=["wordllama", "wordllama+minilm"])
    arguments = parser.parse_args()
    embedders = [get_embedder(name) for name in arguments.embedders]
    rows, again = (
        [row for e in embedders for panel in PACKAGED for row in judge(panel, e, *shape)]
        for shape in (STARTING_SHAPE, (BANDWIDTH, KINDS))
    )
    for r in (*rows, *again):
        print(f"{r['embedder']:50} {r['panel']:22} {r['against']:18} {r['near']:.3f} {r['broad']:.3f}")
    choice = chosen(rows)
    print("with the chosen shape", chosen(again))
    shipped = {p: "+".join(path.stem for path in load_source(p).against) for p in PACKAGED}
    print("chosen", choice, "shipped", shipped)
    tried = [row for e in embedders for panel in PACKAGED for row in shapes(panel, choice[panel], e)]
    ranked = best_shape(tried)
    for m in ranked[:10]:
        print(f"{m['kinds']:3} kinds, bandwidth {m['bandwidth']}: {m['mean']:.4f}")
    asked = {p: [r for e in embedders for r in rehearsals(p, choice[p], e)] for p in PACKAGED}
    odds = {p: fitted(parts) for p, parts in asked.items()}
    own_writers_alone = {p: fitted([r for r in parts if r.writer == "own"]) for p, parts in asked.items()}
    together = fitted([r for parts in asked.values() for r in parts])
    for name, found in (*odds.items(), ("all panels together", together)):
        print(name, found)
    record = {
        "command": "python benchmarks/outside_banks.py",
        "commit": current_commit(),
        "second_simulator": SECOND,
        "criterion": "mean AUROC, its near misses and its broad list against its texts of the labels",
        "rows": rows,
        "chosen": choice,
        "rows_with_the_chosen_shape": again,
        "chosen_with_the_chosen_shape": chosen(again),
        "in_panel_files": shipped,
        "shapes": tried,
        "shape_means": ranked,
        "odds": odds,
        "odds_by_own_writers_alone": own_writers_alone,
        "odds_of_all_panels_together": together,
        "shipped": {
            "kinds": KINDS,
            "bandwidth": BANDWIDTH,
            "odds": asdict(SHIPPED_ODDS),
            "panels": {p: asdict(o) for p in PACKAGED if (o := load_source(p).odds) is not None},
        },
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outside_banks.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
