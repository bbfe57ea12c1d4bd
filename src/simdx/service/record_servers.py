"""The text of a chart, fetched where it is only a link.

A call names its FHIR server and brings a token for it. Both are the caller's word, so a link is followed only
on a server the operator named with `--fhir-server`, and only below its base address: otherwise anyone who
may ask could have this machine call any other, and a chart could carry the token elsewhere. The token lives
as long as the call.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from simdx.service.cds_text import TEXT_TYPES, Chart, Link, Source, text_of
from simdx.service.config import Limits
from simdx.service.fetch import CannotFetch, get

ACCEPT = ", ".join(TEXT_TYPES) + ", application/fhir+json;q=0.1"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=:|-]{1,16384}")
_SHOWN = 5  # lines about what was not read


@dataclass(frozen=True, slots=True)
class Read:
    """The text that stands for the case, where it came from, and what was not read."""

    text: str
    source: Source | None
    unread: tuple[str, ...]


class RecordServers:
    def __init__(self, allowed: Sequence[str], limits: Limits) -> None:
        self._allowed = {base_of(url) for url in allowed}
        self._limits = limits

    async def read(self, chart: Chart, server: str | None, token: str | None) -> Read:
        """The first text of the chart, its links followed as far as this call may."""
        unread: list[str] = []
        left = self._limits.attachments
        for source in chart.sources:
            why = ""
            for part in source.parts:
                try:
                    if isinstance(part, Link):
                        if not left:
                            raise CannotFetch("too many texts of this chart are links")
                        left -= 1
                        part = await self._follow(part, server, token)
                    return Read(part, source, _few([*unread, *chart.unread]))
                except CannotFetch as error:
                    why = why or error.why
            unread.append(f"{source.reference or source.kind}: {why}")
        return Read("", None, _few([*unread, *chart.unread]))

    async def _follow(self, link: Link, server: str | None, token: str | None) -> str:
        said = "its text is a link, and"
        if server is None:
            raise CannotFetch(f"{said} the call names no fhirServer")
        if server not in self._allowed:
            raise CannotFetch(f"{said} this service may not fetch from that fhirServer (--fhir-server)")
        if token is None or not _TOKEN.fullmatch(token):
            raise CannotFetch(f"{said} the call brings no fhirAuthorization")
        url = below(server, link.url)
        if url is None:
            raise CannotFetch("its text is a link that leads away from the fhirServer")
        limits = self._limits
        got = await get(
            url, accept=ACCEPT, limit=limits.attachment_bytes, seconds=limits.attachment_seconds,
            authorization=f"Bearer {token}",
        )  # fmt: skip
        text = await asyncio.to_thread(_words, *got)
        if not text:
            raise CannotFetch("what its link leads to is not text")
        return text


def base_of(url: str) -> str:
    return url.rstrip("/")


def below(base: str, url: str) -> str | None:
    """The address a link of this server's chart leads to; None when it is not below the base."""
    try:
        target = urljoin(base + "/", url)
        ours, theirs = urlsplit(base), urlsplit(target)
        same = (ours.scheme, ours.netloc.lower()) == (theirs.scheme, theirs.netloc.lower())
    except ValueError:
        return None
    path = unquote(unquote(theirs.path))  # a server or proxy behind may decode twice
    dots = {".", ".."} & set(path.split("/"))
    odd = "\\" in path or " " in target or not (target.isascii() and target.isprintable())
    if not same or dots or odd or theirs.fragment or not theirs.path.startswith(ours.path + "/"):
        return None
    return target


def _words(content: bytes, content_type: str) -> str:
    if content_type.split(";")[0].strip().lower() not in ("application/fhir+json", "application/json"):
        return text_of(content, content_type)
    # A Binary resource: some servers answer with the resource whatever is asked for.
    try:
        resource = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(resource, dict) or resource.get("resourceType") != "Binary":
        return ""
    data, kind = resource.get("data"), resource.get("contentType")
    return text_of(data, kind) if isinstance(data, str) and isinstance(kind, str) else ""


def _few(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _SHOWN
    return (*lines[:_SHOWN], f"and {more} more") if more > 0 else tuple(lines)
