"""What the operator decides, in one frozen object, and where the service keeps what must not be lost.

Everything has a safe default. A cache folder may be emptied by anyone at any time, so tokens, the audit key,
the audit log and its checkpoints lie in the platform's data folder. $SIMDX_DATA names another; where only
$SIMDX_HOME is set, everything stays inside it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from simdx.egress import is_loopback_host
from simdx.errors import BadInput
from simdx.models.registry import home
from simdx.panels.load import PACKAGED

# Methods that need nothing beyond the panel's bank and its embedder, so any caller may ask for them.
METHODS = ("auto", "m-smc", "d-smc")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all of them together, may cost. Rates and slow clients: deploy/nginx.conf."""

    body_bytes: int = 4_000_000
    body_values: int = 20_000  # of its JSON: list items, fields and what is in them
    body_seconds: float = 15.0  # to read a request's body
    text_characters: int = 100_000
    seconds: float = 20.0  # from the whole request read to its answer
    caller_texts: int = 1_024  # texts of one caller between question and answer; above it, 429
    waiting_texts: int = 4_096  # texts waiting for the engine; above it, 503
    batch_texts: int = 64  # texts in one engine call
    explained_texts: int = 24  # with more at hand, answers go out without sentences and flip
    connections: int = 1_024  # open at once; above it, 503
    idle_seconds: int = 30  # between two requests
    attachments: int = 3  # links of a chart that one call may have fetched
    attachment_bytes: int = 1_000_000
    attachment_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class CdsClient:
    """A record system whose signed calls are answered: its issuer, and where its public keys are."""

    issuer: str
    keys: str  # an address, or a file
    panels: tuple[str, ...] | None = None  # those it may ask; None: all

    def __post_init__(self) -> None:
        # A colon, which no token's name has: a client and a token are never the same caller.
        if ":" not in self.issuer or any(c.isspace() for c in self.issuer) or len(self.issuer) > 300:
            raise BadInput("--cds-client: the issuer is a URI such as https://ehr.example")
        if "://" in self.keys:
            trusted_address(self.keys, "--cds-client: the key set")


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
    fhir_servers: tuple[str, ...] = ()  # from which a hook's attachments may be fetched
    cds_clients: tuple[CdsClient, ...] = ()
    require_token: bool = False
    token_file: Path = field(default_factory=lambda: service_home() / "tokens.json")
    audit_url: str = field(default_factory=lambda: default_audit_url())
    audit_key: Path = field(default_factory=lambda: service_home() / "audit.key")
    audit_checkpoints: Path | None = None  # None: see `checkpoint_file`
    limits: Limits = field(default_factory=Limits)
    allow_remote: bool = False  # whether case text may leave this machine
    upstream: str | None = None  # a server of typed decisions, whose answers the panels calibrate
    upstream_cases: Path | None = None  # labelled cases to calibrate it on

    def __post_init__(self) -> None:
        if not self.panels:
            raise BadInput("the service has no panel: give at least one --panel")
        if not 0 <= self.port <= 65_535:
            raise BadInput(f"--port is {self.port}: give a number from 0 to 65535")
        for origin in self.cors_origins:
            if not origin.startswith(("http://", "https://")):
                raise BadInput(f"--cors-origin '{origin[:200]}' is not an origin such as https://ehr.example")
        if self.cors_origins and not self.tokens_needed:
            raise BadInput("--cors-origin needs tokens: add --require-token")
        if self.upstream is not None and self.methods == METHODS:
            object.__setattr__(self, "methods", ("upstream", *METHODS))
        if self.upstream_cases is not None and (self.upstream is None or len(self.panels) != 1):
            raise BadInput("--upstream-cases are for an --upstream and one --panel")
        for server in self.fhir_servers:
            trusted_address(server, "--fhir-server")
        if self.cds_clients and self.public_url is None:
            # The Host header is the caller's word: an audience must be compared with the operator's.
            raise BadInput("--cds-client needs --public-url: a signed call names the address it is for")
        if len({client.issuer for client in self.cds_clients}) < len(self.cds_clients):
            raise BadInput("--cds-client names the same issuer twice")

    @property
    def tokens_needed(self) -> bool:
        """A service that others can reach, directly or through a proxy, answers only callers it knows."""
        named = self.allowed_hosts or self.public_url is not None or self.cds_clients
        return self.require_token or bool(named) or not is_loopback_host(self.host)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Host headers to accept.

        On loopback only loopback names pass: otherwise a web page whose name is re-pointed at this
        machine (DNS rebinding) could read answers through the user's own browser.
        """
        if is_loopback_host(self.host):
            return (*self.allowed_hosts, "localhost", "127.0.0.1", "[::1]", self.host)
        return self.allowed_hosts or ("*",)


def trusted_address(url: str, what: str) -> str:
    """An address to fetch from: https, or http on this machine; no user, no fragment, no odd characters."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    plain = url.isascii() and url.isprintable() and not any(c in url for c in " \\#@")
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
    if not host or not plain or not safe:
        raise BadInput(f"{what} is an https address (http on this machine only), without a user or '#'")
    return url


def default_audit_url() -> str:
    return f"sqlite:///{service_home() / 'audit.sqlite3'}"


def checkpoint_file(url: str, key: Path) -> Path:
    """Where a log's head is noted unless told otherwise: beside a log that is a file, else the key."""
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///") + ".checkpoints")
    return key.with_suffix(".checkpoints")


def service_home() -> Path:
    if named := os.environ.get("SIMDX_DATA"):
        return Path(named)
    if os.environ.get("SIMDX_HOME"):
        return home() / "service"
    return Path(platformdirs.user_data_dir("simdx")) / "service"
