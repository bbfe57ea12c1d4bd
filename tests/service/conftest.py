"""A service with one real panel, in a folder of its own, for all tests of the room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from simdx.service import app as application
from simdx.service.auth import TokenFile
from simdx.service.config import ServiceConfig
from simdx.service.registry import Registry

PANEL = "oral-lesions"
TEXT = "A soft, bluish, painless swelling of the lower lip that came two weeks after a bite."
URL = "http://127.0.0.1"


def make_config(folder: Path, **changes: object) -> ServiceConfig:
    config = ServiceConfig(
        panels={PANEL: None},
        audit_url=f"sqlite:///{folder / 'audit.sqlite3'}",
        audit_key=folder / "audit.key",
        token_file=folder / "tokens.json",
    )
    return replace(config, **changes)  # type: ignore[arg-type]


@cache
def _registry() -> Registry:
    return Registry(ServiceConfig(panels={PANEL: None}))


def create_app(config: ServiceConfig) -> FastAPI:
    """An application on the panel that was loaded once for all tests."""
    return application.create_app(config, _registry())


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(make_config(tmp_path_factory.mktemp("service")))


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=URL) as client:
        yield client


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[TestClient, str, str, TokenFile]]:
    """A service that asks for tokens: the client, a classify token, an admin token, their file."""
    config = make_config(tmp_path, require_token=True)
    tokens = TokenFile(Path(config.token_file))
    plain, _ = tokens.new("clinic", ("classify",))
    admin, _ = tokens.new("operator", ("classify", "admin"))
    with TestClient(create_app(config), base_url=URL) as client:
        yield client, plain, admin, tokens
