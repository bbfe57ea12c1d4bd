"""Typed decisions: `POST /v1/systemone`, a state and questions in, probabilities out, no text.

A `choice` whose options are the labels of a served panel is answered by that panel. Other questions become a
panel of their own, made on the fly: an option that the library knows is described by the library's texts,
any other by its own words. A `noul` has the options true and false, a `score` one for each level.

The shape has no way to say "I do not know", so that is said beside it, in fields that begin with `x_`: none
of these, the decision, what the probabilities rest on, the evidence.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from cachetools import LRUCache
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from simdx import __version__, library
from simdx.classifier import Classifier, OpenedPanel
from simdx.decide.policy import Policy
from simdx.decide.thresholds import PanelFiles
from simdx.embedders import Embedder, embed_texts, get_embedder
from simdx.methods.calibration import rehearse
from simdx.methods.panel_data import PanelData
from simdx.service import schemas
from simdx.service.auth import Caller
from simdx.service.batching import InferenceRequest, InferenceResult
from simdx.service.config import Limits
from simdx.service.problems import Problem
from simdx.service.registry import Registry
from simdx.service.schemas import MADE
from simdx.service.state import AppState, MayClassify, check_panel, request_id, state_of
from simdx.service.wire import Json, dump
from simdx.types import NONE_OF_THESE, Bank, EmbeddedBank, Label, Panel, content_hash

MOST_QUESTIONS = 64
MOST_OPTIONS = 255
MOST_LEVELS = 10
TEXTS_EACH = 8  # of the library, for an option
WORLD_STEP = 5  # every fifth condition stands for what the options are not
EMBEDDER = "wordllama"  # unless the service has another for all panels
KEPT = 64  # panels made on the fly

Done = TypeVar("Done")
Describe = Callable[[Mapping[str, str]], tuple[Panel, Bank]]
Words = str | dict[str, JsonValue] | list[JsonValue] | None
Name = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
_LOOSE = ConfigDict(extra="ignore", strict=True)  # clients send fields of their own


class NoulCriteria(BaseModel):
    model_config = _LOOSE

    true: Words = None
    false: Words = None


class NoulQuestion(BaseModel):
    model_config = _LOOSE

    type: Literal["noul"]
    instructions: Words = None
    criteria: NoulCriteria | None = None

    @model_validator(mode="after")
    def _asked(self) -> Self:
        if not any(map(said, (self.instructions, self.told.true))):
            raise PydanticCustomError("nothing_asked", "give instructions, or the criteria of true")
        return self

    @property
    def told(self) -> NoulCriteria:
        return self.criteria or NoulCriteria()

    @property
    def options(self) -> dict[str, str]:
        return {"true": said(self.told.true) or said(self.instructions), "false": said(self.told.false)}


class ChoiceQuestion(BaseModel):
    model_config = _LOOSE

    type: Literal["choice"]
    instructions: Words = None
    criteria: Annotated[dict[Name, Words], Field(min_length=1, max_length=MOST_OPTIONS)]

    @property
    def options(self) -> dict[str, str]:
        return {name: said(words) for name, words in self.criteria.items()}


class ScoreQuestion(BaseModel):
    model_config = _LOOSE

    type: Literal["score"]
    instructions: Words = None
    criteria: Annotated[
        list[str | dict[str, JsonValue] | list[JsonValue]],
        Field(min_length=1, max_length=MOST_LEVELS, fail_fast=True),
    ]

    @property
    def options(self) -> dict[str, str]:
        return {str(i): said(words) or f"level {i}" for i, words in enumerate(self.criteria)}


Question = Annotated[ChoiceQuestion | ScoreQuestion | NoulQuestion, Field(discriminator="type")]


class SystemOneBody(BaseModel):
    """A state and questions about it; `model` may be anything."""

    model_config = schemas.shown(
        {
            "state": schemas.EXAMPLE_TEXT,
            "questions": {
                "lesion": {"type": "choice", "criteria": {"oral mucocele": None, "oral lichen planus": None}},
                "trauma": {"type": "noul", "instructions": "It came after a bite or another injury."},
            },
        }
    ) | _LOOSE  # fmt: skip

    state: str | dict[str, JsonValue] | list[JsonValue]
    questions: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=500)], Question],
        Field(min_length=1, max_length=MOST_QUESTIONS),
    ]
    model: Annotated[str, Field(max_length=200)] = ""


def said(words: JsonValue) -> str:
    """Any JSON as text: a line for each value, with its key."""
    return "\n".join(_lines(words)).strip()


def _lines(value: JsonValue, key: str = "") -> Iterator[str]:
    before = f"{key}: " if key else ""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _lines(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, key)
    elif value is not None:
        yield before + (value if isinstance(value, str) else dump(value).decode())


# --------------------------------------------------------------------------- panels made on the fly


class Workshop:
    """Panels made of a question's options: one at a time, beside the engine; the last ones are kept.

    Callers take turns: of each caller one question is worked on or waits for the thread.
    """

    def __init__(self, embedder: str | None, allow_remote: bool, limits: Limits) -> None:
        self._embedder = get_embedder(embedder or EMBEDDER, allow_remote=allow_remote)
        self._limits = limits
        self._kept: LRUCache[str, Classifier] = LRUCache(KEPT)
        self._waiting: Counter[str] = Counter()  # questions by caller
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._thread = ThreadPoolExecutor(1, "simdx-workshop")

    async def get(self, caller: str, describe: Describe, options: Mapping[str, str]) -> Classifier:
        """The panel that `describe` makes of these options."""
        return await self.run(caller, self._make, describe, options)

    async def run(self, caller: str, work: Callable[..., Done], *given: Any) -> Done:
        """Work that takes its time, for this caller."""
        if self._waiting[caller] >= MOST_QUESTIONS:
            raise Problem("too-many-requests", "Too many of your questions are waiting.", retry_after=1)
        self._waiting[caller] += 1
        try:
            async with asyncio.timeout(self._limits.seconds), self._turn[caller]:
                return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
        except TimeoutError:
            raise Problem("timeout", "Making the panel took too long.", retry_after=5) from None
        finally:
            self._waiting[caller] -= 1

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, describe: Describe, options: Mapping[str, str]) -> Classifier:
        key = content_hash(describe.__name__, *(part for pair in options.items() for part in pair))
        if key not in self._kept:
            made = Classifier(opened(*describe(options), self._embedder), method="auto")
            made.infer(made.bank.texts[0], explain=False)  # what is found on first use is found here
            self._kept[key] = made
        return self._kept[key]


def opened(panel: Panel, bank: Bank, embedder: Embedder) -> OpenedPanel:
    """The panel in memory alone: what callers ask leaves nothing on disk but its record."""
    vectors = embed_texts(embedder, bank.texts)
    background = embed_texts(embedder, bank.background) if bank.background else None
    embedded = EmbeddedBank(vectors, bank.label_index, len(bank.labels), embedder.blocks, background)
    data = PanelData(panel, bank, embedded, embedder)
    data = replace(data, calibration=rehearse(data))
    return OpenedPanel(data, lambda: PanelFiles.read(None), own_bank=True, policy=Policy(), none_prior=None)


def made_of(options: Mapping[str, str]) -> tuple[Panel, Bank]:
    """Options with their words as a panel with a bank; a background where the library describes all."""
    texts = {name: _from_library(name, words) for name, words in options.items()}
    known = {name: found for name, found in texts.items() if found}
    named = [library.meant_by(name) or library.meant_by(options[name]) for name in known]
    labels = tuple(Label(label_of(name)) for name in options)
    related = library.related_to([Label(match.condition.name) for match in named if match is not None])
    world = _world(related)
    for name, words in options.items():
        if not texts[name]:
            about = words if name in ("true", "false") or name.isdigit() else f"{name}: {words}".rstrip(": ")
            texts[name] = (about,) if about else world  # a noul without words for false: anything else
    panel = Panel(MADE, labels, register="general", world=False)
    counts = [len(texts[name]) for name in options]
    return panel, Bank(
        panel=MADE,
        labels=panel.names,
        texts=tuple(text for name in options for text in texts[name]),
        label_index=np.repeat(np.arange(len(options)), counts),
        background=world if len(known) == len(options) else (),
        name=MADE,
    )


def label_of(option: str) -> str:
    """The option as a label: none of these is an outcome of its own beside the labels."""
    return f"{option} (option)" if option.casefold() == NONE_OF_THESE else option


def _from_library(name: str, words: str) -> tuple[str, ...]:
    match = library.meant_by(name) or (library.meant_by(words) if words else None)
    if match is None:
        return ()
    own = [text.text for text in library.texts() if text.condition == match.condition.name]
    return tuple(own[:: max(1, len(own) // TEXTS_EACH)][:TEXTS_EACH])


def _world(related: frozenset[str]) -> tuple[str, ...]:
    """A text of every few conditions and topics that the options do not speak of."""
    first: dict[str, str] = {}
    for text in library.texts():
        if text.condition not in related:
            first.setdefault(text.condition, text.text)
    return tuple(list(first.values())[::WORLD_STEP])


# --------------------------------------------------------------------------- from an answer to the shape


def typed(
    question: ChoiceQuestion | ScoreQuestion | NoulQuestion, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """An answer of the engine in the question's own shape."""
    p = {option: float(answer["among_labels"][label_of(option)]) for option in question.options}
    found: dict[str, Any] = {"type": question.type}
    if isinstance(question, NoulQuestion):
        found["noul"] = p["true"]
    elif isinstance(question, ChoiceQuestion):
        found |= {"choice": max(p, key=lambda option: p[option]), "probabilities": p}
        found["confidence"] = choice_confidence(list(p.values()))
    else:
        found |= {
            "score": sum(i * value for i, value in enumerate(p.values())),
            "legend": {str(i): level for i, level in enumerate(question.criteria)},
            "probabilities": p,
            "confidence": score_confidence(list(p.values())),
        }
    return found | {
        "x_none_of_these": answer["out_of_class"],
        "x_decision": answer["decision"],
        "x_conformal_set": answer["conformal_set"],
        "x_calibration": answer["calibration"],
        "x_evidence": answer["evidence"],
        "x_panel": answer["panel"],
        "x_upstream": (answer["voices"] or {}).get("upstream"),  # what the server behind this one said
    }


def choice_confidence(p: list[float]) -> float:
    """How far the largest probability is from chance: 0 at chance, 1 at certainty."""
    n = len(p)
    return 1.0 if n == 1 else min(1.0, max(0.0, (max(p) - 1 / n) / (1 - 1 / n)))


def score_confidence(p: list[float]) -> float:
    """One minus the mean distance from the likeliest level, in units of that of even probabilities."""
    n, mode = len(p), p.index(max(p))
    if n == 1:
        return 1.0
    even = sum(abs(i - (n - 1) / 2) for i in range(n)) / n
    return min(1.0, max(0.0, 1 - sum(value * abs(i - mode) for i, value in enumerate(p)) / even))


# --------------------------------------------------------------------------- the routes

router = APIRouter()


@router.post(
    "/v1/systemone",
    summary="Typed decisions: choice, score and noul questions about a state",
    description=(
        "Probabilities of the allowed answers. What that shape cannot say is in fields beside them: "
        "`x_none_of_these` (null where it was not weighed), `x_decision`, `x_calibration`, `x_evidence`. "
        "Refusals have the shape that clients of this address expect: `detail`, with `loc` or `error_type`."
    ),
    tags=["classify"],
    responses={200: {"description": "An answer to every question"}},
    openapi_extra=schemas.takes(SystemOneBody),
)
async def systemone(request: Request, caller: MayClassify) -> Response:
    body, state = schemas.parse(SystemOneBody, request), state_of(request)
    text, limit = said(body.state), state.config.limits.text_characters
    if not text:
        raise Problem("empty-text", "state: give the description of a case.")
    options = [question.options for question in body.questions.values()]
    criteria = sum(len(name) + len(words) for some in options for name, words in some.items())
    if len(text) > limit or criteria > limit:
        raise Problem("too-large", f"A state, and all criteria together, are at most {limit:,} characters.")
    asked = []
    for number, question in enumerate(body.questions.values()):
        panel = _served(state.registry, question)
        if panel is None:
            check_panel(caller, MADE)
        asked.append((number, question, panel))
    requests = [await _ask(request, state, caller, *one, text) for one in asked]
    told = await asyncio.gather(*(state.tell(one) for one in requests))
    answers = b",".join(dump(name) + b":" + one.sent for name, one in zip(body.questions, told, strict=True))
    words = sum(len(part.split()) for part in (text, *(w for some in options for w in some.values())))
    rest = dump({"model": MODEL, "usage": {"input_tokens": words, "output_tokens": 0}})
    whole = b'{"answers":{' + answers + b"}," + rest[1:]
    return Json(whole, headers={"Simdx-Answer": request_id(request)})


def _served(registry: Registry, question: ChoiceQuestion | ScoreQuestion | NoulQuestion) -> str | None:
    """The served panel whose labels these are."""
    if not isinstance(question, ChoiceQuestion):
        return None
    named = set(question.criteria)
    return next((name for name in registry.names if set(registry.panel(name).names) == named), None)


async def _ask(
    request: Request,
    state: AppState,
    caller: Caller,
    number: int,
    question: ChoiceQuestion | ScoreQuestion | NoulQuestion,
    panel: str | None,
    text: str,
) -> InferenceRequest:
    def write(told: InferenceResult) -> bytes:
        return dump(typed(question, told.answers[0].to_json()))

    method = state.registry.methods[0]
    if panel is not None:
        return state.asked(
            request, caller, panel, method, None, (text,), explain=False, write=write, first=number
        )
    made = await request.app.state.workshop.get(caller.name, made_of, question.options)
    return InferenceRequest(
        MADE, method, made.prior(None), (text,), caller.name, request_id(request), explain=False,
        write=write, first=number, classifier=made,
    )  # fmt: skip


MODEL = f"simdx-{__version__}"


@router.get(
    "/v1/models",
    summary="What answers /v1/systemone",
    tags=["classify"],
    responses={200: {"description": "One model, whatever a request calls it"}},
)
async def models(caller: MayClassify) -> Response:
    told = "Panels of labels with simulated texts; any other options as a panel made on the fly."
    return Json(
        {"models": [{"name": MODEL, "description": told, "release_date": ""}]}
    )  # a package knows none
