"""What the operator decides, in one frozen object. Everything has a safe default."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simdx.errors import BadInput
from simdx.models.verify import home
from simdx.panels.load import PACKAGED

# Methods that need nothing beyond the panel's bank and its embedder, so any caller may ask for them.
METHODS = ("auto", "m-smc", "d-smc")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all of them together, may cost."""

    body_bytes: int = 4_000_000
    text_characters: int = 100_000
    texts: int = 256
    seconds: float = 20.0  # from the whole request read to its answer
    body_seconds: float = 15.0  # to read a request's body
    waiting_texts: int = 4_096  # texts waiting for the engine; above it, 503
    open_requests: int = 1_024  # requests in the house at once; above it, 503
    caller_requests: int = 256  # of which one caller may have; above it, 429
    stranger_requests: int = 128  # of which callers without a valid token may have together; above it, 503
    rate: float = 100.0  # requests a second of one token, after twice as many at once; 0: as many as it likes
    batch_texts: int = 64  # texts in one engine call
    explained_texts: int = 24  # with more at hand, answers go out without sentences and flip
    observations: int = 256  # cases kept in memory for the prior sliders
    observation_seconds: float = 900.0
    stranger_rate: float = 20.0  # requests a second of one address without a token, after 60 at once: pages
    # What connections may take, before anyone knows who is calling (`connections`).
    sockets: int = 2_048  # open at once; a further one takes the place of a stranger's
    address_sockets: int = 512  # of which one address may have; 0: all, for a proxy in front
    misdeeds: float = (
        10.0  # refused requests and late heads a second of one address; above it, it is not heard
    )
    head_bytes: int = 32_768  # of a request line and its headers; above it, 431
    head_count: int = 100  # headers of a request; above it, 431
    head_seconds: float = 10.0  # from the connection, or the last answer's next byte, to the last header
    idle_seconds: float = 30.0  # between two requests
    reply_seconds: float = 30.0  # for a reader to take its reply
    unread_bytes: int = 32_000_000  # of replies that nobody takes, all together


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """One service. `panels` maps a panel name or path to its bank (None: the panel's own)."""

    panels: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys(PACKAGED))
    methods: tuple[str, ...] = METHODS
    embedder: str | None = None
    host: str = "127.0.0.1"
    port: int = 8_000
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    public_url: str | None = None
    require_token: bool = False
    token_file: Path = field(default_factory=lambda: service_home() / "tokens.json")
    audit_url: str = field(default_factory=lambda: default_audit_url())
    audit_key: Path = field(default_factory=lambda: service_home() / "audit.key")
    keep_text: bool = False
    keep_text_days: float = 30.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.panels:
            raise BadInput("the service has no panel: give at least one --panel")
        if not 0 <= self.port <= 65_535:
            raise BadInput(f"--port is {self.port}: give a number from 0 to 65535")
        if self.keep_text and not 0 < self.keep_text_days <= 36_500:
            raise BadInput("--keep-text-days must be above 0: kept texts have a retention time")
        if not (0 <= self.limits.rate < math.inf and self.limits.address_sockets >= 0):
            raise BadInput("--rate and --address-sockets are numbers from 0 up; 0 sets no limit")
        for origin in self.cors_origins:
            if origin == "*" or not origin.startswith(("http://", "https://")):
                raise BadInput(f"--cors-origin '{origin}' is not an origin such as https://ehr.example")

    @property
    def tokens_needed(self) -> bool:
        """A service that others can reach, directly or through a proxy, answers only callers it knows."""
        named = bool(self.allowed_hosts) or self.public_url is not None
        return self.require_token or named or not is_loopback(self.host)

    @property
    def host_names(self) -> frozenset[str] | None:
        """Host headers to accept, or None for all.

        On loopback only loopback names pass: otherwise a web page whose name is re-pointed at this
        machine (DNS rebinding) could read answers through the user's own browser.
        """
        named = {name.lower() for name in self.allowed_hosts}
        if is_loopback(self.host):
            return frozenset(named | {"localhost", "127.0.0.1", "[::1]", self.host.lower()})
        return frozenset(named) or None


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def service_home() -> Path:
    """Where the service keeps its tokens, its key and its default audit log."""
    return home() / "service"


def default_audit_url() -> str:
    return f"sqlite:///{service_home() / 'audit.sqlite3'}"
