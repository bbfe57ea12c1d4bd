"""The case inside a CDS Hooks prefetch: text of a DocumentReference, QuestionnaireResponse or Condition.

A prefetch value is a resource, a searchset Bundle, or null where the record system had nothing. Notes
come first because they describe; a questionnaire comes next; a condition is the shortest and comes
last. Of several of a kind the latest is taken. Attachments that are only links are never followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simdx.markup import words_of
from simdx.service.attachments import Unreadable, decode_base64

_DEPTH = 12
_RESOURCES = 500
_ORDER = ("DocumentReference", "QuestionnaireResponse", "Condition")
_DATES = {
    "DocumentReference": ("date",),
    "QuestionnaireResponse": ("authored",),
    "Condition": ("recordedDate", "onsetDateTime"),
}
_LIVE_STATUS = {
    "DocumentReference": {"current"},
    "QuestionnaireResponse": {"completed", "amended", "in-progress"},
}


@dataclass(frozen=True, slots=True)
class Found:
    """A text, and the reference of the resource it came from where that has an id."""

    text: str
    reference: str | None
    kind: str


def find_text(prefetch: Mapping[str, Any]) -> Found | None:
    """The best text in a prefetch, or None."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _ORDER}
    for resource in _resources(prefetch):
        kind = resource.get("resourceType")
        if kind in by_kind and _is_live(kind, resource):
            by_kind[kind].append(resource)
    readers = {
        "DocumentReference": _document,
        "QuestionnaireResponse": _questionnaire,
        "Condition": _condition,
    }
    for kind in _ORDER:
        # Dates of one record system share a format, and ISO dates sort as text; none sorts first.
        for resource in sorted(by_kind[kind], key=lambda r: _date(kind, r), reverse=True):
            text = readers[kind](resource).strip()
            if text:
                return Found(text, _reference(kind, resource), kind)
    return None


def _resources(prefetch: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    left = _RESOURCES
    for value in prefetch.values():
        if not isinstance(value, Mapping):
            continue
        if value.get("resourceType") != "Bundle":
            yield value
            continue
        for entry in _items(value.get("entry")):
            if left and isinstance(entry.get("resource"), Mapping):
                left -= 1
                yield entry["resource"]


def _is_live(kind: str, resource: Mapping[str, Any]) -> bool:
    status = resource.get("status")
    return kind not in _LIVE_STATUS or status is None or status in _LIVE_STATUS[kind]


def _date(kind: str, resource: Mapping[str, Any]) -> str:
    return next((str(resource[d]) for d in _DATES[kind] if isinstance(resource.get(d), str)), "")


def _reference(kind: str, resource: Mapping[str, Any]) -> str | None:
    name = resource.get("id")
    return f"{kind}/{name}" if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9.\-]{1,64}", name) else None


def _document(resource: Mapping[str, Any]) -> str:
    parts = []
    for content in _items(resource.get("content")):
        attachment = content.get("attachment")
        if isinstance(attachment, Mapping):
            parts.append(_attachment(attachment))
    return "\n\n".join(p for p in parts if p.strip())


def _attachment(attachment: Mapping[str, Any]) -> str:
    data, kind = attachment.get("data"), attachment.get("contentType")
    if not isinstance(data, str) or not isinstance(kind, str):
        return ""
    media = kind.split(";", 1)[0].strip().lower()
    if media not in ("text/plain", "text/html", "application/xhtml+xml", "text/markdown"):
        return ""
    try:
        text = decode_base64(data, kind)
    except Unreadable:
        return ""
    return words_of(text) if "html" in media else text


def _questionnaire(resource: Mapping[str, Any]) -> str:
    return "\n".join(_answers(resource.get("item"), _DEPTH))


def _answers(items: Any, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    for item in _items(items):
        said = []
        for answer in _items(item.get("answer")):
            said.append(_value(answer))
            yield from _answers(answer.get("item"), depth - 1)
        said = [s for s in said if s]
        if said:
            question = item.get("text")
            yield f"{question}: {', '.join(said)}" if isinstance(question, str) else ", ".join(said)
        yield from _answers(item.get("item"), depth - 1)


def _value(answer: Mapping[str, Any]) -> str:
    for key, value in answer.items():
        if not key.startswith("value"):
            continue
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str | int | float):
            return str(value)
        if isinstance(value, Mapping):
            if key == "valueCoding":
                return _string(value.get("display")) or _string(value.get("code"))
            if key == "valueQuantity" and "value" in value:
                return f"{value['value']} {_string(value.get('unit'))}".strip()
    return ""


def _condition(resource: Mapping[str, Any]) -> str:
    notes = [_string(note.get("text")) for note in _items(resource.get("note"))]
    code = resource.get("code")
    named = ""
    if isinstance(code, Mapping):
        shown = (_string(c.get("display")) for c in _items(code.get("coding")))
        named = _string(code.get("text")) or next((s for s in shown if s), "")
    return "\n".join(part for part in (named, *notes) if part)


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
