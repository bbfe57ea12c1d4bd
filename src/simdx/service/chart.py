"""Which texts of a CDS Hooks prefetch may stand for the case, and the texts that it only links to.

A prefetch value is a resource, a searchset Bundle, or null where the record system had nothing. A resource
is read only when it says that it is about the patient of the call, is neither unfinished nor withdrawn, and
has no modifier that would change what it means.
Notes come first because they describe; a questionnaire comes next; the notes of a condition come last. Of
several of a kind the latest comes first. Codes are never read: a diagnosis someone coded would come back as
our answer.

A call names its FHIR server and brings a token for it. Both are the caller's word, so a link is followed only
on a server the operator named with `--fhir-server`, and only below its base address: otherwise anyone who
may ask could have this machine call any other, and a chart could carry the token elsewhere. The token lives
as long as the call.
"""

import asyncio
import base64
import binascii
import functools
import json
import re
import ssl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import httpx2

from simdx.rows import words_of
from simdx.service.config import Limits
from simdx.service.wire import Problem

_DEPTH = 12
# The kinds that are read, the best first, and where their dates are.
_DATES = {
    "DocumentReference": ("date",),
    "QuestionnaireResponse": ("authored",),
    "Condition": ("recordedDate", "onsetDateTime"),
}
_ID = re.compile(r"[A-Za-z0-9.\-]{1,64}")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
# What FHIR R4 says of a resource that holds (R5's further words for a finished document beside them): the
# words of an element, and what is said where it has another.
_HELD = "its status is not one that holds"
_FINAL = ("final", "amended", "corrected", "appended")
_VERIFIED = ("unconfirmed", "provisional", "differential", "confirmed")
_HOLDS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "DocumentReference": {
        "status": (("current",), _HELD),
        "docStatus": (_FINAL, "the document is not final"),
    },
    "QuestionnaireResponse": {"status": (("completed", "amended"), _HELD)},
    "Condition": {
        "clinicalStatus": (("active", "recurrence", "relapse"), "it is not active"),
        "verificationStatus": (_VERIFIED, "its verification status is not one that holds"),
    },
}
_HL7 = "http://terminology.hl7.org/CodeSystem/condition-"
_CONDITION_SYSTEMS = (None, f"{_HL7}clinical", f"{_HL7}ver-status")
_ICD = "http://hl7.org/fhir/sid/icd-"  # ICD-9, -10 and -11 alike: classifications of diagnoses
# Elements FHIR calls modifiers: who does not know their meaning may not use what they stand in.
_MODIFIERS = ("modifierExtension", "implicitRules")


@dataclass(frozen=True, slots=True)
class Source:
    """A resource that may be read: its text, or the links to forms of its text that are elsewhere."""

    kind: str
    reference: str | None
    date: str
    words: str  # the source in a line: all of it passed a pattern or a list of words
    text: str
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What may be read about a patient, best first, and a line for each resource that was not."""

    patient: str
    sources: tuple[Source, ...]
    unread: tuple[str, ...]


def read_chart(
    prefetch: Mapping[str, Any], patient: str, server: str | None = None, codes: Collection[str] = ()
) -> Chart:
    """The texts of a prefetch about one patient; another Patient anywhere refuses the call.

    `codes` are those of the labels, which no text may be.
    """
    found, unread, order = list[Source](), [], list(_DATES)
    for resource in _resources(prefetch):
        kind, name = resource.get("resourceType"), _matching(_ID, resource.get("id"))
        if kind == "Patient" and resource.get("id", patient) != patient:
            raise Problem("bad-input", "prefetch: its Patient is not the one that context.patientId names.")
        if kind not in order:
            continue
        reference = f"{kind}/{name}" if name else None
        why = _why_not(kind, resource, patient, server)
        text, links = ("", ()) if why else _text_and_links(kind, resource, codes)
        if text or links:
            date = _matching(_DATE, *(resource.get(n) for n in _DATES[kind])) or ""
            stated = [f"{name} {code}" for name in _HOLDS[kind] for code in _codes(kind, resource, name)[:1]]
            status = ", ".join(stated) or "status not stated"
            words = f"{reference or kind} of {date or 'no date'} ({status})"
            found.append(Source(kind, reference, date, words, text, links))
        else:
            unread.append(f"{reference or kind}: {why or 'it holds no text'}")
    # Dates of one record system share a format, and ISO dates sort as text; none sorts last.
    found.sort(key=lambda source: source.date, reverse=True)
    found.sort(key=lambda source: order.index(source.kind))
    return Chart(patient, tuple(found), tuple(unread))


def _resources(prefetch: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every resource, those of Bundles too."""
    for value in map(_fields, prefetch.values()):
        bundled = [_fields(entry.get("resource")) for entry in _items(value.get("entry"))]
        yield from bundled if value.get("resourceType") == "Bundle" else [value]


# --------------------------------------------------------------------------- may it be read?


def _why_not(kind: str, resource: Mapping[str, Any], patient: str, server: str | None) -> str | None:
    """Why a resource is not read; None when it may be."""
    subject = _reference(resource.get("subject"), server)
    if subject is None:
        return "it does not say which patient it is about"
    if subject != f"Patient/{patient}":
        return "it is about another patient"
    for name, (words, why) in _HOLDS[kind].items():
        if not all(code in words for code in _codes(kind, resource, name)):
            return why
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
    reference = _fields(stated).get("reference")
    if not isinstance(reference, str):
        return None
    local = reference.removeprefix(f"{server}/") if server else reference
    return local.partition("/_history/")[0]


def _codes(kind: str, resource: Mapping[str, Any], name: str) -> list[Any]:
    """What a resource states in a status element; None for what we do not understand."""
    stated = resource.get(name)
    if kind != "Condition":
        return [stated] if name in resource or name == "status" else []
    codings = _items(_fields(stated).get("coding"))
    known = [c.get("code") for c in codings if c.get("system") in _CONDITION_SYSTEMS]
    return known or ([] if stated is None else [None])


def _matching(pattern: re.Pattern[str], *stated: Any) -> str | None:
    return next((s for s in stated if isinstance(s, str) and pattern.fullmatch(s)), None)


def _fields(value: Any) -> Mapping[str, Any]:
    """Here and below: a value of another kind than FHIR has in its place is as if it were not there."""
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


# --------------------------------------------------------------------------- what it says

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


def _text_and_links(
    kind: str, resource: Mapping[str, Any], codes: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    if kind == "QuestionnaireResponse":
        return "\n".join(_answers(resource.get("item"), _DEPTH, codes)).strip(), ()
    if kind == "Condition":
        return "\n".join(_string(note.get("text")) for note in _items(resource.get("note"))).strip(), ()
    text, links = "", list[str]()
    for content in _items(resource.get("content")):
        stated = _fields(content.get("attachment"))
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
    for item in _items(items) if depth else ():
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
        of = _fields(value)
        code, system = _string(of.get("code")), _string(of.get("system"))
        # Not where it is a diagnosis, the panel's own or one of a classification of diagnoses.
        if key == "valueCoding" and code not in codes and not system.startswith(_ICD):
            return _string(of.get("display")) or code
        if key == "valueQuantity" and "value" in of:
            return f"{of['value']} {_string(of.get('unit'))}".strip()
    return ""


# --------------------------------------------------------------------------- what it links to

ACCEPT = ", ".join(TEXT_TYPES) + ", application/fhir+json;q=0.1"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=:|-]{1,16384}")
# What may follow the base address: no parameter (`;`), no encoding, no backslash, which a server or a proxy
# behind may read as another path; and a query without blanks or a fragment.
_PATH, _QUERY = re.compile(r"/[A-Za-z0-9._~$/-]*"), re.compile(r"[^ #\\]*")
_SHOWN = 5  # lines about what was not read


class CannotFetch(Exception):
    """Why nothing came, in words that name neither the address nor the token."""


async def first_text(
    chart: Chart, server: str | None, token: str | None, allowed: Collection[str], limits: Limits
) -> tuple[str, Source | None, tuple[str, ...]]:
    """The first text of the chart, its links followed as far as this call may; and what was not read."""
    unread, left = list[str](), limits.attachments
    for source in chart.sources:
        text, why = source.text, ""
        for link in () if text else source.links:
            try:
                if not left:
                    raise CannotFetch("too many texts of this chart are links")
                left -= 1
                url = _followed(link, server, token, allowed)
                got = await get(url, ACCEPT, limits.attachment_bytes, limits.attachment_seconds, token or "")
                text = await asyncio.to_thread(_text_of_reply, *got, source, chart.patient, server)
                break
            except CannotFetch as error:
                why = why or str(error)
        if text:
            break
        unread.append(f"{source.reference or source.kind}: {why}")
    else:
        text, source = "", None
    unread += chart.unread
    more = len(unread) - _SHOWN
    return text, source, (*unread[:_SHOWN], *([f"and {more} more"] if more > 0 else ()))


def _followed(link: str, server: str | None, token: str | None, allowed: Collection[str]) -> str:
    """The address that a link leads to, if this call may ask it."""
    said = "its text is a link, and"
    if server is None:
        raise CannotFetch(f"{said} the call names no fhirServer")
    if server not in {url.rstrip("/") for url in allowed}:
        raise CannotFetch(f"{said} this service may not fetch from that fhirServer (--fhir-server)")
    if token is None or not _TOKEN.fullmatch(token):
        raise CannotFetch(f"{said} the call brings no fhirAuthorization")
    if (url := below(server, link)) is None:
        raise CannotFetch("its text is a link that leads away from the fhirServer")
    return url


def below(base: str, url: str) -> str | None:
    """The address a link of this server's chart leads to; None when it is not plainly below the base."""
    if not (url.isascii() and url.isprintable()):  # the parser would drop line ends
        return None
    try:
        target = urljoin(base + "/", url)
    except ValueError:
        return None
    path, _, query = target.removeprefix(base).partition("?")
    plain = target.startswith(base + "/") and _PATH.fullmatch(path) and _QUERY.fullmatch(query)
    return target if plain and not {".", ".."} & set(path.split("/")) else None


def _text_of_reply(content: bytes, kind: str, source: Source, patient: str, server: str | None) -> str:
    data: bytes | str = content
    if media_type(kind) in ("application/fhir+json", "application/json"):
        # Some servers answer with the Binary resource whatever is asked for.
        try:
            resource = _fields(json.loads(content))
        except (ValueError, RecursionError):
            resource = {}
        resource = resource if resource.get("resourceType") == "Binary" else {}
        # It may stand under another record's protection.
        whose = _reference(context := resource.get("securityContext"), server)
        if context is not None and (not whose or whose not in (f"Patient/{patient}", source.reference)):
            raise CannotFetch("the securityContext of its Binary is neither this patient nor this document")
        if why := _why_modified(resource):
            raise CannotFetch(why)
        data, kind = _string(resource.get("data")), _string(resource.get("contentType"))
    if text := text_of(data, kind):
        return text
    raise CannotFetch("what its link leads to is not text")


# The system's certificate authorities (SSL_CERT_FILE adds a clinic's own); made once, it is slow.
_tls = functools.cache(ssl.create_default_context)


async def get(url: str, accept: str, limit: int, seconds: float, token: str = "") -> tuple[bytes, str]:
    """The body at a trusted address and its content type: no proxy, no redirect, no cookie, and at most
    `limit` bytes within `seconds` for all of it."""
    # What is compressed may unfold to any size: ask for none, and take none.
    headers = {"accept": accept, "accept-encoding": "identity"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(trust_env=False, follow_redirects=False, verify=_tls()) as client,
            client.stream("GET", url, headers=headers) as reply,
        ):
            if reply.status_code != 200:
                raise CannotFetch(f"the server answered {reply.status_code}")
            if reply.headers.get("content-encoding", "identity").lower() != "identity":
                raise CannotFetch("the server compressed its answer")
            body = bytearray()
            async for part in reply.aiter_raw():
                body += part
                if len(body) > limit:
                    raise CannotFetch(f"it is larger than {limit:,} bytes")
            return bytes(body), reply.headers.get("content-type", "")
    except TimeoutError:
        raise CannotFetch(f"the server took longer than {seconds:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError):
        raise CannotFetch("the server could not be reached") from None
