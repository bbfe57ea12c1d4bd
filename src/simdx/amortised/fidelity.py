"""Network against D-SMC, case by case.

The reference is D-SMC on the exact engine with at least 2,000 accepted draws, run under two seeds: what
the two seeds disagree on, no network can be asked to know. Both posteriors are condensed to a Dirichlet
by the moments of all components; for a network that already answers with a Dirichlet, that is its own.
Bits are each method's own: from the accepted draws for D-SMC, in closed form for the network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from scipy.special import digamma, gammaln

from simdx.abc.dirichlet import dirichlet
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import Network
from simdx.errors import BadInput
from simdx.metrics.scores import ood_auroc
from simdx.types import Float, Int, Mask, SecondOrder

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
    def both(self) -> dict[str, SecondOrder]:
        return {"d-smc": self.dsmc, "abi": self.abi}

    @property
    def agree(self) -> Mask:
        return self.dsmc.mean.argmax(axis=1) == self.abi.mean.argmax(axis=1)


def compare(
    network: Network, space: Space, vectors: Float, prior: Prior, *, draws: int = DRAWS, seed: int = 0
) -> Fidelity:
    if len(vectors) == 0:
        raise BadInput("there are no cases to compare on")
    z = space.transform(vectors)
    abi = network.second_order(z, prior)
    run = partial(dirichlet, space.class_means, z, prior, draws=draws)
    posteriors = (run(seed=s, populations=network.card.populations) for s in (seed, seed + 1))
    dsmc, again = (cast(SecondOrder, posterior.second_order) for posterior in posteriors)
    p, q = (second.mean * second.alpha0[:, None] for second in (dsmc, abi))
    return Fidelity(dsmc, again, abi, dirichlet_kl(p, q, prior.probabilities > 0), draws)


def dirichlet_kl(p: Float, q: Float, possible: Mask) -> Float:
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
    epistemic = _correlation(c.abi.epistemic_bits, c.dsmc.epistemic_bits)
    between_seeds = _correlation(c.again.epistemic_bits, c.dsmc.epistemic_bits)
    share = None if epistemic is None or not between_seeds else epistemic / between_seeds
    # Where the top classes differ: how close D-SMC itself was to a tie, and who was right.
    differ, top = ~c.agree, np.sort(c.dsmc.mean, axis=1)
    margin = top[:, -1] - top[:, -2]
    bits = {name: of.total_bits[differ] for name, of in c.both.items()}
    bits["elsewhere"] = c.dsmc.total_bits[c.agree]
    return {
        "n": len(c.kl),
        "draws": c.draws,
        "agreement": float(c.agree.mean()),
        "agreement_between_seeds": float(np.mean(c.dsmc.mean.argmax(axis=1) == c.again.mean.argmax(axis=1))),
        "correlation_of_means": _correlation(c.abi.mean.ravel(), c.dsmc.mean.ravel()),
        "kl_nats": _quantiles(c.kl),
        "alpha0_ratio": _quantiles(c.abi.alpha0 / c.dsmc.alpha0),
        "epistemic_correlation": epistemic,
        "epistemic_between_seeds": between_seeds,
        "epistemic_share_of_ceiling": share,
        "epistemic_bits": {name: float(of.epistemic_bits.mean()) for name, of in c.both.items()},
        "total_bits": {name: float(of.total_bits.mean()) for name, of in c.both.items()},
        "accuracy": _accuracies(c, gold, np.ones(len(c.kl), dtype=bool)),
        "disagreement": {
            "n": int(differ.sum()),
            "dsmc_margin": _quantiles(margin[differ]),
            "dsmc_margin_elsewhere": _quantiles(margin[c.agree]),
            "total_bits": {name: float(some.mean()) if len(some) else None for name, some in bits.items()},
            "accuracy": _accuracies(c, gold, differ),
        },
    }


def out_of_class(inside: Fidelity, outside: Fidelity) -> dict[str, Any]:
    """Fidelity on cases of no label, and whether either method's bits tell them from the others (AUROC)."""
    figures = {k: v for k, v in summary(outside).items() if k not in ("accuracy", "disagreement")}
    figures["auroc"] = {
        method: {
            kind: ood_auroc(getattr(own, f"{kind}_bits"), getattr(outside.both[method], f"{kind}_bits")).value
            for kind in ("epistemic", "total")
        }
        for method, own in inside.both.items()
    }
    return figures


def rows(c: Fidelity, ids: list[str], labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """One record a case: ids and numbers, no text."""
    return [
        {
            "id": ids[i],
            **{
                name: {
                    "label": labels[int(of.mean[i].argmax())],
                    "mean": dict(zip(labels, of.mean[i].tolist(), strict=True)),
                    "alpha0": float(of.alpha0[i]),
                    "epistemic_bits": float(of.epistemic_bits[i]),
                }
                for name, of in c.both.items()
            },
            "agree": bool(c.agree[i]),
            "kl_nats": float(c.kl[i]),
            "alpha0_ratio": float(c.abi.alpha0[i] / c.dsmc.alpha0[i]),
        }
        for i in range(len(ids))
    ]


def _accuracies(c: Fidelity, gold: Int | None, chosen: Mask) -> dict[str, Any] | None:
    if gold is None or not (chosen := chosen & (gold >= 0)).any():
        return None
    right = {name: float((of.mean.argmax(axis=1) == gold)[chosen].mean()) for name, of in c.both.items()}
    return {"n": int(chosen.sum()), **right}


def _quantiles(values: Float) -> dict[str, float] | None:
    if len(values) == 0:
        return None
    return dict(zip(("median", "q10", "q90"), np.quantile(values, [0.5, 0.1, 0.9]).tolist(), strict=True))


def _correlation(a: Float, b: Float) -> float | None:
    """Pearson; None where one side does not vary, or there are too few cases to say."""
    if len(a) < 3 or np.std(a) == 0 or np.std(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def in_words(record: dict[str, Any]) -> Iterator[str]:
    """What `simdx abi report` prints."""

    def said(value: Any) -> str:
        if isinstance(value, dict):
            return f"{value['median']:.3f} (80 % in {value['q10']:.3f} to {value['q90']:.3f})"
        return "undefined" if value is None else f"{value:.3f}"

    r = {name: said(value) for name, value in record.items() if value is None or isinstance(value, float)}
    r |= {name: said(record[name]) for name in ("kl_nats", "alpha0_ratio")}
    conditioned = ", prior-conditioned" if record["prior_conditioned"] else ""
    yield f"{record['panel']}, {record['embedder']}, objective {record['objective']}{conditioned}"
    yield f"  {record['n']} cases against D-SMC with {record['draws']} draws; two seeds of D-SMC in brackets"
    yield f"  same top class            {r['agreement']} [{r['agreement_between_seeds']}]"
    yield f"  correlation of means      {r['correlation_of_means']}"
    yield f"  KL of the fits, nats      {r['kl_nats']}"
    yield f"  ratio of alpha0           {r['alpha0_ratio']}"
    yield f"  epistemic bits, correlated {r['epistemic_correlation']} [{r['epistemic_between_seeds']}]"
    differ = record["disagreement"]
    if differ["n"]:
        yield f"  they differ on {differ['n']} cases; D-SMC's margin there {said(differ['dsmc_margin'])}"
        yield f"    and elsewhere {said(differ['dsmc_margin_elsewhere'])}"
        if right := differ["accuracy"]:
            yield f"    right there: D-SMC {said(right['d-smc'])}, network {said(right['abi'])}"
    if outside := record["out_of_class"]:
        yield f"  out of class, {outside['n']} cases: same top class {said(outside['agreement'])}"
        for method, found in outside["auroc"].items():
            epistemic, entropy = said(found["epistemic"]), said(found["total"])
            yield f"    AUROC of {method}: epistemic {epistemic}, entropy {entropy}"
