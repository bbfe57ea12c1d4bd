"""Network against D-SMC, case by case.

The reference is D-SMC on the exact engine with at least 2,000 accepted draws, run under two seeds: what
the two seeds disagree on, no network can be asked to know. Both posteriors are condensed to a Dirichlet
by the moments of all components; for a network that already answers with a Dirichlet, that is its own.
Bits are each method's own: from the accepted draws for D-SMC, in closed form for the network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from simdx.abc import exact
from simdx.abc.atoms import Bool
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import Network
from simdx.errors import BadInput
from simdx.types import Float, Int, SecondOrder

DRAWS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Fidelity:
    """N cases answered by both. `again` is D-SMC under another seed."""

    dsmc: SecondOrder
    again: SecondOrder
    abi: SecondOrder
    kl: Float  # (N,) nats, of the network's Dirichlet from D-SMC's
    draws: int

    @property
    def agree(self) -> Bool:
        return self.dsmc.mean.argmax(axis=1) == self.abi.mean.argmax(axis=1)


def compare(
    network: Network, space: Space, vectors: Float, prior: Prior, *, draws: int = DRAWS, seed: int = 0
) -> Fidelity:
    """Both methods on raw embeddings."""
    if len(vectors) == 0:
        raise BadInput("there are no cases to compare on")
    z = space.transform(vectors)
    abi = network.second_order(z, prior)
    runs = []
    for own_seed in (seed, seed + 1):
        posterior = exact.dirichlet(
            space.class_means, z, prior, seed=own_seed, draws=draws, populations=network.card.populations
        )
        assert posterior.second_order is not None
        runs.append(posterior.second_order)
    kl = dirichlet_kl(alpha_of(runs[0]), alpha_of(abi), prior.probabilities > 0)
    return Fidelity(runs[0], runs[1], abi, kl, draws)


def alpha_of(second: SecondOrder) -> Float:
    return second.mean * second.alpha0[:, None]


def dirichlet_kl(p: Float, q: Float, possible: Bool) -> Float:
    """(N,) KL(Dir(p) || Dir(q)) in nats on the possible labels."""
    p = np.maximum(p[:, possible], 1e-6)
    q = np.maximum(q[:, possible], 1e-6)
    p0, q0 = p.sum(axis=1), q.sum(axis=1)
    return (
        gammaln(p0) - gammaln(q0) - np.sum(gammaln(p) - gammaln(q), axis=1)
        + np.sum((p - q) * (digamma(p) - digamma(p0)[:, None]), axis=1)
    )  # fmt: skip


# --------------------------------------------------------------------------- summaries


def summary(c: Fidelity, gold: Int | None = None) -> dict[str, Any]:
    """The fidelity figures; `gold` (N,) label positions, -1 where unknown, adds accuracies."""
    ratio = c.abi.alpha0 / c.dsmc.alpha0
    epistemic = _correlation(c.abi.epistemic_bits, c.dsmc.epistemic_bits)
    between_seeds = _correlation(c.again.epistemic_bits, c.dsmc.epistemic_bits)
    return {
        "n": len(c.kl),
        "draws": c.draws,
        "agreement": float(c.agree.mean()),
        "agreement_between_seeds": float(np.mean(c.dsmc.mean.argmax(axis=1) == c.again.mean.argmax(axis=1))),
        "correlation_of_means": _correlation(c.abi.mean.ravel(), c.dsmc.mean.ravel()),
        "kl_nats": _quantiles(c.kl),
        "alpha0_ratio": _quantiles(ratio),
        "epistemic_correlation": epistemic,
        "epistemic_between_seeds": between_seeds,
        "epistemic_share_of_ceiling": None
        if epistemic is None or not between_seeds
        else epistemic / between_seeds,
        "epistemic_bits": {
            "d-smc": float(c.dsmc.epistemic_bits.mean()),
            "abi": float(c.abi.epistemic_bits.mean()),
        },
        "total_bits": {"d-smc": float(c.dsmc.total_bits.mean()), "abi": float(c.abi.total_bits.mean())},
        "accuracy": _accuracies(c, gold, np.ones(len(c.kl), dtype=bool)),
        "disagreement": _disagreement(c, gold),
    }


def out_of_class(inside: Fidelity, outside: Fidelity) -> dict[str, Any]:
    """Fidelity on cases of no label, and whether either method's bits tell them from the others (AUROC)."""
    from simdx.metrics.ood import ood_auroc

    figures = summary(outside)
    for name in ("accuracy", "disagreement"):
        figures.pop(name)
    figures["auroc"] = {
        method: {
            kind: ood_auroc(getattr(a, f"{kind}_bits"), getattr(b, f"{kind}_bits")).value
            for kind in ("epistemic", "total")
        }
        for method, a, b in (("d-smc", inside.dsmc, outside.dsmc), ("abi", inside.abi, outside.abi))
    }
    return figures


def rows(c: Fidelity, ids: list[str], labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """One record a case: ids and numbers, no text."""
    return [
        {
            "id": ids[i],
            "d-smc": _row(c.dsmc, i, labels),
            "abi": _row(c.abi, i, labels),
            "agree": bool(c.agree[i]),
            "kl_nats": float(c.kl[i]),
            "alpha0_ratio": float(c.abi.alpha0[i] / c.dsmc.alpha0[i]),
        }
        for i in range(len(ids))
    ]


def _row(second: SecondOrder, i: int, labels: tuple[str, ...]) -> dict[str, Any]:
    return {
        "label": labels[int(second.mean[i].argmax())],
        "mean": {label: float(p) for label, p in zip(labels, second.mean[i], strict=True)},
        "alpha0": float(second.alpha0[i]),
        "epistemic_bits": float(second.epistemic_bits[i]),
    }


def _disagreement(c: Fidelity, gold: Int | None) -> dict[str, Any]:
    """Where the top classes differ: how close D-SMC itself was to a tie, and who was right."""
    differ = ~c.agree
    top = np.sort(c.dsmc.mean, axis=1)
    margin = top[:, -1] - top[:, -2]
    return {
        "n": int(differ.sum()),
        "dsmc_margin": _quantiles(margin[differ]),
        "dsmc_margin_elsewhere": _quantiles(margin[~differ]),
        "total_bits": {
            "d-smc": _mean(c.dsmc.total_bits[differ]),
            "abi": _mean(c.abi.total_bits[differ]),
            "elsewhere": _mean(c.dsmc.total_bits[~differ]),
        },
        "accuracy": _accuracies(c, gold, differ),
    }


def _accuracies(c: Fidelity, gold: Int | None, chosen: Bool) -> dict[str, Any] | None:
    if gold is None:
        return None
    chosen = chosen & (gold >= 0)
    if not chosen.any():
        return None
    return {
        "n": int(chosen.sum()),
        "d-smc": float(np.mean(c.dsmc.mean.argmax(axis=1)[chosen] == gold[chosen])),
        "abi": float(np.mean(c.abi.mean.argmax(axis=1)[chosen] == gold[chosen])),
    }


def _quantiles(values: Float) -> dict[str, float] | None:
    if len(values) == 0:
        return None
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
    return {"median": float(median), "q10": float(low), "q90": float(high)}


def _mean(values: Float) -> float | None:
    return float(values.mean()) if len(values) else None


def _correlation(a: Float, b: Float) -> float | None:
    """Pearson; None where one side does not vary, or there are too few cases to say."""
    if len(a) < 3 or np.std(a) == 0 or np.std(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def in_words(record: dict[str, Any]) -> Iterator[str]:
    """What `simdx abi report` prints."""

    def three(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.3f}"

    def spread(values: dict[str, float] | None) -> str:
        if values is None:
            return "undefined"
        return f"{values['median']:.3f} (80 % in {values['q10']:.3f} to {values['q90']:.3f})"

    conditioned = ", prior-conditioned" if record["prior_conditioned"] else ""
    yield f"{record['panel']}, {record['embedder']}, objective {record['objective']}{conditioned}"
    yield f"  {record['n']} cases against D-SMC with {record['draws']} draws; two seeds of D-SMC in brackets"
    seeds = three(record["agreement_between_seeds"])
    yield f"  same top class            {three(record['agreement'])} [{seeds}]"
    yield f"  correlation of means      {three(record['correlation_of_means'])}"
    yield f"  KL of the fits, nats      {spread(record['kl_nats'])}"
    yield f"  ratio of alpha0           {spread(record['alpha0_ratio'])}"
    seeds = three(record["epistemic_between_seeds"])
    yield f"  epistemic bits, correlated {three(record['epistemic_correlation'])} [{seeds}]"
    differ = record["disagreement"]
    if differ["n"]:
        yield f"  they differ on {differ['n']} cases; D-SMC's margin there {spread(differ['dsmc_margin'])}"
        yield f"    and elsewhere {spread(differ['dsmc_margin_elsewhere'])}"
        right = differ["accuracy"]
        if right:
            yield f"    right there: D-SMC {three(right['d-smc'])}, network {three(right['abi'])}"
    outside = record["out_of_class"]
    if outside:
        yield f"  out of class, {outside['n']} cases: same top class {three(outside['agreement'])}"
        for method, found in outside["auroc"].items():
            epistemic, entropy = three(found["epistemic"]), three(found["total"])
            yield f"    AUROC of {method}: epistemic {epistemic}, entropy {entropy}"
