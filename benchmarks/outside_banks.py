"""Which of a panel's banks should stand against its background? Asked of a second simulator's texts.

    python benchmarks/outside_banks.py --out results/recipe_choice

What Qwen2.5-Coder-1.5B wrote for the labels (results/banks) and for other conditions (near misses it named
itself, and the broad list: results/banks/backgrounds) has a right answer. The banks under which the
background's odds tell the two apart best, by the mean AUROC over both lists and both embedders, stand against
the background in the panel file. Draws from both banks of the size of one say how much of the difference is
size. With the chosen banks the rest of none of these is set, once for all panels:

slope, offset   maximum likelihood: texts of the bank that does not stand against it as cases inside, held-out
                background conditions as cases outside
prior mass      the largest of 1, 2, 5, 10 % for which answers to those cases inside gain at most a tenth of
                a bit of entropy on every panel with either embedder

No case of any data set is read.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from outside_choice import Texts, pick, written
from outside_shift import KINDS, SECOND, second_background, second_bank
from scipy.optimize import minimize
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.embedders import embed_cached, get_embedder
from simdx.embedders.base import Embedder
from simdx.experiments.records import current_commit
from simdx.methods import Settings, fit_method
from simdx.methods.base import Material, Observations
from simdx.methods.outside import OFFSET, PRIOR_MASS, SLOPE, background_ahead, with_background
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source
from simdx.types import Bank, entropy_bits

CHOICES = {"bank": (0,), "bank_b": (1,), "both": (0, 1)}
MASSES = (0.01, 0.02, 0.05, 0.1)
MOST_BITS = 0.1
FOLDS = 2  # of background conditions
DRAWS = 5


def observed(embedder: Embedder, texts: tuple[str, ...]) -> Observations:
    return Observations(texts, embed_cached(embedder, texts), tuple(range(len(texts))))


def ahead(material: Material, texts: tuple[str, ...]) -> np.ndarray:
    comparison = with_background(material)
    if comparison is None:
        raise SystemExit(f"{material.panel.name} has no background")
    every = np.ones(len(material.panel.names), dtype=bool)
    return background_ahead(comparison, observed(material.embedder, texts), every)


def judge(panel: str, embedder: Embedder) -> list[dict[str, Any]]:
    """AUROC of the second simulator's other conditions against its labels, for each choice of banks."""
    source = load_source(panel)
    whole = packaged_bank(source)
    part = np.repeat([0, 1], [len(texts) for texts in written(panel).banks])
    inside, _ = second_bank(panel, SECOND)

    def areas(against: np.ndarray) -> dict[str, float]:
        material = Material.prepare(source.panel, replace(whole, against=against), embedder)
        found = {}
        for kind in KINDS:
            scores = ahead(material, (*inside, *second_background(panel, kind)))
            found[kind] = auroc(scores, np.arange(len(scores)) >= len(inside)).value
        return found

    rows = []
    for name, parts in CHOICES.items():
        rows.append({"against": name, "texts": int(np.isin(part, parts).sum())})
        rows[-1] |= areas(np.isin(part, parts))
    smaller = whole.subset(np.flatnonzero(part == np.bincount(part).argmin()))
    drawn = [areas(draw(whole, smaller.counts, seed)) for seed in range(DRAWS)]
    rows.append({"against": f"{DRAWS} draws from both", "texts": len(smaller.texts)})
    rows[-1] |= {kind: float(np.mean([d[kind] for d in drawn])) for kind in KINDS}
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
            np.mean([r[k] for r in rows if (r["panel"], r["against"]) == (panel, name) for k in KINDS])
        )

    return {panel: max(CHOICES, key=lambda name: mean(panel, name)) for panel in PACKAGED}


# --------------------------------------------------------------------------- slope, offset, prior mass


def apart(panel: str, choice: str) -> tuple[Bank, Texts]:
    """A bank to fit, and the other one's texts as cases; the first is fitted where both were chosen."""
    w, fit = written(panel), CHOICES[choice][0]
    part = np.repeat([0, 1], [len(texts) for texts in w.banks])
    return packaged_bank(load_source(panel)).subset(np.flatnonzero(part == fit)), w.banks[1 - fit]


def held_out(panel: str, choice: str, embedder: Embedder) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scores of cases inside and outside, by fold of the background's conditions."""
    w = written(panel)
    first, cases = apart(panel, choice)
    conditions = sorted(set(w.condition))
    fold = np.array([conditions.index(c) % FOLDS for c in w.condition])
    inside, outside = [], []
    for f in range(FOLDS):
        known, held = (pick(w.background, np.flatnonzero(m)) for m in (fold != f, fold == f))
        bank = replace(first, background=known)
        scores = ahead(Material.prepare(load_source(panel).panel, bank, embedder), (*cases, *held))
        inside.append(scores[: len(cases)])
        outside.append(scores[len(cases) :])
    return inside, outside


def calibrate(scores: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Slope and offset of log odds at even prior odds; every panel and both classes weigh the same."""

    def loss(v: np.ndarray) -> float:
        total = 0.0
        for inside, outside in scores:
            total -= np.log(np.maximum(expit(-(v[0] * inside + v[1])), 1e-12)).mean()
            total -= np.log(np.maximum(expit(v[0] * outside + v[1]), 1e-12)).mean()
        return total

    found = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead")
    return float(found.x[0]), float(found.x[1])


def answers(panel: str, choice: str, embedder: Embedder) -> np.ndarray:
    """Posteriors of those cases inside by the recipe fitted to the other bank."""
    first, cases = apart(panel, choice)
    material = Material.prepare(load_source(panel).panel, first, embedder)
    seen = observed(embedder, cases)
    return fit_method(material, Settings())(seen, Prior.uniform(len(first.labels)))[0].probabilities


def rise(posterior: np.ndarray, scores: np.ndarray, slope: float, offset: float, mass: float) -> float:
    share = expit(slope * scores + offset + logit(mass))[:, None]
    drawn = (1 - share) * posterior + share / posterior.shape[1]
    return float((entropy_bits(drawn) - entropy_bits(posterior)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedders", nargs="+", default=["wordllama", "wordllama+minilm"])
    arguments = parser.parse_args()
    embedders = [get_embedder(name) for name in arguments.embedders]
    rows = [row for e in embedders for panel in PACKAGED for row in judge(panel, e)]
    for r in rows:
        print(f"{r['embedder']:50} {r['panel']:22} {r['against']:18} {r['near']:.3f} {r['broad']:.3f}")
    choice = chosen(rows)
    shipped = {p: "+".join(path.stem for path in load_source(p).against) for p in PACKAGED}
    print("chosen", choice, "shipped", shipped)
    scores = {(e.id, p): held_out(p, choice[p], e) for e in embedders for p in PACKAGED}
    slope, offset = calibrate([(np.concatenate(i), np.concatenate(o)) for i, o in scores.values()])
    rises = []
    for e in embedders:
        for panel in PACKAGED:
            posterior = answers(panel, choice[panel], e)
            bits = {
                str(mass): float(
                    np.mean([rise(posterior, s, slope, offset, mass) for s in scores[e.id, panel][0]])
                )
                for mass in MASSES
            }
            rises.append({"embedder": e.id, "panel": panel, "bits": bits})
    allowed = [m for m in MASSES if all(r["bits"][str(m)] <= MOST_BITS for r in rises)]
    mass = max(allowed) if allowed else None
    print("slope", slope, "offset", offset, "mass", mass)
    record = {
        "command": "python benchmarks/outside_banks.py",
        "commit": current_commit(),
        "second_simulator": SECOND,
        "criterion": "mean AUROC, its near misses and its broad list against its texts of the labels",
        "rows": rows,
        "chosen": choice,
        "in_panel_files": shipped,
        "slope": slope,
        "offset": offset,
        "rise_of_cases_inside": rises,
        "prior_mass": mass,
        "shipped": {"slope": SLOPE, "offset": OFFSET, "prior_mass": PRIOR_MASS},
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outside_banks.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
