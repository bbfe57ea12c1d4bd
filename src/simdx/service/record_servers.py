"""The text of a chart, fetched where it is only a link; and the one way anything is fetched here.

A call names its FHIR server and brings a token for it. Both are the caller's word, so a link is followed only
on a server the operator named with `--fhir-server`, and only below its base address: otherwise anyone who
may ask could have this machine call any other, and a chart could carry the token elsewhere. The token lives
as long as the call.
"""

import asyncio
import functools
import json
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx2

from simdx.service.cds_text import TEXT_TYPES, Chart, Source, media_type, text_of, why_not_binary
from simdx.service.config import Limits

ACCEPT = ", ".join(TEXT_TYPES) + ", application/fhir+json;q=0.1"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=:|-]{1,16384}")
# What may follow the base address: no parameter (`;`), no encoding, no backslash, which a server or a proxy
# behind may read as another path; and a query without blanks or a fragment.
_PATH, _QUERY = re.compile(r"/[A-Za-z0-9._~$/-]*"), re.compile(r"[^ #\\]*")
_SHOWN = 5  # lines about what was not read


@dataclass
class CannotFetch(Exception):
    """Why nothing came, in words that name neither the address nor the token."""

    why: str


class RecordServers:
    def __init__(self, allowed: Sequence[str], limits: Limits) -> None:
        self._allowed = {url.rstrip("/") for url in allowed}
        self._limits = limits

    async def read(
        self, chart: Chart, server: str | None, token: str | None
    ) -> tuple[str, Source | None, tuple[str, ...]]:
        """The first text of the chart, its links followed as far as this call may; and what was not read."""
        unread: list[str] = []
        left = self._limits.attachments
        for source in chart.sources:
            text, why = source.text, ""
            for link in () if text else source.links:
                try:
                    if not left:
                        raise CannotFetch("too many texts of this chart are links")
                    left -= 1
                    text = await self._follow(link, source, chart.patient, server, token)
                    break
                except CannotFetch as error:
                    why = why or error.why
            if text:
                return text, source, _few([*unread, *chart.unread])
            unread.append(f"{source.reference or source.kind}: {why}")
        return "", None, _few([*unread, *chart.unread])

    async def _follow(
        self, link: str, source: Source, patient: str, server: str | None, token: str | None
    ) -> str:
        said = "its text is a link, and"
        if server is None:
            raise CannotFetch(f"{said} the call names no fhirServer")
        if server not in self._allowed:
            raise CannotFetch(f"{said} this service may not fetch from that fhirServer (--fhir-server)")
        if token is None or not _TOKEN.fullmatch(token):
            raise CannotFetch(f"{said} the call brings no fhirAuthorization")
        if (url := below(server, link)) is None:
            raise CannotFetch("its text is a link that leads away from the fhirServer")
        limits = self._limits
        content, kind = await get(url, ACCEPT, limits.attachment_bytes, limits.attachment_seconds, token)
        if media_type(kind) in ("application/fhir+json", "application/json"):
            # Some servers answer with the Binary resource whatever is asked for.
            text = await asyncio.to_thread(_text_of_binary, content, source, patient, server)
        else:
            text = await asyncio.to_thread(text_of, content, kind)
        if not text:
            raise CannotFetch("what its link leads to is not text")
        return text


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


def _text_of_binary(content: bytes, source: Source, patient: str, server: str) -> str:
    try:
        resource = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(resource, dict) or resource.get("resourceType") != "Binary":
        return ""
    if why := why_not_binary(resource, source, patient, server):
        raise CannotFetch(why)
    data, kind = resource.get("data"), resource.get("contentType")
    return text_of(data, kind) if isinstance(data, str) and isinstance(kind, str) else ""


def _few(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _SHOWN
    return (*lines[:_SHOWN], f"and {more} more") if more > 0 else tuple(lines)


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


@functools.cache
def _tls() -> ssl.SSLContext:
    """The system's certificate authorities (SSL_CERT_FILE adds a clinic's own); made once, it is slow."""
    return ssl.create_default_context()
