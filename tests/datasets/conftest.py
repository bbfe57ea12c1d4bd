"""Where the development data lie, when they are there at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("SIMDX_SHARED", root.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("the development data are not on this machine")
    return folder
