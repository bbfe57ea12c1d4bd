"""One answer, whole: what `classify --json` prints and what the Python front door returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simdx.types import Decision


@dataclass(frozen=True, slots=True)
class Evidence:
    """A simulated description that carried the answer."""

    label: str
    text: str
    distance: float


@dataclass(frozen=True, slots=True)
class SecondOrderAnswer:
    """The simplex posterior's own summary. Entropies in bits."""

    mean: Mapping[str, float]
    total_bits: float
    aleatoric_bits: float
    epistemic_bits: float
    alpha0: float
    cap: float | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything needed to say where an answer came from, and to get it again."""

    bank: str
    embedder: str
    prior: Mapping[str, float]
    alpha0: float
    kernel: str
    tolerance: float | None
    seed: int
    version: str
    remote: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A posterior over the panel's labels with its uncertainty, its reasons and its origin.

    `posterior` is what the decision uses: the in-class posterior, drawn towards the prior by the
    probability that the case is none of the labels.
    """

    panel: str
    method: str
    engine: str
    label: str
    posterior: Mapping[str, float]
    posterior_in_class: Mapping[str, float]
    entropy_bits: float
    second_order: SecondOrderAnswer | None
    typicality: float | None
    out_of_class: float | None
    effective_simulations: float
    decision: Decision
    evidence: tuple[Evidence, ...]
    provenance: Provenance

    def to_json(self) -> dict[str, Any]:
        """The contract's object; a capability that is not there is null, never missing."""
        second = self.second_order
        return {
            "panel": self.panel,
            "method": self.method,
            "engine": self.engine,
            "label": self.label,
            "posterior": dict(self.posterior),
            "posterior_in_class": dict(self.posterior_in_class),
            "entropy_bits": self.entropy_bits,
            "second_order": None
            if second is None
            else {
                "mean": dict(second.mean),
                "total_bits": second.total_bits,
                "aleatoric_bits": second.aleatoric_bits,
                "epistemic_bits": second.epistemic_bits,
                "alpha0": second.alpha0,
                "cap": second.cap,
            },
            "typicality": self.typicality,
            "out_of_class": self.out_of_class,
            "alarm": None,
            "conformal_set": None,
            "effective_simulations": self.effective_simulations,
            "decision": {"action": self.decision.action, "reason": self.decision.reason},
            "evidence": [{"label": e.label, "text": e.text, "distance": e.distance} for e in self.evidence],
            "sentences": None,
            "flip": None,
            "provenance": {
                "bank": self.provenance.bank,
                "embedder": self.provenance.embedder,
                "prior": dict(self.provenance.prior),
                "alpha0": self.provenance.alpha0,
                "kernel": self.provenance.kernel,
                "tolerance": self.provenance.tolerance,
                "seed": self.provenance.seed,
                "version": self.provenance.version,
                "remote": self.provenance.remote,
                "notes": list(self.provenance.notes),
            },
        }
