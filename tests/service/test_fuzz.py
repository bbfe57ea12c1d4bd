"""Fuzzing the OpenAPI spec: whatever schemathesis sends, the service answers as documented, never a 500.

One check is left out: that every body the schema allows is accepted. A schema cannot say which labels a
panel has, and refusing a prior over unknown labels is right.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from simdx.service.config import Limits
from tests.service.conftest import Live, create_app, make_config

pytestmark = pytest.mark.slow

EXAMPLES = 60
LEFT_OUT = "positive_data_acceptance"


def test_no_request_makes_it_fail(tmp_path: Path) -> None:
    patient = Limits(seconds=300.0)  # a busy machine is no failure
    with Live(create_app(make_config(tmp_path, limits=patient))) as service:
        command = [
            sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run",
            f"{service.url}/openapi.json", "--max-examples", str(EXAMPLES), "--seed", "7", "--no-color",
            "--exclude-checks", LEFT_OUT, "--request-timeout", "60", "--suppress-health-check", "all",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=800)
    assert done.returncode == 0, done.stdout[-6000:]
    counted = service.app.state.simdx.meters.exposition().body.decode()
    assert 'status="500"' not in counted
    assert 'route="/v1/classify",status="200"' in counted  # it did reach the engine
