"""kill -9 of every writer right before a rename: nothing half-written is seen, and a second run ends it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.faults.writers import WRITERS


def test_every_writer_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.writers", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {name: [] for name in WRITERS}
