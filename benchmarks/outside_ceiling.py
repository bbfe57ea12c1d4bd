"""How well could out-of-class cases be told apart, if labels were allowed? A ceiling, not a method.

    python benchmarks/outside_ceiling.py --out results/recipe_choice

The shipped out-of-class probability is compared, on the labelled evaluation cases, with what nobody may ship:

supervised  a logistic regression that is told which cases are out of class (ten folds), on everything the
            shipped comparisons compute: every label's and the background's log-likelihood, by summary and by
            kernel
entropy     the pair "mean entropy of out-of-class answers as a share of the most there could be, for an
            in-class rise of at most a tenth of a bit": as shipped, and with the best threshold, chosen on
            these very cases, above which an answer is simply the prior: nearly the most that any mixing of
            prior and posterior by this order of the cases can gain
offsets     the shipped log odds plus the best constant for every predicted label, chosen on these cases
banks       what every choice of the banks that stand against the background gives (`outside_banks.py`
            chooses without labels)

It says how much of what is missing lies in the simulated texts and how much in the way they are compared.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from outside_banks import CHOICES
from outside_choice import written
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.embedders.base import Embedder
from simdx.experiments.records import current_commit
from simdx.fitting import fit_method
from simdx.methods.background import Opposition
from simdx.methods.fitted import Settings
from simdx.methods.material import Material, Observations
from simdx.methods.odds import Rehearsed, fit_odds
from simdx.methods.outside import SHIPPED_ODDS
from simdx.metrics import auroc
from simdx.panels import PACKAGED, load_source
from simdx.types import BackgroundOdds, entropy_bits

FILES = {
    "oral-lesions": ("oral/vignettes.jsonl", "oral/ood.jsonl"),
    "symptom-to-diagnosis": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "case-reports": ("pmc/cases.jsonl", "pmc/ood.jsonl"),
}
RISE_BITS = 0.1
SHIFTS = np.arange(-6, 6.1, 0.5)


def ceiling(panel: str, data: Path, embedder: Embedder) -> dict[str, Any]:
    source = load_source(panel)
    material = Material.prepare(source.panel, packaged_bank(source), embedder)
    k = len(source.panel.names)
    inside, outside = (tuple(read_cases(data / f, labelled=False).texts) for f in FILES[panel])
    cases = material.observe((*inside, *outside))
    against, among = Opposition.fit(material), fit_method(material, Settings())
    if against is None:
        raise SystemExit(f"{panel} has no background")
    summary, kernel = against.scores(cases)
    out = np.arange(len(summary)) >= len(inside)
    score = against.folded(summary + kernel)
    odds = score[:, -1] - score[:, :-1].max(axis=1)
    posterior = among(cases, Prior.uniform(k))[0].probabilities
    everything = np.concatenate([against.folded(summary), against.folded(kernel)], axis=1)
    told = cross_val_predict(
        LogisticRegression(C=10, max_iter=5000), everything, out, cv=10, method="decision_function"
    )
    return {
        "panel": panel,
        "n_in": len(inside),
        "n_out": len(outside),
        "auroc": {
            "background": auroc(odds, out).value,
            "supervised on all scores": auroc(told, out).value,
            "best offset per predicted label": best_offsets(odds, score[:, :-1].argmax(axis=1), out),
        },
        "odds": asdict(fit_odds([Rehearsed("labelled", odds[~out], odds[out], posterior[~out])]).odds),
        "banks_against": by_banks(material, cases, out),
        "entropy_pair": {
            "shipped": shipped_pair(posterior, odds, out, material.bank.odds or SHIPPED_ODDS),
            "best threshold": best_pair(posterior, odds, out),
            "best threshold, supervised": best_pair(posterior, told, out),
        },
    }


def by_banks(material: Material, cases: Observations, out: np.ndarray) -> dict[str, float]:
    part = np.repeat([0, 1], [len(texts) for texts in written(material.panel.name).banks])
    every = np.ones(len(material.panel.names), dtype=bool)
    found = {}
    for name, parts in CHOICES.items():
        bank = replace(material.bank, against=np.isin(part, parts))
        opposition = Opposition.fit(replace(material, bank=bank))
        if opposition is not None:
            found[name] = auroc(opposition.ahead(cases, every), out).value
    return found


def best_offsets(odds: np.ndarray, predicted: np.ndarray, out: np.ndarray) -> float:
    shift = np.zeros(int(predicted.max()) + 1)
    for _ in range(3):
        for y in range(len(shift)):
            tried = [np.where(np.arange(len(shift)) == y, s, shift) for s in SHIFTS]
            shift = max(tried, key=lambda t: auroc(odds + t[predicted], out).value)
    return auroc(odds + shift[predicted], out).value


def shipped_pair(
    posterior: np.ndarray, ahead: np.ndarray, out: np.ndarray, odds: BackgroundOdds
) -> dict[str, float]:
    share = expit(odds.slope * ahead + odds.offset + logit(odds.prior))[:, None]
    drawn = (1 - share) * posterior + share / posterior.shape[1]
    rise = entropy_bits(drawn) - entropy_bits(posterior)
    most = np.log2(posterior.shape[1])
    return {"share": float(entropy_bits(drawn)[out].mean() / most), "rise_bits": float(rise[~out].mean())}


def best_pair(posterior: np.ndarray, score: np.ndarray, out: np.ndarray) -> dict[str, float]:
    """The prior above a threshold, the posterior below; the lowest threshold the rise allows."""
    most = np.log2(posterior.shape[1])
    bits = entropy_bits(posterior)
    order = np.argsort(-score)
    gain = most - bits[order]
    rise = np.cumsum(np.where(out[order], 0, gain)) / (~out).sum()
    share = (bits[out].sum() + np.cumsum(np.where(out[order], gain, 0))) / out.sum() / most
    allowed = np.flatnonzero(rise <= RISE_BITS)
    if not allowed.size:
        return {"share": float(bits[out].mean() / most), "rise_bits": 0.0}
    return {"share": float(share[allowed[-1]]), "rise_bits": float(rise[allowed[-1]])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/recipe_choice"))
    parser.add_argument("--embedders", nargs="+", default=["wordllama", "wordllama+minilm"])
    arguments = parser.parse_args()
    rows = []
    for name in arguments.embedders:
        embedder = get_embedder(name)
        for panel in PACKAGED:
            row = {"embedder": embedder.id, **ceiling(panel, arguments.data, embedder)}
            rows.append(row)
            print(
                json.dumps({k: row[k] for k in ("panel", "auroc", "banks_against", "entropy_pair")}),
                flush=True,
            )
    record = {"command": "python benchmarks/outside_ceiling.py", "commit": current_commit(), "rows": rows}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outside_ceiling.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
