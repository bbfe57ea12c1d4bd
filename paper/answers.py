"""What a set of answers is asked for by (`Spec`), the methods compared, and how much a scale takes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from paper.world import REFERENCE

Scale = Literal["smoke", "full"]
SECOND_ORDER = ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")
# To fit; per case to infer in one batch, embeddings given; and per case to embed.
TIMES = ("fit_seconds", "infer_seconds", "embed_seconds")

# The methods compared, under the names the tables show. M-SMC and D-SMC are their closed-form limits (the
# sampler is beside them where it matters); the recipe is what `--method auto` ships. Ways of asking a model
# keep the paper's abbreviations.
M_SMC, D_SMC, ABI, RECIPE = "M-SMC", "D-SMC", "ABI", "recipe"
M_PARTICLES, D_PARTICLES, M_SOFT = "M-SMC (particles)", "D-SMC (particles)", "M-SMC (soft kernel)"
ASKING = ("ML", "EP", "PE", "EF")  # as the paper asks: one prompt in one order, eight prompts, samples at .2
ALL_ORDERS, WARM = "ML, all orders", "EF at 0.7"  # ours: averaged over rotations of the list; warmer samples
ASKED = (*ASKING, ALL_ORDERS, WARM)
_LINEUP: dict[str, dict[str, Any]] = {
    M_SMC: {"method": "m-smc"},
    M_PARTICLES: {"method": "m-smc", "engine": "particles"},
    M_SOFT: {"method": "m-smc", "kernel": "soft"},
    D_SMC: {"method": "d-smc"},
    D_PARTICLES: {"method": "d-smc", "engine": "particles"},
    ABI: {"method": "abi"},
    RECIPE: {"method": "auto"},
}

# Methods as `Spec` names them, in words.
METHODS = {
    "auto": "shipped recipe", "m-smc": M_SMC, "d-smc": D_SMC, "abi": ABI, "centroid": "centroid cosine",
    "tfidf": "TF-IDF cosine", "zero-shot": "label text alone", "bank-logistic": "logistic on the bank",
}  # fmt: skip


def spec_of(name: str, panel: str, bank: str = REFERENCE) -> Spec:
    return Spec(panel=panel, bank=bank, **_LINEUP[name])


def theirs_name(name: str) -> str | None:
    """The paper's name of the same method; None for what only we have."""
    first = name.split(" (")[0]
    return first if first in (M_SMC, D_SMC, ABI, *ASKING) and name != M_SOFT else None


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything a scale takes. Smoke shows that every artefact works; full measures."""

    cases: int | None  # per panel; None: all of them
    outside: int | None  # out-of-class cases per panel
    resamples: int  # bootstrap, for intervals
    paired_resamples: int  # bootstrap of differences
    network_observations: int  # what an amortised network is trained on
    network_epochs: int
    asked_cases: int  # asked of a small model where no record of asking is at hand; 0: never


SIZES: dict[Scale, Size] = {
    "smoke": Size(40, 12, 100, 200, 1_500, 4, 2),
    "full": Size(None, None, 2_000, 10_000, 20_000, 40, 0),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One method on one panel's cases with one bank. None means the method's or the panel's own default.

    `bank` is `reference` (the packaged bank), `bank_a` or `bank_b` (its two files alone), or the name of the
    model that wrote one. `per_label` keeps that many simulations of each label, drawn by `pool_seed`; pools
    of one seed are nested. `objective`, `trained_as` and `prior_conditioned` matter for `abi` alone, whose
    network is trained on the bank, or as the paper trains: on the cases themselves, without their labels.
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
    stop_acceptance: float | None = None
    stay: float | None = None
    prior: tuple[tuple[str, float], ...] = ()
    alpha0: float | None = None
    per_label: int | None = None
    pool_seed: int = 0
    objective: Literal["kl", "particles", "mean"] = "kl"
    trained_as: Literal["ours", "the paper"] = "ours"  # data, epochs, batch and rate of a network
    prior_conditioned: bool = False
    seed: int = 0

    @property
    def key(self) -> str:
        """What the stream of its intervals is drawn by."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
