"""Fuzzing the OpenAPI spec: whatever schemathesis sends, the service answers as documented, never a 500.

One check is left out: that every body the schema allows is accepted. A schema cannot say which labels a
panel has, and refusing a prior over unknown labels is right.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from simdx.service.meters import Meters
from tests.service.conftest import create_app, make_config

pytestmark = pytest.mark.slow

EXAMPLES = 60
LEFT_OUT = "positive_data_acceptance"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[str, Meters]]:
    app = create_app(make_config(tmp_path))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", app.state.house.meters
    server.should_exit = True
    thread.join(timeout=20)


def test_no_request_makes_it_fail(live: tuple[str, Meters], tmp_path: Path) -> None:
    address, meters = live
    command = [
        sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run",
        f"{address}/openapi.json", "--max-examples", str(EXAMPLES), "--seed", "7", "--no-color",
        "--exclude-checks", LEFT_OUT, "--request-timeout", "60", "--suppress-health-check", "all",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=800)
    assert done.returncode == 0, done.stdout[-6000:]
    counted = meters.exposition().decode()
    assert 'status="500"' not in counted
    assert 'route="/v1/classify",status="200"' in counted  # it did reach the engine
