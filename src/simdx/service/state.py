"""What the routes share: the registry, the engine, the log. Made once per application."""

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from simdx import __version__
from simdx.classifier import Classifier
from simdx.service.audit import AuditRecord, AuditStore, Entry
from simdx.service.auth import Caller
from simdx.service.batching import Batcher, InferenceRequest, InferenceResult
from simdx.service.config import ServiceConfig
from simdx.service.made import Workshop
from simdx.service.problems import Problem
from simdx.service.record_servers import RecordServers
from simdx.service.registry import Registry
from simdx.service.wire import Json, Meters, dump


@dataclass(frozen=True, slots=True)
class AppState:
    config: ServiceConfig
    registry: Registry
    batcher: Batcher
    meters: Meters
    audit: AuditStore | None
    record_servers: RecordServers
    workshop: Workshop
    preview_key: bytes  # the same in every replica

    def asked(
        self,
        request: Request,
        caller: Caller,
        panel: str,
        method: str,
        prior: Mapping[str, float] | None,
        texts: Sequence[str],
        *,
        explain: bool = True,
        made: Classifier | None = None,
        **more: Any,
    ) -> InferenceRequest:
        """What a request asks of the engine; `made`: of this panel alone; `more` are further fields of it."""
        check_panel(caller, panel)
        classifier = made or self.registry.check(panel, method)
        self.check_length(texts)
        names = classifier.panel.names
        if prior and not set(prior) <= set(names):  # an unknown key may be a patient's name: not repeated
            said = f"it names something that is not a label of this panel; its labels are {', '.join(names)}"
            raise Problem("bad-input", f"prior: {said}.")
        # Only the default method explains an answer in about a millisecond; others take up to a third of a
        # second for a case, which one text may cost and a batch may not.
        usual = method == self.registry.methods[0]
        return InferenceRequest(
            panel, method, classifier.prior(prior or None), tuple(texts), caller.name, request_id(request),
            explain=explain and (usual or len(texts) == 1), alone=not usual, classifier=made, **more,
        )  # fmt: skip

    def check_length(self, texts: Sequence[str]) -> None:
        longest = self.config.limits.text_characters
        if any(len(text) > longest for text in texts):
            raise Problem("too-large", f"text: a case is at most {longest:,} characters.")

    async def tell(self, asked: InferenceRequest) -> InferenceResult:
        """The engine's answer. A method asked for the first time is fitted beside the engine, not in it."""
        if asked.classifier is None and not self.registry.is_fitted(asked.panel, asked.method):
            await asyncio.to_thread(self.registry.get, asked.panel, asked.method)
        return await self.batcher.ask(asked)

    def preview_code(self, caller: Caller, panel: str, text: str) -> str:
        """Proof that this caller was answered about this text, so that the log has it."""
        return hmac.digest(self.preview_key, dump([caller.name, panel, text]), "sha256").hex()

    async def record_read(self, request: Request, caller: Caller, **asked: int | str | None) -> None:
        """Note who reads the log, before what was read leaves."""
        context = {"read": request.url.path, **{k: v for k, v in asked.items() if v is not None}}
        entry = Entry(f"{request_id(request)}.0", "read", caller.name, "", context=context)
        await asyncio.to_thread(self.log().append, [entry])

    async def find(
        self, answer: str, caller: Caller, said: str = "No answer with this id is in the audit log."
    ) -> AuditRecord:
        """A record this caller may read or judge. Another tenant's is as if it were not there."""
        found = await asyncio.to_thread(self.log().find, answer)
        mine = found is not None and found.caller == caller.name and caller.may_ask(found.panel)
        if found is None or not (mine or "admin" in caller.scopes):
            raise Problem("unknown-answer", said)
        return found

    def log(self) -> AuditStore:
        if self.audit is None:
            raise Problem("no-audit", "This service was started with --audit none.")
        return self.audit

    def base_url(self, request: Request) -> str:
        return (self.config.public_url or str(request.base_url)).rstrip("/")


def judgement(
    request: Request, caller: Caller, kind: str, of: AuditRecord, said: Mapping[str, Any], number: int = 0
) -> Entry:
    """What became of an earlier answer."""
    return Entry(
        f"{request_id(request)}.{number}", kind, caller.name, of.panel, answer=said,
        versions={"simdx": __version__}, about=of.id,
    )  # fmt: skip


def check_panel(caller: Caller, panel: str) -> None:
    """A token of named panels learns of no other, not even whether it is there."""
    if not caller.may_ask(panel):
        raise Problem("wrong-panel", "This token is for other panels; GET /v1/panels lists them.")


def request_id(request: Request) -> str:
    return str(request.scope["simdx.request"])


def answered(request: Request, told: InferenceResult, media: str | None = None) -> Json:
    return Json(told.sent, headers={"Simdx-Answer": request_id(request)}, media_type=media)


def state_of(request: Request) -> AppState:
    return request.app.state.simdx


def caller_of(request: Request, scope: str) -> Caller:
    """Who this is, as the gate found out before it read the body, if they may do this."""
    who = request.scope["simdx.caller"]
    if isinstance(who, Problem):
        raise who
    who.needs(scope)
    return who


def _may(scope: str) -> Any:
    async def caller(request: Request) -> Caller:
        return caller_of(request, scope)

    return Depends(caller)


MayClassify = Annotated[Caller, _may("classify")]
MayReadMetrics = Annotated[Caller, _may("metrics")]
MayAdmin = Annotated[Caller, _may("admin")]
