"""Addresses that count as this machine, which key goes to which server, and what a hub is asked."""

import subprocess
import sys
from pathlib import Path

import pytest

from simdx.bank.files import write_jsonl
from simdx.egress import is_loopback, is_loopback_host, open_client, split_name
from simdx.errors import BadInput, NotAllowed
from simdx.models import hub as door
from tests.loopback import Pages, running


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "LOCALHOST", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "127.0.0.1:8080"],
)
def test_this_machine(host: str) -> None:
    assert is_loopback(f"http://{host}/v1")
    assert split_name(f"openai:m@http://{host}/v1")[1] == f"http://{host}/v1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "clinic.example", "localhost.", ""])
def test_another_machine(host: str) -> None:
    assert is_loopback_host("::1")  # as a service is bound to it
    assert not is_loopback_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1%2eevil.example", "127.0.0.1%252eevil.example", "localhost%2eevil.example", "127.0.0.1%00",
        "127.0.0.1%25evil.example", "[::1%25evil]", "127.0.0.1\\.evil.example", "127.0.0.1\t.evil.example",
        "127.0.0.1#.evil.example", "127.0.0.1?.evil.example", "localhost\u3002evil.example", "",
        "\uff11\uff12\uff17.0.0.1", "[127.0.0.1]", "127.0.0.1:80:80", "127.0.0.1 .evil.example",
    ],
)  # fmt: skip
def test_an_address_with_two_readings_is_none(host: str) -> None:
    """`127.0.0.1%2eevil.example` counted as loopback until its peer was looked at."""
    assert not is_loopback(f"http://{host}/v1")
    with pytest.raises(BadInput, match="not the address"):
        split_name(f"openai:m@http://{host}/v1")


def test_a_key_or_a_user_in_the_address_is_refused() -> None:
    for host in ("user:key@127.0.0.1", "127.0.0.1\\@evil.example", "127.0.0.1@evil.example"):
        with pytest.raises(BadInput, match="SIMDX_API_KEY, not into the URL"):
            split_name(f"openai:m@http://{host}/v1")
        assert not is_loopback(f"http://{host}/v1")


KEYS = {"OPENAI_API_KEY": "sk-openai", "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}


@pytest.mark.parametrize(
    ("url", "more", "key"),
    [
        ("https://api.openai.com/v1", {}, "sk-openai"),
        ("https://api.openai.com.evil.example/v1", {}, "none"),
        ("https://llm.example/v1", {}, "none"),
        ("http://api.openai.com/v1", {}, "none"),
        ("http://127.0.0.1:9/v1", {}, "none"),
        ("https://llm.example/v1", {"OPENAI_BASE_URL": "https://llm.example/v2"}, "sk-openai"),
        ("https://api.openai.com/v1", {"OPENAI_BASE_URL": "https://llm.example/v2"}, "none"),
        ("https://llm.example/v1", {"SIMDX_API_KEY": "ours"}, "ours"),
        ("http://127.0.0.1:9/v1", {"SIMDX_API_KEY": "ours"}, "ours"),
        ("http://llm.example/v1", {"SIMDX_API_KEY": "ours"}, "none"),  # in the clear, to another machine
    ],
)
def test_a_key_goes_to_the_host_it_was_set_for(
    monkeypatch: pytest.MonkeyPatch, url: str, more: dict[str, str], key: str
) -> None:
    monkeypatch.delenv("SIMDX_API_KEY", raising=False)
    for name, value in {**KEYS, **more}.items():
        monkeypatch.setenv(name, value)
    client = open_client(url, 5.0, allow_remote=True)
    assert client.api_key == key
    assert (client.organization, client.project) == (
        ("org-1", "proj-1") if key == "sk-openai" else (None, None)
    )


def test_what_a_server_really_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMDX_API_KEY", raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with running(
        Pages({"/v1/models": (200, "application/json", b'{"object": "list", "data": []}')})
    ) as server:
        list(open_client(f"{server.url}/v1", 5.0, allow_remote=False).models.list())
    ((_, headers),) = server.asked
    assert not any(secret in str(headers) for secret in KEYS.values())


def test_the_hub_is_asked_with_permission_and_after_it_was_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(door, "hub_answers", lambda: looked.append(True) or True)
    with pytest.raises(NotAllowed, match="--allow-remote"):
        door.may_ask("own/er", allow_remote=False)
    assert not looked  # not even its name was looked up
    assert door.may_ask("own/er", allow_remote=True)
    assert capsys.readouterr().err == "simdx: asking the Hugging Face hub for 'own/er'\n"
    monkeypatch.setattr(door, "hub_answers", lambda: False)
    with pytest.raises(BadInput, match="cannot be reached"):
        door.may_ask("own/er", allow_remote=True)


def test_a_panel_cannot_make_the_hub_be_asked(tmp_path: Path) -> None:
    """In a process of its own, where every name look-up and connection is an error."""
    (tmp_path / "panel.yaml").write_text("labels: [a, b]\nembedder: own/er\nbanks: [bank.jsonl]\n")
    rows = ({"label": label, "text": f"about {label} {i}"} for label in "ab" for i in range(5))
    write_jsonl(tmp_path / "bank.jsonl", rows)
    script = (
        "import socket\n"
        "def no(*a, **k): raise SystemExit('asked the network')\n"
        "socket.getaddrinfo = socket.create_connection = no\n"
        "from simdx.cli.main import run\n"
        f"run(['classify', 'a text', '--panel', {str(tmp_path / 'panel.yaml')!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "hub would be asked for it" in done.stderr
