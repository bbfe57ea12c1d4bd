"""The Hugging Face libraries reach no hub while files that are here are loaded, nor afterwards."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simdx.models import hub as door
from simdx.models.fetch import locate
from tests.conftest import ROOT

LIBRARIES = {"huggingface_hub", "transformers", "sentence_transformers", "datasets"}
SOURCE = ROOT / "src" / "simdx"
# Every way out is trapped; then the job runs; then a library asks the hub something of its own accord.
WATCHED = """
import json, socket, sys
seen = []
def trapped(kind):
    def refuse(*given, **_):
        seen.append([kind, str(given[-1] if kind == "connect" else given[0])])
        raise OSError("trapped")
    return refuse
for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
    setattr(socket, name, trapped(name))
socket.socket.connect = socket.socket.connect_ex = trapped("connect")
{job}
import huggingface_hub
from huggingface_hub import constants
try:
    huggingface_hub.HfApi().model_info("owner/name")
    answer = "asked"
except Exception as error:
    answer = type(error).__name__
print(json.dumps({{"seen": seen, "offline": constants.HF_HUB_OFFLINE, "answer": answer,
                   "silent": constants.HF_HUB_DISABLE_TELEMETRY}}))
"""


def watched(job: str) -> dict:
    named = ("HF_", "TRANSFORMERS_", "DO_NOT_TRACK", "DISABLE_TELEMETRY")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(named)}
    command = [sys.executable, "-c", WATCHED.format(job=job)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


JOBS = (
    "from simdx.embedders.sentence import SentenceEmbedder\nSentenceEmbedder('minilm')",
    "from simdx.simulators import get_simulator\nget_simulator('hf:smollm2')",
    "from simdx.models.fetch import locate\nfrom simdx.embedders import get_embedder\n"
    "get_embedder(str(locate('minilm')))",  # a folder of one's own
)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_loading_named_weights_looks_nothing_up_and_leaves_the_hub_closed(job: str) -> None:
    for name in ("minilm", "smollm2"):  # here before the watch begins: fetching them may look a hub up
        locate(name)
    found = watched(job)
    assert found == {"seen": [], "offline": True, "answer": "OfflineModeIsEnabled", "silent": True}


def test_the_watch_and_the_check_of_the_door_see() -> None:
    found = watched("import huggingface_hub")
    assert found["seen"]
    assert found["answer"] != "OfflineModeIsEnabled"
    hidden = "def f():\n    from huggingface_hub import x"
    for source in ("import transformers", hidden, "with lock:\n import datasets"):
        assert outside_the_door(source)
    assert not outside_the_door("with hub(allowed=False):\n    import transformers")


def test_the_hub_opens_where_asked_and_is_left_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    # A host program that has imported the library before us, with its hub open.
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(door, "ASKED_OFFLINE", False)
    with door.hub(allowed=False):
        assert constants.HF_HUB_OFFLINE
    with pytest.raises(ZeroDivisionError), door.hub(allowed=False):
        _ = 1 / 0
    assert not constants.HF_HUB_OFFLINE
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with door.hub(allowed=True):
        assert not constants.HF_HUB_OFFLINE
    assert constants.HF_HUB_OFFLINE
    # Who set HF_HUB_OFFLINE means it, also for a hub name.
    monkeypatch.setattr(door, "ASKED_OFFLINE", True)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("looked up"))
    with door.hub(allowed=True):
        assert constants.HF_HUB_OFFLINE
    assert not door.hub_answers()
    monkeypatch.setattr(door, "ASKED_OFFLINE", False)
    for variable in ("HTTPS_PROXY", "HF_ENDPOINT"):  # they look names up themselves
        monkeypatch.setenv(variable, "http://mirror.example:8080")
        assert door.hub_answers()
        monkeypatch.delenv(variable)


def outside_the_door(source: str) -> list[str]:
    """Imports of the libraries that stand in no `with hub(...)`."""
    found: list[str] = []

    def walk(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            inside = inside or any(getattr(call.func, "id", "") == "hub" for call in calls)
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found.extend(n for n in names if n.split(".")[0] in LIBRARIES and not inside)
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(ast.parse(source), False)
    return found


def test_every_import_of_the_libraries_stands_behind_the_door() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "models" / "hub.py"]
    found = {path.name: f for path in files if (f := outside_the_door(path.read_text("utf-8")))}
    assert found == {}
    assert any("with hub(" in Path(path).read_text("utf-8") for path in files)
