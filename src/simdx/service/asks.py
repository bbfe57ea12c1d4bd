"""What a request asks of the engine, what it is told, and the audit log's view of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simdx.abc.prior import Prior
from simdx.methods import Observations
from simdx.service.audit.record import Entry
from simdx.service.wire import finite
from simdx.types import Float


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request wants of the engine: texts, or one case observed before."""

    panel: str
    method: str
    prior: Prior
    texts: tuple[str, ...]
    caller: str
    request: str  # id of the request; its answers are recorded as <request>.0, .1, …
    kind: str = "answer"
    observed: Observations | None = None
    draws: int = 0
    explain: bool = True  # the sentences that matter and the flip: most of an answer's cost
    alone: bool = False  # an ask that takes long shares no call, so that others get their turn between
    preview: bool = False  # the posterior alone, which is no answer and leaves no record (`intervals`)
    write: Callable[[Told], bytes] | None = None  # the response's bytes, made before they are recorded
    context: Mapping[str, Any] = field(default_factory=dict)  # for the audit log, as are
    people: Mapping[str, str] = field(default_factory=dict)  # whom the case is about: recorded as a hash

    @property
    def portable(self) -> bool:
        """Can a worker answer it: from its texts alone, with nothing but the answer wanted?"""
        return self.observed is None and not self.preview and self.kind != "explore"

    @property
    def key(self) -> tuple[str, str, bytes, float, bool, bool]:
        """Asks with the same key can share one engine call."""
        prior = self.prior.probabilities.tobytes()
        return self.panel, self.method, prior, self.prior.alpha0, self.explain, self.preview


@dataclass(frozen=True, slots=True)
class Told:
    """What the engine answered: the contract's objects and their bytes; of a preview the former alone."""

    answers: tuple[dict[str, Any], ...]
    bodies: tuple[bytes, ...]
    observations: Observations | None  # None: a worker has seen the texts, and not this process
    draws: Float | None
    beside: tuple[dict[str, Any], ...] = ()  # of each explored answer: what a reader is shown besides
    sent: bytes = b""  # what leaves the service, where the ask says how it is written


def entries(ask: Ask, told: Told) -> list[Entry]:
    """The audit log's view of an answer: numbers, decision and versions, hashes of it and of what is sent."""
    out = []
    context = dict(ask.context)
    if ask.write is not None:
        context["sent"] = hashlib.sha256(told.sent).hexdigest()
    for i, (text, answer, body) in enumerate(zip(ask.texts, told.answers, told.bodies, strict=True)):
        origin = answer["provenance"]
        kept = ("label", "posterior", "entropy_bits", "out_of_class", "typicality", "decision")
        out.append(
            Entry(
                id=f"{ask.request}.{i}",
                kind=ask.kind,
                caller=ask.caller,
                panel=ask.panel,
                prior=origin["prior"],
                answer=finite({**{k: answer[k] for k in kept}, "sha256": hashlib.sha256(body).hexdigest()}),
                versions={
                    "simdx": origin["version"], "bank": origin["bank"], "embedder": origin["embedder"],
                    "method": answer["method"], "engine": answer["engine"], "kernel": origin["kernel"],
                    "seed": origin["seed"],
                },
                text=text,
                context=context,
                people=ask.people,
            )
        )  # fmt: skip
    return out
