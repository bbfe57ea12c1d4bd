"""What the routes share: the registry, the engine, the log, the guard. Made once per application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from simdx.abc.prior import Prior
from simdx.classifier import Classifier
from simdx.service.audit.record import Entry
from simdx.service.audit.store import AuditStore
from simdx.service.auth import Caller, Guard
from simdx.service.batching import Ask, Batcher, Told
from simdx.service.config import ServiceConfig
from simdx.service.meters import Meters
from simdx.service.observations import Kept, ObservationCache
from simdx.service.problems import Problem
from simdx.service.record_servers import RecordServers
from simdx.service.registry import Registry


@dataclass(frozen=True, slots=True)
class House:
    config: ServiceConfig
    registry: Registry
    batcher: Batcher
    cache: ObservationCache
    guard: Guard
    meters: Meters
    audit: AuditStore | None
    record_servers: RecordServers

    def classifier_for(self, panel: str, method: str, texts: Sequence[str]) -> Classifier:
        """The panel's classifier, once the question is one this service takes."""
        limits = self.config.limits
        classifier = self.registry.check(panel, method)
        if len(texts) > limits.texts:
            raise Problem(
                "too-large", f"texts: at most {limits.texts} at once; send the rest in another request."
            )
        if any(len(text) > limits.text_characters for text in texts):
            raise Problem("too-large", f"text: a case is at most {limits.text_characters:,} characters.")
        return classifier

    async def ask(
        self,
        request: Request,
        caller: Caller,
        panel: str,
        method: str,
        prior: Mapping[str, float] | None,
        texts: Sequence[str],
        *,
        kind: str = "answer",
        draws: int = 0,
    ) -> Told:
        classifier = self.classifier_for(panel, method, texts)
        chosen = prior_of(classifier, prior)
        # Only the default method explains an answer in about a millisecond; others take up to a third of a
        # second for a case, which one text may cost and a batch may not.
        usual = method == self.registry.methods[0]
        ask = Ask(
            panel, method, chosen, tuple(texts), caller.name, request_id(request), kind, None, draws,
            explain=usual or len(texts) == 1, alone=not usual,
        )  # fmt: skip
        return await self.tell(ask)

    def kept(self, observation: str, caller: Caller) -> Kept:
        """A case this caller brought before, while it is kept."""
        found = self.cache.get(observation, caller.name)
        if found is None:
            raise Problem(
                "gone", "This observation is not kept any more; send the text to POST /v1/explore again."
            )
        return found

    async def tell(self, ask: Ask) -> Told:
        """The engine's answer; a method asked for the first time is fitted beside the engine, not in it."""
        if not self.registry.is_fitted(ask.panel, ask.method):
            await asyncio.to_thread(self.registry.get, ask.panel, ask.method)
        return await self.batcher.ask(ask)

    def record(self, entries: Sequence[Entry]) -> None:
        if self.audit is not None:
            self.audit.append(entries)

    def log(self) -> AuditStore:
        if self.audit is None:
            raise Problem("no-audit", "This service was started with --audit none.")
        return self.audit

    def audience(self, path: str) -> str | None:
        """What a record system's signed call to this address must name; None where no such call is taken."""
        if self.config.public_url is None or not path.startswith("/cds-services/"):
            return None
        return self.config.public_url.rstrip("/") + path

    def base_url(self, request: Request) -> str:
        return (self.config.public_url or str(request.base_url)).rstrip("/")


def prior_of(classifier: Classifier, sent: Mapping[str, float] | None) -> Prior:
    """The prior a body gave, in the panel's labels. An unknown key may be a patient's name: not repeated."""
    names = classifier.panel.names
    if not set(sent or ()) <= set(names):
        raise Problem(
            "bad-input",
            "prior: it names something that is not a label of this panel; "
            f"its labels are {', '.join(names)}.",
        )
    return classifier.prior(sent or None)


def request_id(request: Request) -> str:
    return str(request.scope["simdx.request"])


def house_of(request: Request) -> House:
    return request.app.state.house


async def _classify_caller(request: Request) -> Caller:
    house = house_of(request)
    return await house.guard.known(
        request.headers.get("authorization"), "classify", house.audience(request.url.path)
    )


async def _admin_caller(request: Request) -> Caller:
    return house_of(request).guard.caller(request.headers.get("authorization"), "admin")


MayClassify = Annotated[Caller, Depends(_classify_caller)]
MayAdmin = Annotated[Caller, Depends(_admin_caller)]
