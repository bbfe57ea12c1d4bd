"""The only way text leaves this machine: one permission check, and the only HTTP clients.

An embedder or simulator says whether it is `remote`; one that does not say counts as remote. Each passes
`admit` before it is sent anything, and the permission is an argument of the call (`--allow-remote`,
`allow_remote=True`): a panel file may name a server and cannot allow it.

A client of a server on this machine holds to that: no proxy of the environment, no redirect, and the address
the connection really has is looked at before the first byte is written. A client of another machine follows
no redirect either: the case and the key would go along.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from simdx.errors import BadInput, MissingExtra, NotAllowed

if TYPE_CHECKING:
    import httpx2
    import openai

T = TypeVar("T")
# No user, no percent sign, no backslash, no blank, nothing but ASCII: one reading for every parser.
_HOST = r"(?P<host>[a-z0-9._-]+|\[[0-9a-f.]*:[0-9a-f:.]+\])(:[0-9]{1,5})?"
_ADDRESS = re.compile(rf"https?://{_HOST}(/[a-z0-9._~!$&'()*+,;=:/-]*)?", re.IGNORECASE)


class Elsewhere(Exception):
    """A server said to be on this machine is not; nothing was sent to it."""


def is_remote(part: object) -> bool:
    """True unless the embedder or simulator declares itself local."""
    return getattr(part, "remote", True) is not False


def admit(part: T, allow_remote: bool) -> T:
    """Return the embedder or simulator if it may be used: a remote one needs permission."""
    if is_remote(part):
        check(str(getattr(part, "id", type(part).__name__)), allow_remote)
    return part


def check(remote: str, allow_remote: bool) -> None:
    """Refuse `remote`, something that takes text to another machine, without permission."""
    if not allow_remote:
        raise NotAllowed(
            f"'{remote[:200]}' would send text to another machine: "
            "add --allow-remote (allow_remote=True) to permit it"
        )


def check_names(names: Iterable[str], allow_remote: bool) -> None:
    """`check` for names of simulators and embedder parts, before anything is loaded."""
    for name in names:
        if name.startswith("openai:") and not is_loopback(split_name(name)[1]):
            check(name, allow_remote)


def split_name(name: str) -> tuple[str, str]:
    """`openai:MODEL@URL` → model and URL."""
    found = re.fullmatch(r"openai:(?P<model>.+?)@(?P<url>https?://.+)", name)
    if found is None:
        raise BadInput(f"'{name}' is not of the form openai:MODEL@http://host:port/v1")
    url = found["url"].rstrip("/")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise BadInput("put the key in the environment variable SIMDX_API_KEY, not into the URL")
    if _host(url) is None:
        raise BadInput(f"'{url[:80]}' is not the address of a server: give http://host:port/v1")
    return found["model"], url


def _host(url: str) -> str | None:
    """The host of an unambiguous address; None where two parsers might disagree."""
    found = _ADDRESS.fullmatch(url)
    return None if found is None else found["host"].lower()


def is_loopback(url: str) -> bool:
    """True if this URL is on this machine."""
    return is_loopback_host(_host(url) or "")


def is_loopback_host(host: str) -> bool:
    """True if this host, a name or an address, is this machine. `localhost` is the only name accepted."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def listens(address: str, seconds: float = 5.0) -> bool:
    """Does anything take connections at [SCHEME://]HOST:PORT? Asked after `check`, and nothing is sent."""
    try:
        found = urlsplit(address if "://" in address else f"//{address}")
        socket.create_connection((found.hostname or "", found.port or 0), timeout=seconds).close()
    except (OSError, ValueError):
        return False
    return True


def open_client(base_url: str, timeout: float, allow_remote: bool) -> openai.OpenAI:
    """A client of an OpenAI-compatible server, under the same rules as `open_http`."""
    carrier, key = open_http(base_url, timeout, allow_remote), _key_for(base_url)
    try:
        import openai
    except ImportError:
        raise MissingExtra("an OpenAI-compatible server", "openai") from None
    client = openai.OpenAI(
        base_url=base_url, api_key=key, timeout=timeout, max_retries=0, http_client=carrier
    )
    if key != os.environ.get("OPENAI_API_KEY"):
        client.organization = client.project = None  # names from the environment, meant for OpenAI
    weakref.finalize(client, carrier.close)  # the library closes only what it made itself
    return client


def open_http(base_url: str, timeout: float, allow_remote: bool) -> httpx2.Client:
    """A client of a server. Without permission none for another machine is made."""
    local = is_loopback(base_url)
    if not local:
        check(base_url, allow_remote)
    try:
        import httpx2
    except ImportError:
        raise MissingExtra("a server by its address", "openai") from None
    limits = httpx2.Limits(max_connections=1_000)
    try:
        return httpx2.Client(
            base_url=base_url, follow_redirects=False, timeout=timeout, limits=limits, trust_env=not local,
            headers={"authorization": f"Bearer {_key_for(base_url)}"},
            transport=_local_transport(limits) if local else None,
        )  # fmt: skip
    except Exception as error:  # the library's own kinds for a host or a port that cannot be
        raise BadInput(f"'{base_url[:80]}' is not the address of a server ({type(error).__name__})") from None


def _key_for(url: str) -> str:
    """The key a server may have. SIMDX_API_KEY is for the server named to simdx; OPENAI_API_KEY is for OpenAI
    or the host of OPENAI_BASE_URL. Neither goes to another machine over plain http."""
    if not (url.lower().startswith("https://") or is_loopback(url)):
        return "none"
    theirs = _host(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
    key = os.environ.get("OPENAI_API_KEY") if _host(url) == theirs else None
    return os.environ.get("SIMDX_API_KEY") or key or "none"


def _local_transport(limits: httpx2.Limits) -> httpx2.HTTPTransport:
    import httpx2

    class LocalTransport(httpx2.HTTPTransport):
        """Connects to this machine only, even if a host name is re-pointed."""

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            request.extensions = {**request.extensions, "trace": _look_at_peer}
            return super().handle_request(request)

    return LocalTransport(trust_env=False, limits=limits)


def _look_at_peer(event: str, info: dict[str, Any]) -> None:
    """Called by the transport at each step: check a new connection's peer before writing to it."""
    if event != "connection.connect_tcp.complete":
        return
    stream = info["return_value"]
    address = str(stream.get_extra_info("server_addr")[0])
    if not is_loopback_host(address):
        stream.close()
        raise Elsewhere(f"the server is on another machine ({address}), not on this one: nothing was sent")
