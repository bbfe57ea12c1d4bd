"""One answer, whole: what `classify --json` prints and what the Python front door returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from simdx.decide.missing import MissingFinding
from simdx.decide.opinions import alarm_words
from simdx.decide.sentences import SentenceEffect
from simdx.decide.simplex_words import simplex_words
from simdx.types import Decision


@dataclass(frozen=True, slots=True)
class Evidence:
    """A simulated description that carried the answer, and its share of it where the method is a kernel."""

    label: str
    text: str
    distance: float
    share: float | None = None


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """What an independent view prefers, and the probability it gives the answer's own label."""

    view: str
    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class AlarmAnswer:
    """Do independent views of the case contradict the answer? `score` is log odds against its label."""

    score: float
    flag: bool
    p_value: float
    views: tuple[ViewAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class FlipAnswer:
    """If the prior of the present label were `prior` (others in proportion), the answer would be `label`."""

    label: str
    prior: float


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
    policy: str = ""
    notes: tuple[str, ...] = ()
    live: Mapping[str, Any] | None = None  # what fresh simulations cost, for the live and hybrid engines


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
    alarm: AlarmAnswer | None = None
    conformal_set: tuple[str, ...] | None = None
    sentences: tuple[SentenceEffect, ...] | None = None
    flip: FlipAnswer | None = None
    missing_finding: MissingFinding | None = None

    @property
    def uncertainty_words(self) -> str | None:
        """The split of uncertainty, in words that fit beside the posterior; None without a second order."""
        second = self.second_order
        if second is None:
            return None
        return simplex_words(
            self.label,
            self.posterior_in_class,
            second.mean,
            second.total_bits,
            second.aleatoric_bits,
            second.cap,
        )

    @property
    def alarm_words(self) -> str | None:
        """What the alarm found and what the views prefer; None where there is no alarm."""
        alarm = self.alarm
        if alarm is None:
            return None
        preferred = [view.label for view in alarm.views]
        return alarm_words(self.label, preferred, alarm.p_value, alarm.flag)

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
            "alarm": None if self.alarm is None else asdict(self.alarm),
            "conformal_set": None if self.conformal_set is None else list(self.conformal_set),
            "effective_simulations": self.effective_simulations,
            "decision": {
                "action": self.decision.action,
                "reason": self.decision.reason,
                "reasons": list(self.decision.reasons),
            },
            "evidence": [asdict(e) for e in self.evidence],
            "sentences": None if self.sentences is None else [asdict(e) for e in self.sentences],
            "flip": None if self.flip is None else asdict(self.flip),
            "missing_finding": None if self.missing_finding is None else asdict(self.missing_finding),
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
                "policy": self.provenance.policy,
                "notes": list(self.provenance.notes),
                "live": None if self.provenance.live is None else dict(self.provenance.live),
            },
        }
