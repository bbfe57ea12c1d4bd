"""One GET of an address the operator trusts: no proxy, no redirect, no cookie, few bytes, little time."""

import asyncio
import functools
import ssl
from dataclasses import dataclass

import httpx2


@dataclass
class CannotFetch(Exception):
    """Why nothing came, in words that name neither the address nor the token."""

    why: str


async def get(
    url: str, *, accept: str, limit: int, seconds: float, authorization: str | None = None
) -> tuple[bytes, str]:
    """The body at `url` and its content type, of at most `limit` bytes, within `seconds` for all of it."""
    # What is compressed may unfold to any size: ask for none, and take none.
    headers = {"accept": accept, "accept-encoding": "identity"}
    if authorization is not None:
        headers["authorization"] = authorization
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
            parts, size = [], 0
            async for part in reply.aiter_raw():
                size += len(part)
                if size > limit:
                    raise CannotFetch(f"it is larger than {limit:,} bytes")
                parts.append(part)
            return b"".join(parts), reply.headers.get("content-type", "")
    except TimeoutError:
        raise CannotFetch(f"the server took longer than {seconds:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError):
        raise CannotFetch("the server could not be reached") from None


@functools.cache
def _tls() -> ssl.SSLContext:
    """The system's certificate authorities (SSL_CERT_FILE adds a clinic's own); made once, it is slow."""
    return ssl.create_default_context()
