"""Is it only the cosine? Similarities alone against the ABC layer (table S12).

The paper normalises the cosine between a case and each class into a distribution and finds it as accurate as
D-SMC and far worse calibrated. The same here, with words (TF-IDF) and with embeddings, and once more with the
cosine put through a softmax at the kernel's own bandwidth, which uses no label either: if that alone mends
the calibration, the fault was in the normalisation and not in the cosine. M-SMC appears with its hard
threshold, as in the paper, and with the soft kernel: the same softmax over simulations instead of classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.experiments.paper.words import doubts, ours, theirs
from simdx.metrics import paired_bootstrap

ORDER = 400
NAME = "cosine-ablation"
METRICS = ("accuracy", "brier", "ece", "entropy_bits", "error_auroc")
# (name, the paper's name of it, method, kernel)
ROWS: tuple[tuple[str, str | None, str, Any], ...] = (
    ("TF-IDF cosine, normalised", "TF-IDF cosine", "tfidf", None),
    ("TF-IDF cosine, softmax", None, "tfidf", "soft"),
    ("embedding cosine, normalised", "sentence cosine", "centroid", None),
    ("embedding cosine, softmax", None, "centroid", "soft"),
    ("D-SMC", "D-SMC", "d-smc", None),
    ("M-SMC", "M-SMC", "m-smc", None),
    ("M-SMC, soft kernel", None, "m-smc", "soft"),
)


def run(context: Context) -> Finding:
    found = {
        panel: {name: context.scores(Spec(panel, method, kernel=kernel)) for name, _, method, kernel in ROWS}
        for panel in context.panels
    }
    gaps = {panel: _gap(context, panel) for panel in context.panels}
    return Finding(
        tables=tuple(_table(panel, scores) for panel, scores in found.items()),
        verdicts=tuple(line for p, scores in found.items() for line in _verdicts(p, scores, gaps[p])),
        n=context.n,
        models=("reference bank", *dict.fromkeys(context.embedder_name(Spec(p, "")) for p in found)),
        data={"scores": found, "d_smc_minus_cosine": gaps},
        notes=context.notes,
    )


def _gap(context: Context, panel: str) -> dict[str, Any]:
    """D-SMC minus the normalised embedding cosine, and on how many cases their answers differ."""
    cosine, d_smc = (context.probabilities(Spec(panel, m)) for m in ("centroid", "d-smc"))
    found = paired_bootstrap(
        cosine,
        d_smc,
        context.labels(panel),
        metrics=("accuracy", "brier", "ece"),
        resamples=context.size.paired_resamples,
        rng=context.rng(NAME, panel),
    )
    return {
        "answers_differ_on": int(np.sum(cosine.argmax(axis=1) != d_smc.argmax(axis=1))),
        **{name: {"value": d.difference, "ci": [d.low, d.high], "p": d.p_value} for name, d in found.items()},
    }


def _table(panel: str, scores: dict[str, dict[str, Any]]) -> Table:
    data = data_of_panel(panel)
    rows, quotes = [], []
    for name, paper, _, _ in ROWS:
        about = [None if paper is None else quote(NAME, q, data=data, method=paper) for q in ("brier", "ece")]
        quotes += about
        own = {metric: ours(scores[name], metric) for metric in METRICS}
        rows.append(
            (
                name, own["accuracy"], own["brier"], theirs(about[0], 2), own["ece"], theirs(about[1], 2),
                own["entropy_bits"], own["error_auroc"],
            )
        )  # fmt: skip
    return Table(
        panel,
        ("method", "accuracy", "Brier", "paper", "ECE", "paper", "entropy", "error AUROC"),
        tuple(rows),
        "95 % bootstrap over cases. " + doubts(quotes),
    )


def _verdicts(panel: str, scores: dict[str, dict[str, Any]], gap: dict[str, Any]) -> list[str]:
    plain, soft = scores["embedding cosine, normalised"], scores["embedding cosine, softmax"]
    m, d = scores["M-SMC"], scores["D-SMC"]
    level = gap["accuracy"]["p"] is None or gap["accuracy"]["p"] >= 0.05
    said = [
        f"{panel}: the embedding cosine and D-SMC answer differently on {gap['answers_differ_on']} of "
        f"{plain['n']} cases and their accuracies ({plain['accuracy']:.3f}, {d['accuracy']:.3f}) "
        + ("do not differ beyond chance, as in the paper." if level else "differ, unlike in the paper.")
    ]
    worse = plain["ece"] > m["ece"] and plain["brier"] > m["brier"]
    said.append(
        f"{panel}: normalised as they are, cosines have ECE {plain['ece']:.3f}, M-SMC {m['ece']:.3f}: "
        + ("the paper's finding holds. " if worse else "the paper's finding does not hold. ")
        + f"Through a softmax at the kernel's bandwidth, with no label used, the same cosines have ECE "
        f"{soft['ece']:.3f} and Brier {soft['brier']:.3f} (M-SMC {m['brier']:.3f}): "
        + f"the way of normalising accounts for {_share(plain['ece'], soft['ece'], m['ece'])} of that gap, "
        "and the ABC layer for no more than the rest."
    )
    return said


def _share(plain: float, soft: float, reference: float) -> str:
    """How much of the distance from the plain to the reference the softmax covers."""
    if plain <= reference:
        return "none"
    return f"{min(1.0, max(0.0, (plain - soft) / (plain - reference))):.0%}"
