"""What a run computes: everything that decides an answer, and nothing about where it is computed.

A job travels to every worker, so it holds the panel and bank themselves, not paths of this machine. Its
digest is written beside the answers: a later run in the same folder goes on only with the same job.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank, read_bank
from simdx.classifier import Classifier
from simdx.errors import BadInput
from simdx.methods.fitted import Settings, recipe_of
from simdx.panels import load_panel, load_source
from simdx.panels.load import PACKAGED
from simdx.types import Bank, Panel, content_hash


@dataclass(frozen=True, slots=True)
class Job:
    """A classifier to be, the prior it answers under, and how much of each answer is kept."""

    panel: str | Panel  # a packaged panel by name, any other by value
    bank: Bank | None
    settings: Settings
    embedder: str | None
    prior: Prior
    top: int | None = None  # keep the likeliest labels only; None: the whole posterior
    decide: bool = False  # also alarm, conformal set and action, at several times the cost

    @classmethod
    def make(cls, panel: str, bank: Path | None, settings: Settings, **more: Any) -> Self:
        """From the names and paths of this machine; `more` are the other fields, the prior uniform."""
        found = load_panel(panel)
        if settings.engine == "live":
            raise BadInput("a run over many cases works from a bank: use --engine exact or particles")
        own = read_bank(bank, found) if bank is not None else None
        if panel not in PACKAGED and own is None:
            own = packaged_bank(load_source(panel))
        defaults: dict[str, Any] = {"embedder": None, "prior": Prior.uniform(len(found.names))}
        return cls(panel if panel in PACKAGED else found, own, settings, **(defaults | more))

    def classifier(self) -> Classifier:
        """The classifier this job describes, on whichever machine this is."""
        return Classifier(self.panel, self.bank, embedder=self.embedder, **asdict(self.settings))

    def describe(self, classifier: Classifier) -> dict[str, Any]:
        """The job in words and hashes; two jobs with equal descriptions give equal answers."""
        return {
            "recipe": recipe_of(self.settings.method),
            "panel": classifier.panel.name,
            "labels": list(classifier.outcomes),
            "bank": classifier.bank.identity,
            "embedder": classifier.embedder.id,
            "settings": asdict(self.settings),
            "prior": self.prior.probabilities.tolist(),
            "alpha0": self.prior.alpha0,
            "top": self.top,
            "decide": self.decide,
        }


def digest(description: dict[str, Any]) -> str:
    return content_hash("scale job", json.dumps(description, sort_keys=True))
