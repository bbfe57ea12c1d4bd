"""None of these under another writer's style: what belongs beside the background? Asked of simulated text.

    python benchmarks/outside_shift.py --out results/recipe_choice

`outside_choice.py` judges by texts of the writer the panel was made with; real cases are by others. Here the
cases are by a second simulator on both sides: what Qwen2.5-Coder-1.5B wrote for the labels (results/banks)
and for other conditions (results/banks/backgrounds): near misses it named itself, and the broad list. No case
of any data set is read. Three questions:

signs       does any sign beside the background's odds lower the log loss, fitted on two panels and judged on
            the third?
background  do these texts, put into the background (and the label texts into the bank, so that style says
            nothing), raise the AUROC on the packaged texts: a label left out of one bank and met in the
            other, or background conditions held out?
strange     how far do texts of the register, by three writers, lie from everyday texts on the scale of
            `simdx.methods.novelty`? Slope and offset of the shipped probability come from here
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from outside_choice import (
    FOLDS,
    Embedded,
    Texts,
    observed,
    pick,
    rarity,
    written,
)
from scipy.optimize import minimize
from scipy.special import expit, logit

from simdx.abc.typicality import Typicality
from simdx.bank.files import jsonl_rows, packaged_bank, read_bank
from simdx.embedders import embed_cached, get_embedder
from simdx.experiments.records import current_commit
from simdx.methods.background import Opposition
from simdx.methods.comparison import BANDWIDTH, Comparison
from simdx.methods.lexical import Lexicon
from simdx.methods.material import Material, Observations
from simdx.methods.novelty import Novelty
from simdx.methods.outside import NOVELTY_MASS, NOVELTY_OFFSET, NOVELTY_SLOPE
from simdx.methods.recipe import pool
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source
from simdx.types import EmbeddedBank, entropy_bits

SECOND, THIRD = "qwen2.5-coder-1.5b", "smollm2"
BANKS = Path("results/banks")
LISTS = ("near", "broad")
MOST = 600  # texts of one kind; more say nothing new
COMBINATIONS = (
    ("background",),
    ("background", "entropy"),
    ("background", "rarity"),
    ("background", "log_typicality"),
    ("background", "entropy", "rarity"),
    ("background", "entropy", "log_typicality"),
    ("background", "entropy", "rarity_lexical"),
    ("summary", "kernel"),
    ("summary", "kernel", "entropy", "log_typicality"),
)
SHARES = (0.2, 0.5, 0.8)  # of the second simulator's texts within a label or the background
Signs = dict[str, np.ndarray]


def texts_of(path: Path) -> Texts:
    return tuple(row["text"] for _, row in jsonl_rows(path))


def second_bank(panel: str, writer: str) -> tuple[Texts, np.ndarray]:
    """At most so many texts of a simulator's own bank, evenly over its labels, with their labels."""
    bank = read_bank(BANKS / f"{panel}-{writer}" / "bank.jsonl", load_source(panel).panel)
    rows = np.arange(0, len(bank.texts), max(1, -(-len(bank.texts) // MOST)))
    return pick(bank.texts, rows), bank.label_index[rows]


def second_background(panel: str, kind: str) -> Texts:
    texts = texts_of(BANKS / "backgrounds" / f"{panel}-{SECOND}-{kind}.jsonl")
    return texts[:: max(1, -(-len(texts) // MOST))]


class Everything(Embedded):
    """The packaged texts and the second simulator's, embedded once."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.embedder = get_embedder(name)
        for panel in PACKAGED:
            self.add(second_bank(panel, SECOND)[0])
            for kind in LISTS:
                self.add(second_background(panel, kind))

    def add(self, texts: Texts) -> None:
        self._row.update(zip(texts, embed_cached(self.embedder, texts), strict=True))


# --------------------------------------------------------------------------- signs beside the background


def signs(opposition: Opposition, embedder: Everything, texts: Texts) -> Signs:
    seen, c, k = observed(embedder, texts), opposition.comparison, opposition.n_labels
    lexical, joint = c.observe(seen)
    summary, kernel = opposition.scores(seen)
    labelled = c.label_index < k
    p_joint = Typicality.fit(c.bank[labelled]).p_value(joint)
    p_lexical = Typicality.fit(np.float32(c.lexical.bank[labelled])).p_value(np.float32(lexical))
    return {
        "background": _gap(opposition.folded(summary + kernel)),
        "summary": _gap(opposition.folded(summary)),
        "kernel": _gap(opposition.folded(kernel)),
        "entropy": entropy_bits(pool(summary[:, :k], kernel[:, :k], np.full(k, 1 / k))),
        "log_typicality": -np.log(p_joint),
        "rarity": rarity(p_joint),
        "rarity_lexical": rarity(p_lexical),
    }


def _gap(score: np.ndarray) -> np.ndarray:
    return score[:, -1] - score[:, :-1].max(axis=1)


Split = tuple[Signs, np.ndarray]


def splits_of(panel: str, embedder: Everything) -> list[Split]:
    """Second-simulator texts of the labels against its near misses, and against its broad list."""
    source = load_source(panel)
    opposition = Opposition.fit(Material.prepare(source.panel, packaged_bank(source), embedder.embedder))
    if opposition is None:
        raise SystemExit(f"{panel} has no background")
    inside = signs(opposition, embedder, second_bank(panel, SECOND)[0])
    found = []
    for kind in LISTS:
        outside = signs(opposition, embedder, second_background(panel, kind))
        together = {name: np.concatenate([inside[name], outside[name]]) for name in inside}
        n = len(inside["background"])
        found.append((together, np.arange(len(together["background"])) >= n))
    return found


def fit(x: np.ndarray, out: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Offset and weights of the log odds, maximum likelihood."""
    scale = np.maximum(x.std(axis=0), 1e-9)
    sign = np.where(out, 1.0, -1.0)

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (x / scale @ b[1:] + b[0])
        slope = -weight * sign * expit(-margin)
        return float(weight @ np.logaddexp(0, -margin)), np.concatenate(
            [[slope.sum()], (x / scale).T @ slope]
        )

    start = np.zeros(x.shape[1] + 1)
    b = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-15}).x
    return np.concatenate([b[:1], b[1:] / scale])


def balanced(out: np.ndarray) -> np.ndarray:
    return np.where(out, 0.5 / out.sum(), 0.5 / (~out).sum())


def judge_signs(by_panel: dict[str, list[Split]], names: tuple[str, ...]) -> dict[str, Any]:
    losses, areas = [], []
    for panel, held in by_panel.items():
        known = [s for other, splits in by_panel.items() if other != panel for s in splits]
        b = fit(
            np.concatenate([_columns(s, names) for s, _ in known]),
            np.concatenate([out for _, out in known]),
            np.concatenate([balanced(out) for _, out in known]),
        )
        for s, out in held:
            odds = _columns(s, names) @ b[1:] + b[0]
            losses.append(float(balanced(out) @ np.logaddexp(0, np.where(out, -odds, odds))))
            areas.append(auroc(odds, out).value)
    return {"signs": names, "log_loss": float(np.mean(losses)), "auroc": float(np.mean(areas))}


def _columns(s: Signs, names: tuple[str, ...]) -> np.ndarray:
    return np.column_stack([s[name] for name in names])


# --------------------------------------------------------------------------- more background


def judge_background(panel: str, embedder: Everything) -> list[dict[str, Any]]:
    """AUROC on packaged texts with the second simulator's in bank and background, by their share."""
    rows = []
    settings: list[tuple[str, tuple[str, ...], float, bool]] = [("packaged", (), 0.5, False)]
    settings += [("near misses alone", ("near",), 0.5, False)]
    settings += [(f"both, share {share:g}", LISTS, share, True) for share in SHARES]
    for name, kinds, share, with_labels in settings:
        more = tuple(t for kind in kinds for t in second_background(panel, kind))
        own = second_bank(panel, SECOND) if with_labels else ((), np.zeros(0, dtype=np.int64))
        near, unseen = _near(panel, embedder, own, more, share), _unseen(panel, embedder, own, more, share)
        rows.append({"panel": panel, "texts": name, "near": near, "unseen": unseen})
    return rows


def _widened(
    embedder: Everything, texts: Texts, label: np.ndarray, background: Texts,
    own: tuple[Texts, np.ndarray], more: Texts, share: float,
) -> Comparison:  # fmt: skip
    k = int(label.max()) + 1
    everything = (*texts, *own[0], *background, *more)
    n_other = len(background) + len(more)
    index = np.concatenate([label, own[1], np.full(n_other, k)]).astype(np.int64)
    second = np.repeat([False, True, False, True], [len(texts), len(own[0]), len(background), len(more)])
    weight = np.ones(len(everything))
    for y in range(k + 1):
        theirs, packaged = (index == y) & second, (index == y) & ~second
        if theirs.any():
            weight[theirs] = share / (1 - share) * packaged.sum() / theirs.sum()
    bank = EmbeddedBank(embedder.of(everything), index, k + 1, embedder.blocks)
    return Comparison.fit(
        Lexicon(everything), everything, bank, bandwidth=BANDWIDTH, self_consistent=False, weight=weight
    )


def _area(c: Comparison, embedder: Everything, inside: Texts, outside: Texts) -> float:
    lexical, joint = c.observe(observed(embedder, (*inside, *outside)))
    odds = _gap(c.summary(lexical) + c.kernel(joint))
    return auroc(odds, np.arange(len(odds)) >= len(inside)).value


def _near(
    panel: str, embedder: Everything, own: tuple[Texts, np.ndarray], more: Texts, share: float
) -> float:
    w, found = written(panel), []
    for known, other in ((0, 1), (1, 0)):
        for y in range(w.n_labels):

            def without(texts: Texts, label: np.ndarray, y: int = y) -> tuple[Texts, np.ndarray]:
                kept = np.flatnonzero(label != y)
                return pick(texts, kept), np.where(label[kept] > y, label[kept] - 1, label[kept])

            texts, label = without(w.banks[known], w.labels[known])
            c = _widened(embedder, texts, label, w.background, without(*own), more, share)
            is_out = w.labels[other] == y
            inside, outside = (pick(w.banks[other], np.flatnonzero(m)) for m in (~is_out, is_out))
            found.append(_area(c, embedder, inside, outside))
    return float(np.mean(found))


def _unseen(
    panel: str, embedder: Everything, own: tuple[Texts, np.ndarray], more: Texts, share: float
) -> float:
    w, found = written(panel), []
    conditions = sorted(set(w.condition))
    fold = np.array([conditions.index(c) % FOLDS for c in w.condition])
    for f in range(FOLDS):
        known = pick(w.background, np.flatnonzero(fold != f))
        c = _widened(embedder, w.banks[0], w.labels[0], known, own, more, share)
        found.append(_area(c, embedder, w.banks[1], pick(w.background, np.flatnonzero(fold == f))))
    return float(np.mean(found))


# --------------------------------------------------------------------------- strangeness


def strangeness_of(panel: str, embedder: Everything) -> dict[str, np.ndarray]:
    """Whose texts -> their strangeness; the last are everyday texts, the others of the register."""
    source = load_source(panel)
    whole = packaged_bank(source)
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    fitted = Novelty.fit(Material.prepare(source.panel, whole, embedder.embedder))
    half = replace(first, background=whole.background)
    from_first = Novelty.fit(Material.prepare(source.panel, half, embedder.embedder))
    if fitted is None or from_first is None:
        raise SystemExit(f"{panel}: everyday texts lie no farther than the simulations")
    groups = {
        SECOND: second_bank(panel, SECOND)[0],
        THIRD: second_bank(panel, THIRD)[0],
        **{f"{SECOND}, {kind}": second_background(panel, kind) for kind in LISTS},
        "everyday": texts_of(BANKS / "backgrounds" / f"everyday-{THIRD}.jsonl"),
    }

    def seen(texts: Texts) -> Observations:
        return Observations(texts, embed_cached(embedder.embedder, texts), tuple(range(len(texts))))

    found = {"bank_b": from_first.of(seen(second.texts))}
    return found | {name: fitted.of(seen(texts)) for name, texts in groups.items()}


def fit_strangeness(groups: list[dict[str, np.ndarray]]) -> tuple[float, float]:
    """Slope and offset; everyday texts weigh as much as all of the register, every writer there the same."""
    x, out, weight = [], [], []
    for found in groups:
        for name, values in found.items():
            is_out = name == "everyday"
            x.append(values)
            out.append(np.full(len(values), is_out))
            weight.append(np.full(len(values), (1.0 if is_out else 1 / (len(found) - 1)) / len(values)))
    b = fit(np.concatenate(x)[:, None], np.concatenate(out), np.concatenate(weight))
    return float(b[1]), float(b[0])


def strange(embedders: dict[str, Everything]) -> dict[str, Any]:
    found = {(name, p): strangeness_of(p, e) for name, e in embedders.items() for p in PACKAGED}
    slope, offset = fit_strangeness(list(found.values()))
    rows = []
    for (name, panel), groups in found.items():
        others = [g for (_, p), g in found.items() if p != panel]
        a, b = fit_strangeness(others)
        for who, values in groups.items():
            q = expit(a * values + b + logit(NOVELTY_MASS))
            rows.append(
                {
                    "embedder": name,
                    "panel": panel,
                    "texts": who,
                    "n": len(values),
                    "strangeness": {
                        f"q{int(100 * p)}": float(np.quantile(values, p)) for p in (0.05, 0.5, 0.95)
                    },
                    "mean_probability": float(q.mean()),
                    "share_above_half": float((q > 0.5).mean()),
                }
            )
    return {
        "fitted": {"slope": slope, "offset": offset},
        "shipped": {"slope": NOVELTY_SLOPE, "offset": NOVELTY_OFFSET, "prior_mass": NOVELTY_MASS},
        "judged_with_the_other_panels_constants": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedders", nargs="+", default=["wordllama", "wordllama+minilm"])
    arguments = parser.parse_args()
    embedders = {name: Everything(name) for name in arguments.embedders}
    record: dict[str, Any] = {
        "command": "python benchmarks/outside_shift.py",
        "commit": current_commit(),
        "embedders": {name: e.id for name, e in embedders.items()},
        "writers": {"second": SECOND, "third": THIRD},
        "signs": {},
        "background": {},
    }
    record["strange"] = strange(embedders)
    print("strangeness", record["strange"]["fitted"], flush=True)
    for row in record["strange"]["judged_with_the_other_panels_constants"]:
        print(f"  {row['embedder']:18} {row['panel']:22} {row['texts']:28} {row['mean_probability']:.4f}")
    for name, e in embedders.items():
        by_panel = {panel: splits_of(panel, e) for panel in PACKAGED}
        record["signs"][name] = [judge_signs(by_panel, names) for names in COMBINATIONS]
        for row in record["signs"][name]:
            print(
                f"{name:18} {'+'.join(row['signs']):44} {row['log_loss']:.4f} {row['auroc']:.4f}", flush=True
            )
    name, e = next(iter(embedders.items()))  # the default one: forty fits a panel take a quarter of an hour
    record["background"][name] = [row for panel in PACKAGED for row in judge_background(panel, e)]
    for row in record["background"][name]:
        print(f"{name:18} {row['panel']:22} {row['texts']:20} {row['near']:.4f} {row['unseen']:.4f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outside_shift.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
