"""What a set of answers is asked for by (`Spec`), and what comes back (`Answers`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from simdx.methods import Settings
from simdx.types import Float, Posterior

REFERENCE = "reference"  # the panel's packaged bank: both of its files
SECOND_ORDER = ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")


@dataclass(frozen=True, slots=True)
class Spec:
    """One method on one panel's cases with one bank. None means the method's or the panel's own default.

    `bank` is `reference` (the packaged bank), `bank_a` or `bank_b` (its two files alone), or the name of the
    model that wrote one. `per_label` keeps that many simulations of each label, drawn by `pool_seed`; pools
    of one seed are nested. `objective`, `prior_conditioned` matter for `abi` alone, whose network is trained
    on the bank.
    """

    panel: str
    method: str
    bank: str = REFERENCE
    embedder: str | None = None
    engine: str = "exact"
    kernel: Literal["soft", "hard"] | None = None
    populations: int = 5
    particles: int | None = None
    bandwidth: float | None = None
    tolerance: float | None = None
    stop_acceptance: float | None = 0.2
    prior: tuple[tuple[str, float], ...] = ()
    alpha0: float | None = None
    per_label: int | None = None
    pool_seed: int = 0
    objective: Literal["kl", "particles", "mean"] = "kl"
    prior_conditioned: bool = False
    seed: int = 0

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    def settings(self, network: str | None = None) -> Settings:
        return Settings.named_alike(self, network=network)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Posteriors on the labelled cases and on the out-of-class ones, with what they cost.

    `second` maps total_bits, aleatoric_bits, epistemic_bits and alpha0 to one number per case where the
    method has a posterior on the simplex; `second_outside` likewise for the out-of-class cases.
    """

    probabilities: Float  # (N, K)
    carried: Float  # (N,) effective simulations
    outside: Float | None  # (M, K)
    second: dict[str, Float] | None
    second_outside: dict[str, Float] | None
    fit_seconds: float
    infer_seconds: float  # per case, in one batch, embeddings given
    embed_seconds: float  # per case

    def arrays(self) -> dict[str, Float]:
        """For the cache."""
        found = {"probabilities": self.probabilities, "carried": self.carried}
        if self.outside is not None:
            found["outside"] = self.outside
        for name, parts in (("second", self.second), ("second_outside", self.second_outside)):
            found |= {f"{name}.{key}": value for key, value in (parts or {}).items()}
        found["seconds"] = np.array([self.fit_seconds, self.infer_seconds, self.embed_seconds])
        return {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}

    @classmethod
    def from_arrays(cls, found: dict[str, Float]) -> Answers:
        def parts(name: str) -> dict[str, Float] | None:
            chosen = {key: found[f"{name}.{key}"] for key in SECOND_ORDER if f"{name}.{key}" in found}
            return chosen or None

        fit, infer, embed = (float(s) for s in found["seconds"])
        return cls(
            found["probabilities"],
            found["carried"],
            found.get("outside"),
            parts("second"),
            parts("second_outside"),
            fit,
            infer,
            embed,
        )


def second_order_arrays(posterior: Posterior) -> dict[str, Float] | None:
    second = posterior.second_order
    if second is None:
        return None
    return {key: np.asarray(getattr(second, key), dtype=float) for key in SECOND_ORDER}
