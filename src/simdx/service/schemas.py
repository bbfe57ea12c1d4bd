"""Bodies at the border: what a request must look like, and what OpenAPI says an answer looks like.

`parse` is the one way in: a body is read and checked once. `gate` bounds its size and its number of values.
"""

from functools import cache
from typing import Annotated, Any, Self, TypeVar

from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from simdx.answer import Answer, SentencePair
from simdx.service.problems import from_validation

MOST_TEXTS = 256
MOST_LABELS = 20  # of a panel made of the library
MADE = "made"  # the name of every panel made on the fly: for tokens, metrics and the audit log
EXAMPLE_TEXT = (
    "A 24-year-old noticed a soft, bluish, painless swelling of the lower lip two weeks after biting it; "
    "it emptied once and came back."
)
EXAMPLE_CLASSIFY: JsonDict = {
    "panel": "oral-lesions",
    "text": EXAMPLE_TEXT,
    "prior": {"oral mucocele": 0.5, "oral squamous cell carcinoma": 0.1},
}


def shown(*examples: JsonDict, **more: Any) -> ConfigDict:
    """What OpenAPI shows of a body."""
    return ConfigDict(json_schema_extra={"examples": list(examples), **more})


Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], request: Request) -> Model:
    """The request's body, which the gate has read, as this model; or a Problem."""
    try:
        return model.model_validate_json(request.scope["simdx.body"])
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise from_validation(found, _names(model)) from None


@cache
def _names(model: type[BaseModel]) -> frozenset[str]:
    """Every field of a body and of its parts."""
    schema = model.model_json_schema()
    return frozenset(
        n for part in (schema, *schema.get("$defs", {}).values()) for n in part.get("properties", ())
    )


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route that parses this body; `app` adds the schema itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty_text", "give the description of a case")
    return text


Text = Annotated[
    str, Field(min_length=1, description="The description of one case."), AfterValidator(_filled)
]
Name = Annotated[str, Field(min_length=1, max_length=200)]  # of the library
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Body(BaseModel):
    """Strict: a number is not a string, and true is not 1."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Asked(Body):
    panel: str = Field(max_length=200, description="A panel of GET /v1/panels.")


class _Question(_Asked):
    prior: dict[str, Probability] | None = Field(
        None,
        max_length=2_000,
        description="Prior probability by label; labels not named share the rest. Default: uniform.",
    )
    method: str = Field("auto", max_length=40, description="A method of GET /v1/panels/{id}.")


class ClassifyBody(_Question):
    """One text, or several at once."""

    model_config = shown(
        EXAMPLE_CLASSIFY,
        {"panel": "oral-lesions", "texts": [EXAMPLE_TEXT, "A smooth, red, burning tongue."]},
        # The rule the validator below enforces, in the schema's own words.
        oneOf=[{"required": ["text"]}, {"required": ["texts"]}],
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

    def all_texts(self) -> list[str]:
        return [self.text] if self.text is not None else list(self.texts or ())


class AskBody(_Asked):
    """Unlabelled texts, some of which are to be labelled."""

    model_config = shown(
        {"panel": "oral-lesions", "texts": [f"{EXAMPLE_TEXT} Visit {i}." for i in range(8)], "count": 8}
    )

    texts: list[Text] = Field(min_length=8, max_length=2_000, fail_fast=True)
    count: int = Field(12, ge=8, le=20, description="How many to label.")


class FeedbackBody(Body):
    """The final diagnosis of a case, once it is known."""

    model_config = shown({"answer": "3f2b8c1e9a7d4f60b5c2d1e0f9a8b7c6.0", "label": "oral mucocele"})

    answer: str = Field(
        pattern=r"^[0-9a-f]{32}(\.[0-9]{1,4})?$",
        description="The Simdx-Answer header of the answer; with .N for text N of several, from 0.",
    )
    label: str | None = Field(
        max_length=500, description="A label of the panel, or null: it was none of them."
    )


def _reference(kind: str) -> Any:
    return Field(pattern=rf"^{kind}/[A-Za-z0-9.\-]{{1,64}}$", description=f"{kind}/ID, on your own server.")


Display = Annotated[str | None, Field(max_length=200, pattern=r"^[^\x00-\x1f]*\S[^\x00-\x1f]*$")]


class Subject(Body):
    reference: str = _reference("Patient")
    display: Display = None


class Encounter(Body):
    reference: str = _reference("Encounter")
    display: Display = None


class FhirBody(_Question):
    """A case to be answered as a FHIR R4 RiskAssessment."""

    model_config = shown(
        {"panel": "oral-lesions", "text": EXAMPLE_TEXT, "subject": {"reference": "Patient/example"},
         "encounter": {"reference": "Encounter/example"}}
    )  # fmt: skip

    text: Text
    subject: Subject | None = None
    encounter: Encounter | None = None


# --------------------------------------------------------------------------- answers, for OpenAPI only


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
