"""What the routes share, made once per application: the panels served, the engine, the log."""

import asyncio
import hmac
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from simdx import __version__
from simdx.bank.files import packaged_bank
from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.egress import check, check_names, is_loopback
from simdx.embedders import parts_of
from simdx.errors import BadInput
from simdx.panels import disclaimer, load_source
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditRecord, Entry
from simdx.service.auth import Caller
from simdx.service.batching import Ask, Batcher
from simdx.service.config import ServiceConfig
from simdx.service.made import Workshop
from simdx.service.wire import Json, Meters, Problem, dump
from simdx.types import NONE_OF_THESE, Panel


class Registry:
    """The panels served: each bank embedded once, each method fitted once.

    The default method is fitted at start, others on first use.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.methods = config.methods
        self._lock = threading.Lock()
        self._fitted: dict[tuple[str, str], Classifier] = {}  # by panel and method
        self._described: dict[str, dict[str, Any]] = {}
        for source, given in config.panels.items():
            if given is None:
                _check_bank(source)
            classifier = Classifier(
                source, given, method=config.methods[0], embedder=config.embedder,
                allow_remote=config.allow_remote, simulator=config.upstream,
            )  # fmt: skip
            if config.upstream_cases is not None:
                known = (*classifier.panel.names, NONE_OF_THESE)
                upstream: Any = classifier.fitted  # the one method that is calibrated after it was fitted
                upstream.measure(read_cases(config.upstream_cases, labels=known).cases)
            _warm(classifier)
            self._fitted[classifier.panel.name, config.methods[0]] = classifier
            found, bank = described(classifier.panel), classifier.bank
            counted = [{**label, "simulations": bank.counts[label["name"]]} for label in found["labels"]]
            self._described[classifier.panel.name] = {
                **found, "embedder": classifier.embedder.id, "bank": f"{bank.name}@{bank.identity[:16]}",
                "methods": list(self.methods), "labels": counted,
            }  # fmt: skip
        self.names = tuple(panel for panel, _ in self._fitted)

    def panel(self, name: str) -> Panel:
        return self._default(name).panel

    def description(self, name: str) -> Mapping[str, Any]:
        self._default(name)
        return self._described[name]

    def check(self, panel: str, method: str) -> Classifier:
        """The panel's default classifier, once the pair is known to be one this service answers."""
        if method not in self.methods:
            said = f"method: choose one of {', '.join(self.methods)}; this one is not served."
            raise Problem("bad-input", said)
        return self._default(panel)

    def is_fitted(self, panel: str, method: str) -> bool:
        return (panel, method) in self._fitted

    def get(self, panel: str, method: str) -> Classifier:
        """The fitted classifier; the first call for a method may take a second."""
        if not self.is_fitted(panel, method):  # asked without the lock: the engine waits for no fit
            with self._lock:
                if not self.is_fitted(panel, method):
                    # From what is in memory: the files may have changed since, and every method of a panel
                    # must answer for the same labels and the same bank.
                    fitted = self.check(panel, method).with_method(method)
                    _warm(fitted)
                    self._fitted[panel, method] = fitted
        return self._fitted[panel, method]

    def _default(self, panel: str) -> Classifier:
        if panel not in self.names:
            said = f"This service answers for {', '.join(self.names)}; see GET /v1/panels."
            raise Problem("unknown-panel", said)
        return self._fitted[panel, self.methods[0]]


def described(panel: Panel) -> dict[str, Any]:
    """What callers are told of a panel, whatever its bank."""
    labels = [
        {
            "name": label.name, "description": " ".join(label.description.split()),
            "icd10": list(label.icd10), "snomed": list(label.snomed), "must_not_miss": label.must_not_miss,
        }
        for label in panel.labels
    ]  # fmt: skip
    return {
        "id": panel.name, "title": panel.title or panel.name,
        "description": " ".join(panel.description.split()), "register": panel.register,
        "notice": " ".join(panel.notice.split()), "disclaimer": disclaimer(panel),
        "examples": [{"title": e.title, "text": e.text} for e in panel.examples], "labels": labels,
    }  # fmt: skip


def refuse_remote(config: ServiceConfig) -> None:
    """Before anything is listened on or loaded: what is elsewhere needs the operator's permission."""
    if config.upstream is not None and not is_loopback(config.upstream.rpartition("@")[2]):
        check(config.upstream, config.allow_remote)
    for source in config.panels:
        check_names(parts_of(config.embedder or load_source(source).panel.embedder), config.allow_remote)


def _warm(classifier: Classifier) -> None:
    """What a classifier finds on first use (its alarm, its policy) is found before the first caller waits."""
    _ = classifier.panel_files  # read now, so that it may change or go later
    classifier.infer(classifier.bank.texts[0])


def _check_bank(source: str) -> None:
    """A panel has a bank of its own, or the library describes its labels."""
    try:
        packaged_bank(load_source(source))
    except BadInput as problem:
        raise BadInput(f"{problem}; serve it with --panel {source}=BANK") from None


# --------------------------------------------------------------------------- for the routes


@dataclass(frozen=True, slots=True)
class AppState:
    config: ServiceConfig
    registry: Registry
    batcher: Batcher
    meters: Meters
    audit: AuditStore | None
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
    ) -> Ask:
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
        return Ask(
            panel, method, classifier.prior(prior or None), tuple(texts), caller.name, request_id(request),
            explain=explain and (usual or len(texts) == 1), alone=not usual, classifier=made, **more,
        )  # fmt: skip

    def check_length(self, texts: Sequence[str]) -> None:
        longest = self.config.limits.text_characters
        if any(len(text) > longest for text in texts):
            raise Problem("too-large", f"text: a case is at most {longest:,} characters.")

    async def tell(self, ask: Ask) -> Ask:
        """The engine's answer. A method asked for the first time is fitted beside the engine, not in it."""
        if ask.classifier is None and not self.registry.is_fitted(ask.panel, ask.method):
            await asyncio.to_thread(self.registry.get, ask.panel, ask.method)
        return await self.batcher.ask(ask)

    async def answered(self, request: Request, ask: Ask, media: str | None = None) -> Json:
        """The response to a request that asks one thing."""
        told = await self.tell(ask)
        headers = {"Simdx-Answer": request_id(request)} if ask.kind else None
        return Json(told.sent, headers=headers, media_type=media)

    def preview_code(self, caller: Caller, panel: str, text: str) -> str:
        """Proof that this caller was answered about this text, so that the log has it."""
        return hmac.digest(self.preview_key, dump([caller.name, panel, text]), "sha256").hex()

    async def record_read(self, request: Request, caller: Caller, **asked: int | str | None) -> None:
        """Note who reads the log, before what was read leaves."""
        context = {"read": request.url.path, **{k: v for k, v in asked.items() if v is not None}}
        await self.record([Entry(f"{request_id(request)}.0", "read", caller.name, "", context=context)])

    async def record_judgement(
        self, request: Request, caller: Caller, kind: str, *judged: tuple[AuditRecord, Mapping[str, Any]]
    ) -> str:
        """Record what became of earlier answers; the id of the first record."""
        entries = [
            Entry(
                f"{request_id(request)}.{number}", kind, caller.name, of.panel, answer=said,
                versions={"simdx": __version__}, about=of.id,
            )
            for number, (of, said) in enumerate(judged)
        ]  # fmt: skip
        await self.record(entries)
        return entries[0].id

    async def record(self, entries: Sequence[Entry]) -> None:
        await asyncio.to_thread(self.log().append, entries)

    async def find(
        self, answer: str, caller: Caller, said: str = "No answer with this id is in the audit log."
    ) -> AuditRecord:
        """A record this caller may read or judge. Another tenant's is as if it were not there.

        The header of an answer names its request: of several texts, the first.
        """
        found = await asyncio.to_thread(self.log().find, answer if "." in answer else f"{answer}.0")
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


def check_panel(caller: Caller, panel: str) -> None:
    """A token of named panels learns of no other, not even whether it is there."""
    if not caller.may_ask(panel):
        raise Problem("wrong-panel", "This token is for other panels; GET /v1/panels lists them.")


def request_id(request: Request) -> str:
    return str(request.scope["simdx.request"])


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
