"""Would more signs than the background make a better out-of-class probability? Asked of simulated text.

    python benchmarks/outside_choice.py --out results/recipe_choice

Three tasks, each with cases inside and outside a panel, none of them real:

near      a label is taken out of one bank; the other bank's texts of it are cases of none of these, its texts
          of the remaining labels are cases inside; every label in turn, both banks in either role
unseen    background conditions held out in five folds, against bank texts held out in five folds; writer and
          length are the same on both sides (the second bank of symptom-to-diagnosis is so much shorter than
          the background that counting words would win)
foreign   texts of the other panels against the second bank: unlike anything simulated for the panel

Every combination of signs is fitted on two panels and judged on the third by its log loss, both classes and
all tasks weighing the same. A combination replaces the background's odds alone only if log loss and AUROC
both improve with every embedder and no task loses more than .005 of AUROC. The prior mass is the largest
round one that raises the entropy of in-class answers by at most a tenth of a bit. No case of any data set is
read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.abc.typicality import Typicality
from simdx.bank.files import jsonl_rows, read_bank
from simdx.embedders import embed_cached, get_embedder
from simdx.experiments.records import current_commit
from simdx.methods.comparison import KERNEL_SHARE, Comparison
from simdx.methods.lexical import Lexicon
from simdx.methods.logistic import folds_by_label
from simdx.methods.material import Observations
from simdx.methods.outside import SHIPPED_ODDS
from simdx.methods.recipe import BANDWIDTH, pool
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source
from simdx.types import EmbeddedBank, Float, entropy_bits

SIGNS = ("background", "entropy", "rarity")
LEVEL = 0.05  # of typicality; above it a case is as usual as the simulations themselves
TASKS = ("near", "unseen", "foreign")
FOLDS = 5
EVERY = 4  # of the foreign texts, one in so many
MASSES = (0.01, 0.02, 0.05, 0.1, 0.2)
RISE_BITS = 0.1
MOST_LOST = 0.005
COMBINATIONS = (
    ("background",),
    ("background", "entropy"),
    ("background", "rarity"),
    ("background", "entropy", "rarity"),
    ("background", "entropy", "log_typicality"),
    ("background", "entropy", "rarity_joint"),
    ("background", "entropy", "rarity_embedded"),
)
NAMES = (*SIGNS, "log_typicality", "rarity_joint", "rarity_embedded")
Texts = tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """A panel's simulated texts: two banks and the background, with label indices and conditions."""

    banks: tuple[Texts, Texts]
    labels: tuple[np.ndarray, np.ndarray]
    background: Texts
    condition: tuple[str, ...]
    n_labels: int


@dataclass(frozen=True)
class Split:
    """Signs (n, len(NAMES)) of pseudo-cases, and which of them are of none of the labels."""

    signs: np.ndarray
    out: np.ndarray


def written(name: str) -> Written:
    source = load_source(name)
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    rows = [row for _, row in jsonl_rows(source.folder / "background.jsonl")]
    return Written(
        (first.texts, second.texts),
        (first.label_index, second.label_index),
        tuple(row["text"] for row in rows),
        tuple(row["condition"] for row in rows),
        len(source.panel.names),
    )


class Embedded:
    """Every simulated text embedded once; the tasks take theirs from here."""

    def __init__(self, name: str) -> None:
        embedder = get_embedder(name)
        self.id, self.blocks = embedder.id, embedder.blocks
        self._row: dict[str, np.ndarray] = {}
        for w in map(written, PACKAGED):
            for texts in (*w.banks, w.background):
                self._row.update(zip(texts, embed_cached(embedder, texts), strict=True))

    def of(self, texts: Texts) -> np.ndarray:
        return np.stack([self._row[text] for text in texts])


def pick(texts: Sequence[str], rows: np.ndarray) -> Texts:
    return tuple(texts[i] for i in rows)


@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """The signs that a case belongs to no label.

    background  how much better the background bank explains the case than the best label
    entropy     bits of the posterior over the labels under an even prior
    rarity      how far the case's typicality in the lexical space of the labels' simulations lies below its
                level, on a log scale
    """

    comparison: Comparison  # the labels, and the background as one more
    typicality: Typicality

    @classmethod
    def fit(cls, comparison: Comparison) -> Complement:
        labelled = comparison.label_index < comparison.n_labels - 1
        return cls(comparison, Typicality.fit(comparison.lexical.bank[labelled].astype(np.float32)))

    def signs(self, observations: Observations, prior: Prior) -> Float:
        """(N, 3) in the order of `SIGNS`."""
        c = self.comparison
        lexical, joint = c.observe(observations)
        summary, kernel = c.summary(lexical), c.kernel(joint)
        score = summary + KERNEL_SHARE * kernel
        background = score[:, -1] - score[:, :-1].max(axis=1)
        among = pool(summary[:, :-1], kernel[:, :-1], prior.probabilities)
        return np.column_stack([background, entropy_bits(among), rarity(self.typicality.p_value(lexical))])


def rarity(typicality: Float) -> Float:
    """Zero down to the level, then the logarithm of how many times smaller the typicality is."""
    return np.maximum(0.0, np.log(LEVEL / typicality))


def complement(embedder: Embedded, texts: Texts, label: np.ndarray, background: Texts) -> Complement:
    """The signs fitted to these simulations; absent labels leave no gap in the index."""
    _, index = np.unique(label, return_inverse=True)
    k = int(index.max()) + 1
    both = (*texts, *background)
    bank = EmbeddedBank(
        embedder.of(both),
        np.concatenate([index, np.full(len(background), k)]),
        k + 1,
        embedder.blocks,
    )
    return Complement.fit(
        Comparison.fit(Lexicon(both), both, bank, bandwidth=BANDWIDTH, self_consistent=False)
    )


def observed(embedder: Embedded, texts: Texts) -> Observations:
    return Observations(texts, embedder.of(texts), tuple(range(len(texts))))


def split(fitted: Complement, embedder: Embedded, inside: Texts, outside: Texts) -> Split:
    cases = observed(embedder, (*inside, *outside))
    c = fitted.comparison
    signs = fitted.signs(cases, Prior.uniform(c.n_labels - 1))
    labelled = c.label_index < c.n_labels - 1
    lexical, joint = c.observe(cases)
    others = [
        -np.log(Typicality.fit(c.lexical.bank[labelled]).p_value(lexical)),
        rarity(Typicality.fit(c.bank[labelled]).p_value(joint)),
        rarity(Typicality.fit(c.space.bank[labelled]).p_value(c.space.transform(cases.vectors))),
    ]
    out = np.arange(len(cases.texts)) >= len(inside)
    return Split(np.column_stack([signs, *others]), out)


def near(w: Written, embedder: Embedded) -> Iterator[Split]:
    for fit, judge in ((0, 1), (1, 0)):
        for y in range(w.n_labels):
            kept = np.flatnonzero(w.labels[fit] != y)
            fitted = complement(embedder, pick(w.banks[fit], kept), w.labels[fit][kept], w.background)
            is_out = w.labels[judge] == y
            yield split(
                fitted,
                embedder,
                pick(w.banks[judge], np.flatnonzero(~is_out)),
                pick(w.banks[judge], np.flatnonzero(is_out)),
            )


def unseen(w: Written, embedder: Embedded) -> Iterator[Split]:
    conditions = sorted(set(w.condition))
    of_background = np.array([conditions.index(c) % FOLDS for c in w.condition])
    of_bank = folds_by_label(w.labels[0], FOLDS, seed=0)
    for fold in range(FOLDS):
        kept = np.flatnonzero(of_bank != fold)
        known = pick(w.background, np.flatnonzero(of_background != fold))
        fitted = complement(embedder, pick(w.banks[0], kept), w.labels[0][kept], known)
        yield split(
            fitted,
            embedder,
            pick(w.banks[0], np.flatnonzero(of_bank == fold)),
            pick(w.background, np.flatnonzero(of_background == fold)),
        )


def foreign(w: Written, others: Sequence[Written], embedder: Embedded) -> Iterator[Split]:
    fitted = complement(embedder, w.banks[0], w.labels[0], w.background)
    texts = tuple(t for o in others for part in (*o.banks, o.background) for t in part[::EVERY])
    yield split(fitted, embedder, w.banks[1], texts)


def all_splits(embedder: Embedded) -> dict[str, dict[str, list[Split]]]:
    panels = {name: written(name) for name in PACKAGED}
    return {
        name: {
            "near": list(near(w, embedder)),
            "unseen": list(unseen(w, embedder)),
            "foreign": list(foreign(w, [o for n, o in panels.items() if n != name], embedder)),
        }
        for name, w in panels.items()
    }


# --------------------------------------------------------------------------- fitting and judging


def fit(splits: Sequence[tuple[Split, float]], columns: Sequence[int]) -> tuple[np.ndarray, float]:
    """Weights and offset of the log odds at an even chance; both classes share a split's weight."""
    x = np.concatenate([s.signs[:, columns] for s, _ in splits])
    out = np.concatenate([s.out for s, _ in splits])
    w = np.concatenate([np.where(s.out, 0.5 / s.out.sum(), 0.5 / (~s.out).sum()) * v for s, v in splits])
    scale = x.std(axis=0)
    sign = np.where(out, 1.0, -1.0)

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (x / scale @ b[1:] + b[0])
        slope = -w * sign * expit(-margin)
        return float(w @ np.logaddexp(0, -margin)), np.concatenate([[slope.sum()], (x / scale).T @ slope])

    found = minimize(loss, np.zeros(len(columns) + 1), jac=True, method="L-BFGS-B").x
    return found[1:] / scale, float(found[0])


def weighted(splits: dict[str, list[Split]]) -> list[tuple[Split, float]]:
    return [(s, 1 / len(splits[task])) for task in TASKS for s in splits[task]]


def judge(
    by_panel: dict[str, dict[str, list[Split]]], columns: Sequence[int]
) -> dict[str, dict[str, dict[str, float]]]:
    """panel -> task -> log loss and AUROC of the combination fitted on the other panels."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, tasks in by_panel.items():
        weights, offset = fit([s for n, t in by_panel.items() if n != name for s in weighted(t)], columns)
        found[name] = {}
        for task in TASKS:
            losses, areas = [], []
            for s in tasks[task]:
                odds = s.signs[:, columns] @ weights + offset
                inside, outside = np.logaddexp(0, odds[~s.out]), np.logaddexp(0, -odds[s.out])
                losses.append((inside.mean() + outside.mean()) / 2)
                areas.append(auroc(odds, s.out).value)
            found[name][task] = {"log_loss": float(np.mean(losses)), "auroc": float(np.mean(areas))}
    return found


def mean_of(found: dict[str, dict[str, dict[str, float]]], what: str, task: str | None = None) -> float:
    return float(np.mean([t[what] for p in found.values() for n, t in p.items() if task in (None, n)]))


def entropies(
    embedder: Embedded, weights: np.ndarray, offset: float
) -> dict[float, dict[str, dict[str, float]]]:
    """prior mass -> panel -> the rise of the entropy of in-class answers (bank_b, fitted to the first bank)
    and the entropy of answers to held-out background conditions as a share of the most there could be."""
    found: dict[float, dict[str, dict[str, float]]] = {mass: {} for mass in MASSES}
    for name in PACKAGED:
        w = written(name)
        even = Prior.uniform(w.n_labels)

        def answers(known: Texts, cases: Texts, w: Written = w, p: Prior = even) -> tuple[np.ndarray, ...]:
            fitted = complement(embedder, w.banks[0], w.labels[0], known)
            seen, c = observed(embedder, cases), fitted.comparison
            lexical, joint = c.observe(seen)
            inside = pool(c.summary(lexical)[:, :-1], c.kernel(joint)[:, :-1], p.probabilities)
            return inside, fitted.signs(seen, p) @ weights + offset

        def bits(inside: np.ndarray, odds: np.ndarray, mass: float, p: Prior = even) -> np.ndarray:
            q = expit(odds + logit(mass))[:, None]
            return entropy_bits((1 - q) * inside + q * p.probabilities)

        conditions = sorted(set(w.condition))
        fold = np.array([conditions.index(c) % FOLDS for c in w.condition])
        held = [
            answers(
                pick(w.background, np.flatnonzero(fold != k)), pick(w.background, np.flatnonzero(fold == k))
            )
            for k in range(FOLDS)
        ]
        own = answers(w.background, w.banks[1])
        for mass in MASSES:
            others = np.concatenate([bits(*part, mass) for part in held])
            found[mass][name] = {
                "in_class_rise_bits": float((bits(*own, mass) - entropy_bits(own[0])).mean()),
                "out_of_class_share": float(others.mean() / np.log2(w.n_labels)),
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedders", nargs="+", default=["wordllama", "wordllama+minilm"])
    arguments = parser.parse_args()
    embedders = {name: Embedded(name) for name in arguments.embedders}
    splits = {name: all_splits(e) for name, e in embedders.items()}
    table: list[dict[str, Any]] = []
    for names in COMBINATIONS:
        columns = [NAMES.index(n) for n in names]
        row: dict[str, Any] = {"signs": names}
        for embedder, by_panel in splits.items():
            found = judge(by_panel, columns)
            row[embedder] = {
                "log_loss": mean_of(found, "log_loss"),
                "auroc": mean_of(found, "auroc"),
                "auroc_by_task": {task: mean_of(found, "auroc", task) for task in TASKS},
                "by_panel": found,
            }
        first = table[0] if table else row
        row["admissible"] = all(
            row[e]["log_loss"] < first[e]["log_loss"]
            and row[e]["auroc"] > first[e]["auroc"]
            and all(row[e]["auroc_by_task"][t] > first[e]["auroc_by_task"][t] - MOST_LOST for t in TASKS)
            for e in splits
        )
        table.append(row)
        shown = [
            f"{e}: {row[e]['log_loss']:.4f} {row[e]['auroc']:.4f} "
            + " ".join(f"{t} {row[e]['auroc_by_task'][t]:.3f}" for t in TASKS)
            for e in splits
        ]
        print(f"{'+'.join(names):38} {row['admissible']!s:6}", "  ".join(shown), flush=True)
    everything = [s for by_panel in splits.values() for t in by_panel.values() for s in weighted(t)]
    weights, offset = fit(everything, range(len(SIGNS)))
    pairs = {name: entropies(e, weights, offset) for name, e in embedders.items()}
    rise = {
        mass: float(np.mean([v["in_class_rise_bits"] for p in pairs.values() for v in p[mass].values()]))
        for mass in MASSES
    }
    mass = max(m for m in MASSES if rise[m] <= RISE_BITS)
    record = {
        "command": "python benchmarks/outside_choice.py",
        "commit": current_commit(),
        "embedders": {name: e.id for name, e in embedders.items()},
        "criterion": "mean over panels and tasks of the balanced log loss, fitted on the other panels",
        "combinations": table,
        "fitted": {"signs": SIGNS, "weights": weights.tolist(), "offset": offset, "prior_mass": mass},
        "mean_in_class_rise_bits": {str(m): r for m, r in rise.items()},
        "entropies": {name: {str(m): found for m, found in p.items()} for name, p in pairs.items()},
        "shipped": asdict(SHIPPED_ODDS),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outside.json").write_text(json.dumps(record, indent=1) + "\n")
    print("fitted", dict(zip(SIGNS, weights.round(3), strict=True)), "offset", round(offset, 3))
    print("in-class rise in bits by prior mass", {m: round(r, 3) for m, r in rise.items()}, "->", mass)


if __name__ == "__main__":
    main()
