"""Which texts of a CDS Hooks prefetch may stand for the case: pure, nothing is fetched here.

A prefetch value is a resource, a searchset Bundle, or null where the record system had nothing. A resource
is read only when it says that it is about the patient of the call, is neither unfinished nor withdrawn, and
has no modifier that would change what it means.
Notes come first because they describe; a questionnaire comes next; the notes of a condition come last. Of
several of a kind the latest comes first. Codes are never read: a diagnosis someone coded would come back as
our answer.
"""

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simdx.rows import words_of
from simdx.service.problems import Problem

_DEPTH = 12
_RESOURCES = 500
# The kinds that are read, the best first, and where their dates are.
_DATES = {
    "DocumentReference": ("date",),
    "QuestionnaireResponse": ("authored",),
    "Condition": ("recordedDate", "onsetDateTime"),
}
_ID = re.compile(r"[A-Za-z0-9.\-]{1,64}")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
# What FHIR R4 says of a resource that holds (R5's further words for a finished document beside them).
_STATUS = {"DocumentReference": ("current",), "QuestionnaireResponse": ("completed", "amended")}
_DOC_STATUS = ("final", "amended", "corrected", "appended")
_CLINICAL = ("active", "recurrence", "relapse")
_VERIFIED = ("unconfirmed", "provisional", "differential", "confirmed")
_CONDITION_SYSTEMS = (
    None,
    "http://terminology.hl7.org/CodeSystem/condition-clinical",
    "http://terminology.hl7.org/CodeSystem/condition-ver-status",
)
_ICD = "http://hl7.org/fhir/sid/icd-"  # ICD-9, -10 and -11 alike: classifications of diagnoses
TEXT_TYPES = ("text/plain", "text/html", "application/xhtml+xml", "text/markdown")
MAX_BYTES = 2_000_000  # of one attachment; a case is at most 100,000 characters, its markup may be longer
MAX_TYPE = 200  # characters of a content type
# Whoever wrote the record chose the charset, and Python knows codecs that no note is written in: `punycode`
# takes quadratic time. So a charset is taken from a list.
_CODECS = {
    "utf-8": "utf-8-sig", "utf8": "utf-8-sig", "us-ascii": "ascii", "ascii": "ascii",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "latin1": "iso-8859-1", "cp1252": "cp1252",
    **{f"iso-8859-{n}": f"iso-8859-{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)},
    **{f"windows-{n}": f"cp{n}" for n in range(1250, 1259)},
}  # fmt: skip
# Elements FHIR calls modifiers: who does not know their meaning may not use what they stand in.
_MODIFIERS = ("modifierExtension", "implicitRules")


@dataclass(frozen=True, slots=True)
class Source:
    """A resource that may be read: its text, or the links to forms of its text that are elsewhere."""

    kind: str
    id: str | None
    date: str | None
    status: str
    text: str
    links: tuple[str, ...]

    @property
    def reference(self) -> str | None:
        return f"{self.kind}/{self.id}" if self.id else None

    @property
    def words(self) -> str:
        """The source in a line: all of it passed a pattern or a list of words."""
        return f"{self.reference or self.kind} of {self.date or 'no date'} ({self.status})"


@dataclass(frozen=True, slots=True)
class Chart:
    """What may be read about a patient, best first, and a line for each resource that was not."""

    patient: str
    sources: tuple[Source, ...]
    unread: tuple[str, ...]


def read_chart(
    prefetch: Mapping[str, Any], patient: str, server: str | None = None, codes: Collection[str] = ()
) -> Chart:
    """The texts of a prefetch about one patient. `codes` are those of the labels, which no text may be."""
    found, unread, order = list[Source](), [], list(_DATES)
    for resource in _resources(prefetch, patient):
        kind, name = resource.get("resourceType"), _matching(_ID, resource.get("id"))
        if kind not in order:
            continue
        why = _why_not(kind, resource, patient, server)
        text, links = ("", ()) if why else _text_and_links(kind, resource, codes)
        if text or links:
            date = _matching(_DATE, *(resource.get(n) for n in _DATES[kind]))
            found.append(Source(kind, name, date, _stated(kind, resource), text, links))
        else:
            unread.append(f"{f'{kind}/{name}' if name else kind}: {why or 'it holds no text'}")
    # Dates of one record system share a format, and ISO dates sort as text; none sorts last.
    found.sort(key=lambda source: source.date or "", reverse=True)
    found.sort(key=lambda source: order.index(source.kind))
    return Chart(patient, tuple(found), tuple(unread))


def _resources(prefetch: Mapping[str, Any], patient: str) -> Iterator[Mapping[str, Any]]:
    """Every resource, those of Bundles too; another Patient anywhere refuses the call."""
    left = _RESOURCES
    for value in prefetch.values():
        if not isinstance(value, Mapping):
            continue
        bundled = [entry.get("resource") for entry in _items(value.get("entry"))]
        for resource in bundled if value.get("resourceType") == "Bundle" else [value]:
            if not isinstance(resource, Mapping):
                continue
            if resource.get("resourceType") == "Patient" and resource.get("id", patient) != patient:
                said = "prefetch: its Patient is not the one that context.patientId names."
                raise Problem("bad-input", said)
            if left:
                left -= 1
                yield resource


# --------------------------------------------------------------------------- may it be read?


def _why_not(kind: str, resource: Mapping[str, Any], patient: str, server: str | None) -> str | None:
    """Why a resource is not read; None when it may be."""
    subject = _reference(resource.get("subject"), server)
    if subject is None:
        return "it does not say which patient it is about"
    if subject != f"Patient/{patient}":
        return "it is about another patient"
    if kind == "Condition":
        if not _is_among(resource.get("verificationStatus"), _VERIFIED):
            return "its verification status is not one that holds"
        if not _is_among(resource.get("clinicalStatus"), _CLINICAL):
            return "it is not active"
    elif resource.get("status") not in _STATUS[kind]:
        return "its status is not one that holds"
    if kind == "DocumentReference" and resource.get("docStatus", "final") not in _DOC_STATUS:
        return "the document is not final"
    return _why_modified(resource)


def why_not_binary(resource: Mapping[str, Any], source: Source, patient: str, server: str) -> str | None:
    """Why a Binary that a source links to is not read: it may stand under another record's protection."""
    context = resource.get("securityContext")
    if context is not None and _reference(context, server) not in (f"Patient/{patient}", source.reference):
        return "the securityContext of its Binary is neither this patient nor this document"
    return _why_modified(resource)


def _why_modified(resource: Mapping[str, Any]) -> str | None:
    """Looks through the whole resource: a modifier may stand at any element."""
    waiting: list[Any] = [resource]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if found := next((name for name in _MODIFIERS if value.get(name)), None):
                return f"it has a {found} that this service does not know"
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return None


def _reference(stated: Any, server: str | None) -> str | None:
    """Type/id that a reference names; a full address only counts on the server of the call."""
    reference = stated.get("reference") if isinstance(stated, Mapping) else None
    if not isinstance(reference, str):
        return None
    local = reference.removeprefix(f"{server}/") if server else reference
    return local.partition("/_history/")[0]


def _is_among(concept: Any, allowed: Collection[str]) -> bool:
    """Is a Condition's status, where it is stated, one of these? One we do not understand is not."""
    codes = _status_codes(concept)
    return concept is None or (bool(codes) and all(code in allowed for code in codes))


def _status_codes(concept: Any) -> list[Any]:
    codings = _items(concept.get("coding")) if isinstance(concept, Mapping) else []
    return [c.get("code") for c in codings if c.get("system") in _CONDITION_SYSTEMS]


def _stated(kind: str, resource: Mapping[str, Any]) -> str:
    """The statuses of a resource that may be read, in words for a card."""
    said = [f"{n} {resource[n]}" for n in ("status", "docStatus") if n in resource]
    if kind == "Condition":
        names = ("clinicalStatus", "verificationStatus")
        said = [f"{n} {code}" for n in names for code in _status_codes(resource.get(n))[:1]]
    return ", ".join(said) or "status not stated"


def _matching(pattern: re.Pattern[str], *stated: Any) -> str | None:
    return next((s for s in stated if isinstance(s, str) and pattern.fullmatch(s)), None)


# --------------------------------------------------------------------------- what it says


def _text_and_links(
    kind: str, resource: Mapping[str, Any], codes: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    if kind == "QuestionnaireResponse":
        return "\n".join(_answers(resource.get("item"), _DEPTH, codes)).strip(), ()
    if kind == "Condition":
        return "\n".join(_string(note.get("text")) for note in _items(resource.get("note"))).strip(), ()
    text, links = "", list[str]()
    for content in _items(resource.get("content")):
        attachment = content.get("attachment")
        stated = attachment if isinstance(attachment, Mapping) else {}
        media, data, url = (_string(stated.get(name)) for name in ("contentType", "data", "url"))
        if media and data:
            text = text or text_of(data, media)
        elif url and (not media or media_type(media) in TEXT_TYPES):
            links.append(url)
    return text, tuple(links)


def text_of(data: bytes | str, content_type: str) -> str:
    """The words of an attachment, from its bytes or their base64; nothing where it is not a text we read.

    Lengths are looked at first: the time this takes grows with the length alone.
    """
    media = media_type(content_type)
    # Four characters of base64 stand for three bytes, and there may be line ends.
    longest = MAX_BYTES * 3 // 2 if isinstance(data, str) else MAX_BYTES
    if media not in TEXT_TYPES or len(content_type) > MAX_TYPE or len(data) > longest:
        return ""
    charset = re.search(r";\s*charset\s*=\s*\"?([^;\"\s]*)", content_type.lower())
    codec = _CODECS.get(charset[1].replace("_", "-") if charset else "utf-8")
    try:
        raw = base64.b64decode("".join(data.split()), validate=True) if isinstance(data, str) else data
        text = raw.decode(codec) if codec and len(raw) <= MAX_BYTES else ""
    except (binascii.Error, ValueError):
        return ""
    return (words_of(text) if "html" in media else text).strip()


def media_type(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()


def _answers(items: Any, depth: int, codes: Collection[str]) -> Iterator[str]:
    if depth == 0:
        return
    for item in _items(items):
        answers, question = _items(item.get("answer")), item.get("text")
        for answer in answers:
            yield from _answers(answer.get("item"), depth - 1, codes)
        if said := ", ".join(filter(None, (_value(answer, codes) for answer in answers))):
            yield f"{question}: {said}" if isinstance(question, str) else said
        yield from _answers(item.get("item"), depth - 1, codes)


def _value(answer: Mapping[str, Any], codes: Collection[str]) -> str:
    for key, value in answer.items():
        if not key.startswith("value"):
            continue
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str | int | float):
            return str(value)
        if isinstance(value, Mapping):
            code, system = _string(value.get("code")), _string(value.get("system"))
            # Not where it is a diagnosis, the panel's own or one of a classification of diagnoses.
            if key == "valueCoding" and code not in codes and not system.startswith(_ICD):
                return _string(value.get("display")) or code
            if key == "valueQuantity" and "value" in value:
                return f"{value['value']} {_string(value.get('unit'))}".strip()
    return ""


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
