"""Typed decisions: `POST /v1/systemone`, a state and questions in, probabilities out, no text.

A `choice` whose options are the labels of a served panel is answered by that panel; other questions become a
panel of their own (`made`). A `noul` has the options true and false, a `score` one for each level.

The shape has no way to say "I do not know", so that is said beside it, in fields that begin with `x_`: none
of these, the decision, what the probabilities rest on, the evidence.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from simdx import __version__
from simdx.service.auth import Caller
from simdx.service.batching import Ask
from simdx.service.made import MADE, label_of, made_of
from simdx.service.state import AppState, MayClassify, Registry, check_panel, request_id, state_of
from simdx.service.wire import EXAMPLE_TEXT, Json, Problem, dump, parse, refusals, takes

MODEL = f"simdx-{__version__}"
MOST_QUESTIONS = 64
MOST_OPTIONS = 255
MOST_LEVELS = 10

Said = str | dict[str, JsonValue] | list[JsonValue]
Words = Said | None
Key = Annotated[str, Field(min_length=1, max_length=500)]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)  # clients send fields of their own


class NoulCriteria(_Sent):
    true: Words = None
    false: Words = None


class NoulQuestion(_Sent):
    type: Literal["noul"]
    instructions: Words = None
    criteria: NoulCriteria | None = None

    @model_validator(mode="after")
    def _asked(self) -> Self:
        if not self.options["true"]:
            raise PydanticCustomError("nothing_asked", "give instructions, or the criteria of true")
        return self

    @property
    def options(self) -> dict[str, str]:
        told = self.criteria or NoulCriteria()
        return {"true": said(told.true) or said(self.instructions), "false": said(told.false)}


class ChoiceQuestion(_Sent):
    type: Literal["choice"]
    instructions: Words = None
    criteria: dict[Annotated[Key, Field(pattern=r"\S")], Words] = Field(min_length=1, max_length=MOST_OPTIONS)

    @property
    def options(self) -> dict[str, str]:
        return {name: said(words) for name, words in self.criteria.items()}


class ScoreQuestion(_Sent):
    type: Literal["score"]
    instructions: Words = None
    criteria: list[Said] = Field(min_length=1, max_length=MOST_LEVELS, fail_fast=True)

    @property
    def options(self) -> dict[str, str]:
        return {str(i): said(words) or f"level {i}" for i, words in enumerate(self.criteria)}


Question = ChoiceQuestion | ScoreQuestion | NoulQuestion


class SystemOneBody(_Sent):
    """A state and questions about it; `model` may be anything."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "state": EXAMPLE_TEXT,
                    "questions": {
                        "lesion": {
                            "type": "choice",
                            "criteria": {"oral mucocele": None, "gout": None},
                        },
                        "trauma": {"type": "noul", "instructions": "It came after a bite or injury."},
                    },
                }
            ]
        }
    )

    state: Said
    questions: dict[Key, Annotated[Question, Field(discriminator="type")]] = Field(
        min_length=1, max_length=MOST_QUESTIONS
    )
    model: str = Field("", max_length=200)


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


# --------------------------------------------------------------------------- from an answer to the shape


def typed(question: Question, answer: Mapping[str, Any]) -> dict[str, Any]:
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
    responses={
        200: {"description": "An answer to every question"},
        **refusals("application/json", type="object", description="With `detail`"),
    },
    openapi_extra=takes(SystemOneBody),
)
async def systemone(request: Request, caller: MayClassify) -> Response:
    body, state = parse(SystemOneBody, request), state_of(request)
    text, limit = said(body.state), state.config.limits.text_characters
    if not text:
        raise Problem("empty-text", "state: give the description of a case.")
    options = [question.options for question in body.questions.values()]
    criteria = sum(len(name) + len(words) for some in options for name, words in some.items())
    if len(text) > limit or criteria > limit:
        raise Problem("too-large", f"A state, and all criteria together, are at most {limit:,} characters.")
    panels = [_served(state.registry, question) for question in body.questions.values()]
    for panel in panels:
        check_panel(caller, panel or MADE)  # before any is made
    asked = [
        await _ask(request, state, caller, panel, question, number, text)
        for number, (panel, question) in enumerate(zip(panels, body.questions.values(), strict=True))
    ]
    told = await asyncio.gather(*(state.tell(one) for one in asked))
    answers = b",".join(dump(name) + b":" + one.sent for name, one in zip(body.questions, told, strict=True))
    words = sum(len(part.split()) for part in (text, *(w for some in options for w in some.values())))
    rest = dump({"model": MODEL, "usage": {"input_tokens": words, "output_tokens": 0}})
    whole = b'{"answers":{' + answers + b"}," + rest[1:]
    return Json(whole, headers={"Simdx-Answer": request_id(request)})


def _served(registry: Registry, question: Question) -> str | None:
    """The served panel whose labels these are."""
    named = set(question.options) if isinstance(question, ChoiceQuestion) else None
    return next((name for name in registry.names if set(registry.panel(name).names) == named), None)


async def _ask(
    request: Request,
    state: AppState,
    caller: Caller,
    panel: str | None,
    question: Question,
    number: int,
    text: str,
) -> Ask:
    def write(told: Ask) -> bytes:
        return dump(typed(question, told.answers[0].to_json()))

    made = None if panel else await state.workshop.get(caller.name, made_of, question.options)
    return state.asked(
        request, caller, panel or MADE, state.registry.methods[0], None, (text,), explain=False, write=write,
        first=number, made=made,
    )  # fmt: skip


@router.get(
    "/v1/models",
    summary="What answers /v1/systemone",
    tags=["classify"],
    responses={200: {"description": "One model, whatever a request calls it"}},
)
async def models(caller: MayClassify) -> Response:
    told = "Panels of labels with simulated texts; any other options as a panel made on the fly."
    model = {"name": MODEL, "description": told, "release_date": ""}  # a package knows none
    return Json({"models": [model]})
