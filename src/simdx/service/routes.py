"""The API: classify, panels, the library, feedback, the audit log, health and metrics.

A preview is the posterior under another prior, with its intervals, while a slider moves. It is no answer: it
announces no label, decides nothing, has no id, and is not recorded. It is made only for a text about which
the caller was answered before, so that the log has it.
"""

import asyncio
import hmac
from dataclasses import asdict
from typing import Annotated, Any, Self

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from scipy.special import betaincinv
from starlette.responses import PlainTextResponse

from simdx import __version__, library
from simdx.answer import Answer, SentencePair
from simdx.archive import texts_to_ask
from simdx.classifier import Classifier
from simdx.service.audit_chain import KINDS
from simdx.service.batching import Ask
from simdx.service.made import MADE, panel_of, panel_with_bank
from simdx.service.state import (
    MayAdmin,
    MayClassify,
    MayReadMetrics,
    caller_of,
    check_panel,
    described,
    state_of,
)
from simdx.service.wire import EXAMPLE_TEXT, Body, Json, OfCase, OfPanel, Problem, Text, dump, parse, takes
from simdx.types import NONE_OF_THESE

router = APIRouter()
FOUND = 12  # conditions that a search gives
CLASSIFY = "/v1/classify"
MOST_TEXTS = 256
MOST_LABELS = 20  # of a panel made of the library
COVERAGE = 0.9  # of intervals
AnswerId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}\.[0-9]{1,4}$")]
AnswerHeader = Annotated[
    str, Field(pattern=r"^[0-9a-f]{32}(\.[0-9]{1,4})?$")
]  # without the number of the text: its first
Name = Annotated[str, Field(min_length=1, max_length=200)]  # of the library


# --------------------------------------------------------------------------- what is sent and answered


class ClassifyBody(OfCase):
    """One text, or several at once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"panel": "oral-lesions", "text": EXAMPLE_TEXT, "prior": {"oral mucocele": 0.5}},
                {"panel": "oral-lesions", "texts": [EXAMPLE_TEXT, "A smooth, red, burning tongue."]},
            ],
            # The rule the validator below enforces, in the schema's own words.
            "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
        }
    )

    text: Text | None = None
    texts: list[Text] | None = Field(None, min_length=1, max_length=MOST_TEXTS, fail_fast=True)
    labels: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=MOST_LABELS,
        description="Names of the library (GET /v1/library), for the panel `made`.",
    )
    explain: bool = Field(True, description="Also the sentences that matter, and the flip.")
    draws: int | None = Field(
        None, ge=0, le=500, description="Answer with what the page shows, and this many simplex draws."
    )
    preview: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="The `preview` of an answer to the same text: the posterior alone, not recorded.",
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise PydanticCustomError("text_or_texts", "give either text or texts")
        if self.text is None and (self.draws is not None or self.preview is not None):
            raise PydanticCustomError("text_or_texts", "draws and preview are for one text")
        if self.labels is not None and (self.panel, self.method) != (MADE, "auto"):
            raise PydanticCustomError("made_panel", "labels are for the panel 'made' and the method 'auto'")
        return self


class AskBody(OfPanel):
    """Unlabelled texts, some of which are to be labelled."""

    texts: list[Text] = Field(min_length=8, max_length=2_000, fail_fast=True)
    count: int = Field(12, ge=8, le=20, description="How many to label.")


class FeedbackBody(Body):
    """The final diagnosis of a case, once it is known."""

    answer: str = Field(
        pattern=r"^[0-9a-f]{32}(\.[0-9]{1,4})?$",
        description="The Simdx-Answer header of the answer; with .N for text N of several, from 0.",
    )
    label: str | None = Field(
        max_length=500, description="A label of the panel, or null: it was none of them."
    )


class ManyOut(BaseModel):
    results: list[Answer]


class AskOut(BaseModel):
    ask: list[int]


Interval = Annotated[list[float], Field(min_length=2, max_length=2)]  # a list: validators differ on tuples


class PreviewOut(BaseModel):
    """What bars show under another prior. No answer: it has no label, no decision and no id."""

    outcomes: dict[str, float]
    intervals: dict[str, Interval]


class PageOut(PreviewOut):
    """An answer with what the page shows beside it."""

    answer_id: str | None
    preview: str
    answer: Answer
    words: dict[str, Any]
    pairs: list[SentencePair]
    draws: list[list[float]]


# --------------------------------------------------------------------------- what the page shows


def intervals(answer: Answer) -> dict[str, tuple[float, float]]:
    """label -> how far its posterior probability could move if the bank were simulated again.

    A soft-kernel posterior is a weighted share among the simulations that carry it; `effective_simulations`
    says how many those are worth. The interval is the Jeffreys interval of a share seen in that many draws,
    of what none of these leaves to the labels. It speaks of the bank's finite size alone, not of whether the
    simulator writes like the clinic.
    """
    p = np.clip(list(answer.among_labels.values()), 0, 1)
    n = max(0.0, answer.effective_simulations or 0.0)
    possible = np.array([answer.provenance.prior[label] > 0 for label in answer.among_labels])
    scale = possible * (1 - (answer.out_of_class or 0.0))
    ends = betaincinv(n * p + 0.5, n * (1 - p) + 0.5, [[(1 - COVERAGE) / 2], [(1 + COVERAGE) / 2]])
    low, high = scale * np.minimum(ends[0], p), scale * np.maximum(ends[1], p)
    return dict(zip(answer.among_labels, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def bars(answer: Answer) -> dict[str, Any]:
    return {"outcomes": answer.posterior, "intervals": intervals(answer)}


def beside(classifier: Classifier, ask: Ask, draws: int) -> dict[str, Any]:
    """What the page shows beside an answer."""
    (answer,), (text,) = ask.answers, ask.texts
    drawn = classifier.simplex_draws_observed(ask.observed, ask.prior, draws) if draws else ()
    words = {
        "headline": answer.headline, "leading": answer.leading, "uncertainty": answer.uncertainty_words,
        "uncertainty_is_its_own": answer.second_order_is_its_own, "alarm": answer.alarm_words,
        "outside": answer.outside_words,
    }  # fmt: skip
    return {
        **bars(answer),
        "words": words,
        "pairs": [pair.model_dump() for pair in classifier.pairs(text, answer)],
        "draws": [[round(float(v), 4) for v in row] for row in drawn],
    }


# --------------------------------------------------------------------------- routes

_SAID = "The answer's id, for POST /v1/feedback; text N of several is <id>.N, from 0."
Answered = Answer | ManyOut | PageOut | PreviewOut
ANSWER_HEADER = {"Simdx-Answer": {"description": _SAID, "schema": {"type": "string"}}}


@router.post(
    CLASSIFY,
    summary="Posterior, uncertainty, decision and evidence for one case or several",
    description=(
        "Each answer is what `simdx classify --json` prints. With several texts and a method other than the "
        "default, and for any request while the service is busy, `sentences` and `flip` are null; a note in "
        "the provenance says so in the latter case. With `draws` the answer comes with what the page shows "
        "beside it; with `preview` the posterior comes alone, for a slider that moves: no answer, no record."
    ),
    responses={200: {"model": Answered, "description": "The answer", "headers": ANSWER_HEADER}},
    openapi_extra=takes(ClassifyBody),
)
async def classify(request: Request) -> Response:
    state = state_of(request)
    request.scope.setdefault("route", router.routes[0])  # for the meters: `app` asks past the framework
    caller, body = caller_of(request, "classify"), parse(ClassifyBody, request)
    code, made = "", None
    if body.draws is not None or body.preview is not None:
        asked_of = "\n".join((body.panel, *(body.labels or ())))
        code = state.preview_code(caller, asked_of, body.text or "")
    if body.preview is not None and not hmac.compare_digest(body.preview, code):
        raise Problem("bad-input", "preview: it is not of an answer you got for this text; ask without it.")
    if body.labels is not None:
        check_panel(caller, body.panel)
        made = await state.workshop.get(caller.name, panel_with_bank, dict.fromkeys(body.labels, ""))

    def write(told: Ask) -> bytes:
        if body.preview is not None:
            return dump(bars(told.answers[0]))
        if body.draws is not None:
            classifier = made or state.registry.get(told.panel, told.method)
            answer_id = None if state.audit is None else f"{told.request}.0"
            page = beside(classifier, told, body.draws)
            return dump({"answer_id": answer_id, "preview": code, "answer": told.answers[0], **page})
        return told.bodies[0] if body.text is not None else b'{"results":[' + b",".join(told.bodies) + b"]}"

    texts = [body.text] if body.text is not None else body.texts or ()
    ask = state.asked(
        request, caller, body.panel, body.method, body.prior, texts, write=write, made=made,
        explain=body.explain and body.preview is None, kind="answer" if body.preview is None else None,
    )  # fmt: skip
    return await state.answered(request, ask)


@router.get("/v1/panels", summary="The panels this service answers for")
async def panels(request: Request, caller: MayClassify) -> Response:
    registry = state_of(request).registry
    return Json({"panels": [registry.description(name) for name in registry.names if caller.may_ask(name)]})


@router.get("/v1/panels/{panel}", summary="One panel: its labels, codes, bank and methods")
async def panel(
    panel: Annotated[str, Field(max_length=200)], request: Request, caller: MayClassify
) -> Response:
    check_panel(caller, panel)
    return Json(state_of(request).registry.description(panel))


@router.get("/v1/library", summary="Conditions and topics of the library, by name, alias, code or meaning")
async def search(request: Request, caller: MayClassify, q: Annotated[Name, Query()]) -> Response:
    if not q.strip():
        raise Problem("bad-input", "q: give a name, a code or some words.")
    # Beside the engine, one at a time: a meaning is embedded.
    found = await state_of(request).workshop.run(caller.name, library.find, q, FOUND)
    return Json({"found": [{**asdict(match.condition), "how": match.how} for match in found]})


@router.get("/v1/library/panel", summary="A panel of labels that the library knows, and its file")
async def library_panel(
    caller: MayClassify, label: Annotated[list[Name], Query(min_length=2, max_length=MOST_LABELS)]
) -> Response:
    check_panel(caller, MADE)
    made, file = panel_of(label)
    more = {"title": "Your panel: " + ", ".join(made.names), "methods": ["auto"]}
    return Json({"panel": {**described(made), **more}, "file": file})


@router.post(
    "/v1/ask",
    summary="Which of some unlabelled texts to label first",
    description=(
        "Places in `texts`, chosen by strata of the scores, for `simdx panel calibrate --data`. No posterior "
        "leaves the service, so nothing is recorded."
    ),
    responses={200: {"model": AskOut, "description": "Places in `texts`, from 0"}},
    openapi_extra=takes(AskBody),
)
async def ask(request: Request, caller: MayClassify) -> Response:
    body, state = parse(AskBody, request), state_of(request)
    check_panel(caller, body.panel)
    classifier = state.registry.check(body.panel, state.registry.methods[0])
    state.check_length(body.texts)
    chosen = await state.workshop.run(caller.name, texts_to_ask, classifier, body.texts, body.count)
    return Json({"ask": [int(i) for i in chosen]})


@router.post(
    "/v1/feedback",
    summary="The final diagnosis of an answered case, once it is known",
    status_code=201,
    openapi_extra=takes(FeedbackBody),
)
async def feedback(request: Request, caller: MayClassify) -> Response:
    body, state = parse(FeedbackBody, request), state_of(request)
    found = await state.find(body.answer, caller)
    if found.answer is None:
        raise Problem("unknown-answer", "No answer with this id is in the audit log.")
    names = state.registry.panel(found.panel).names
    if body.label is not None and body.label not in names:
        raise Problem("bad-input", f"label: give one of {', '.join(names)}, or null for none of them.")
    agrees = found.to_json()["answer"]["label"] == (NONE_OF_THESE if body.label is None else body.label)
    said = {"label": body.label, "agrees": agrees}
    number = await state.record_judgement(request, caller, "feedback", (found, said))
    state.meters.feedback.labels(found.panel, str(agrees).lower()).inc()
    return Json({"id": number, "agrees": agrees}, 201)


@router.get(
    "/v1/answers/{answer}", summary="What the audit log has of one answer: for the caller it was given to"
)
async def answer(answer: AnswerHeader, request: Request, caller: MayClassify) -> Response:
    return Json({"record": (await state_of(request).find(answer, caller)).to_json()})


@router.get("/v1/audit", summary="The audit log, latest first (scope admin)")
async def audit(
    request: Request,
    caller: MayAdmin,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    kind: Annotated[str | None, Query(pattern=f"^({'|'.join(KINDS)})$")] = None,
    id: Annotated[AnswerId | None, Query()] = None,
) -> Response:
    state = state_of(request)
    page = await asyncio.to_thread(state.log().page, limit=limit, before=before, kind=kind, id=id)
    count, head = await asyncio.to_thread(state.log().head)
    await state.record_read(request, caller, id=id, kind=kind, before=before, limit=limit)
    return Json({"records": [r.to_json() for r in page], "count": count, "head": head})


@router.get(
    "/v1/audit/verify", summary="Walk the whole hash chain, past this service's checkpoints (scope admin)"
)
async def audit_verify(request: Request, caller: MayAdmin) -> Response:
    state = state_of(request)
    verdict = await asyncio.to_thread(state.log().verify)
    await state.record_read(request, caller)
    return Json(asdict(verdict))


@router.get("/healthz", summary="The process is alive")
async def healthz() -> Response:
    return Json({"status": "ok", "version": __version__})


@router.get("/readyz", summary="Panels are loaded and the audit log answers")
async def readyz(request: Request) -> Response:
    state = state_of(request)
    if state.audit is not None:
        await asyncio.to_thread(state.audit.ready)
    return Json({"status": "ready", "panels": list(state.registry.names)})


@router.get(
    "/metrics",
    summary="Prometheus metrics (scope metrics or admin where tokens are needed)",
    response_class=PlainTextResponse,
)
async def metrics(request: Request, caller: MayReadMetrics) -> Response:
    return state_of(request).meters.exposition()
