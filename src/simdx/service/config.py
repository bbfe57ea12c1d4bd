"""What the operator decides, in one frozen object. Everything has a safe default."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simdx.errors import BadInput
from simdx.panels.load import PACKAGED
from simdx.service.data import service_home

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
    caller_requests: int = 512  # of which one caller may have; above it, 429
    batch_texts: int = 64  # texts in one engine call
    explained_texts: int = 24  # with more at hand, answers go out without sentences and flip
    observations: int = 256  # cases kept in memory for the prior sliders
    observation_seconds: float = 900.0


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
    audit_checkpoints: Path | None = None  # None: see `checkpoint_file`
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
        for origin in self.cors_origins:
            if origin == "*" or not origin.startswith(("http://", "https://")):
                raise BadInput(f"--cors-origin '{origin}' is not an origin such as https://ehr.example")

    @property
    def tokens_needed(self) -> bool:
        """A service that others can reach answers only callers it knows."""
        return self.require_token or not is_loopback(self.host)

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


def default_audit_url() -> str:
    return f"sqlite:///{service_home() / 'audit.sqlite3'}"


def checkpoint_file(url: str, key: Path) -> Path:
    """Where a log's head is noted unless told otherwise: beside a log that is a file, else the key."""
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///") + ".checkpoints")
    return key.with_suffix(".checkpoints")
