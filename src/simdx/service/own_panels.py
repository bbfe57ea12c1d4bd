"""A caller's own panels: labels found in the library, a panel made of them, and which texts to label.

Nothing is kept on disk. A panel of the library's labels is the one that `simdx panel new` writes. Here it has
some texts of each label, and stands against one text of every emergency and of every fourth other condition:
it must answer in seconds, and the whole library takes half a minute to fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from simdx import library
from simdx.archive import texts_to_ask
from simdx.bank.files import assemble
from simdx.panels import disclaimer
from simdx.panels.load import parse_panel, scaffold
from simdx.service import schemas
from simdx.service.problems import Problem
from simdx.service.registry import described
from simdx.service.state import MayClassify, check_panel, state_of
from simdx.service.systemone import MADE, Workshop
from simdx.service.wire import Json
from simdx.types import Bank, Panel

FOUND = 12  # conditions that a search gives
TEXTS_EACH = 24  # of a label
EVERY = 4  # of the conditions that are no emergency, every fourth stands against the labels

router = APIRouter()
Name = Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/v1/library", summary="Conditions and topics of the library, by name, alias, code or meaning")
async def search(request: Request, caller: MayClassify, q: Annotated[Name, Query()]) -> Response:
    if not q.strip():
        raise Problem("bad-input", "q: give a name, a code or some words.")
    # Beside the engine, one at a time: a meaning is embedded.
    found = await _workshop(request).run(caller.name, library.find, q, FOUND)
    return Json({"found": [{**asdict(match.condition), "how": match.how} for match in found]})


@router.get("/v1/library/panel", summary="A panel of labels that the library knows, and its file")
async def panel(
    caller: MayClassify,
    label: Annotated[list[Name], Query(min_length=2, max_length=schemas.MOST_LABELS)],
) -> Response:
    check_panel(caller, MADE)
    made, file = panel_of(label)
    title = "Your panel: " + ", ".join(made.names)
    methods = ["auto"]
    return Json(
        {"panel": {**described(made), "title": title, "methods": methods, "disclaimer": disclaimer(made)},
         "file": file}
    )  # fmt: skip


@router.post(
    "/v1/ask",
    summary="Which of some unlabelled texts to label first",
    description=(
        "Places in `texts`, chosen by strata of the scores, for `simdx panel calibrate --data`. No posterior "
        "leaves the service, so nothing is recorded."
    ),
    responses={200: {"model": schemas.AskOut, "description": "Places in `texts`, from 0"}},
    openapi_extra=schemas.takes(schemas.AskBody),
)
async def ask(request: Request, caller: MayClassify) -> Response:
    body, state = schemas.parse(schemas.AskBody, request), state_of(request)
    check_panel(caller, body.panel)
    classifier = state.registry.check(body.panel, state.registry.methods[0])
    longest = state.config.limits.text_characters
    if any(len(text) > longest for text in body.texts):
        raise Problem("too-large", f"texts: a text is at most {longest:,} characters.")
    chosen = await _workshop(request).run(caller.name, texts_to_ask, classifier, body.texts, body.count)
    return Json({"ask": [int(i) for i in chosen]})


def panel_of(names: Sequence[str]) -> tuple[Panel, str]:
    """The panel of these conditions, and the text of its file."""
    matches = {name: match for name in names if (match := library.meant_by(name)) is not None}
    conditions = {name: match.condition for name, match in matches.items()}
    if len(matches) < len(names) or len({c.name for c in conditions.values()}) < len(names):
        raise Problem("bad-input", "labels: give different names of the library; see GET /v1/library.")
    medical = any(condition.medical for condition in conditions.values())
    register = "clinician" if medical else "general"
    file = scaffold(MADE, dict.fromkeys(names, ""), register, conditions if medical else {})
    return parse_panel(yaml.safe_load(file), where=MADE).to_panel(MADE), file


def panel_with_bank(options: Mapping[str, str]) -> tuple[Panel, Bank]:
    """For the workshop: the panel of the options' names, with the library's texts."""
    made, _ = panel_of(list(options))
    rows = [
        (label.name, own[i * len(own) // TEXTS_EACH] if len(own) > TEXTS_EACH else own[i])
        for label in made.labels
        for own in [library.texts_for(label)]
        for i in range(min(TEXTS_EACH, len(own)))
    ]
    related = library.related_to(made.labels)
    first: dict[str, str] = {}
    for text in library.texts():
        if text.condition not in related:
            first.setdefault(text.condition, text.text)
    urgent = [text for name, text in first.items() if library.condition(name).emergency]
    others = [text for name, text in first.items() if not library.condition(name).emergency]
    return made, assemble(made, rows, (*urgent, *others[::EVERY]), f"{MADE}:library")


def _workshop(request: Request) -> Workshop:
    workshop: Any = request.app.state.workshop
    assert isinstance(workshop, Workshop)
    return workshop
