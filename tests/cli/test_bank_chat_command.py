"""`simdx bank ask` and `simdx bank import PANEL REPLY`: a bank from any chat model."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from simdx.panels import load_source
from simdx.simulators.base import Completion
from tests.cli.conftest import Cli
from tests.conftest import ROOT

REPLIES = sorted((ROOT / "tests" / "data" / "replies").iterdir())
LABELS = ("migraine", "tension headache", "cluster headache")


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    path = tmp_path / "headaches.yaml"
    path.write_text(
        f"register: patient\nembedder: hashing\nlabels: [{', '.join(LABELS)}]\n", encoding="utf-8"
    )
    return path


def test_a_prompt_is_printed_or_written(cli: Cli, panel: Path, tmp_path: Path) -> None:
    shown = cli("bank", "ask", "--panel", panel)
    assert '- 25 for "migraine"' in shown.out
    assert f"simdx bank import {panel} reply.txt" in shown.err
    out = tmp_path / "prompt.txt"
    told = cli("bank", "ask", "--panel", panel, "--out", out, "--texts-per-label", 60, "--json").json
    assert told["files"] == [str(out), *(str(tmp_path / f"prompt-{i}.txt") for i in range(2, 4))]
    assert [Path(name).read_text() for name in told["files"]] == told["prompts"]


def test_replies_become_the_panel_s_bank(cli: Cli, panel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cli("bank", "import", panel, REPLIES[0], "--texts-per-label", 5, "--json").json
    assert first["missing"] == {**dict.fromkeys(LABELS, 2), "none of these": 18}
    following = Path(first["next_prompt"])
    assert '- 2 for "cluster headache"' in following.read_text()
    monkeypatch.setattr(sys, "stdin", io.StringIO(REPLIES[2].read_text("utf-8")))  # pasted
    second = cli("bank", "import", panel, "-", REPLIES[5], "--texts-per-label", 5)
    assert second.code == 0, second.err
    assert "still missing: 1" in second.out
    assert f"the bank can be used: simdx classify TEXT --panel {panel}\n" in second.out
    source = load_source(panel)
    assert [path.parent.name for path in source.banks] == ["headaches-chat"]
    answer = cli("classify", "Half my head is pounding and I feel sick.", "--panel", panel, "--json").json
    assert answer["out_of_class"] is not None
    assert cli("bank", "verify", source.banks[0].parent).code == 0
    before = panel.read_text()
    assert cli("bank", "import", panel, *REPLIES).code == 0
    assert panel.read_text() == before  # it names its bank already


def test_a_reply_for_another_panel_is_refused(cli: Cli, panel: Path, tmp_path: Path) -> None:
    reply = tmp_path / "reply.txt"
    reply.write_text(
        "billing question | Why was I charged twice for the same month of my plan?\n"
        "login problem | The page says my password is wrong, though I changed it today.\n"
        "none of these (praise) | I only want to say that your shop is lovely.\n",
        encoding="utf-8",
    )
    told = cli("bank", "import", panel, reply)
    assert told.code == 2
    assert "it labels its texts 'billing question', 'login problem'" in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not (tmp_path / "headaches-chat").exists()


def test_a_server_is_asked_the_same(cli: Cli, panel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    replies = iter([REPLIES[0], REPLIES[2], *REPLIES[4:6]])

    def complete(requests):  # type: ignore[no-untyped-def]
        for place, request in enumerate(requests):
            asked.append(request.prompt)
            yield place, Completion(next(replies).read_text("utf-8"))

    server = SimpleNamespace(id="openai:m", complete=complete, close=lambda: None)
    monkeypatch.setattr("simdx.simulators.get_simulator", lambda *_, **__: server)
    told = cli(
        "bank", "ask", "--panel", panel, "--simulator", "openai:m@http://x", "--texts-per-label", 5, "--json"
    )
    assert told.json["labels"] == dict.fromkeys(LABELS, 8)
    assert len(asked) == 4  # until nothing new is to be expected: none of these stays short
    assert '- 2 for "migraine"' in asked[1]
    server.complete = lambda requests: ((i, Completion("No.")) for i, _ in enumerate(requests))
    unused = panel.with_name("unused.yaml")
    unused.write_text(panel.read_text())
    assert cli("bank", "ask", "--panel", unused, "--simulator", "openai:m@http://x").code == 1
    assert not (panel.parent / "unused-chat").exists()  # a server that says nothing leaves nothing
