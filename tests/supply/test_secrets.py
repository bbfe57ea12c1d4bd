"""A canary key and a canary case are given to everything, made to fail, and looked for everywhere.

The key may be in the one header it is meant for. The case may be in what the user asks to have it in (the
answer and the page on it); never in a log at any level, in an error, a bank, a record or a cache.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from simdx.panels import load_panel
from simdx.service.auth import TokenFile
from tests.cli.conftest import Cli
from tests.service.conftest import PANEL, serving
from tests.simulators.faults import FaultyServer

KEY = "sk-canary-5f3e9a"
CASE = "Canary Zanzibar Quillfeather has a sore tongue"
WORDS = ("Zanzibar", "Quillfeather")


@pytest.fixture(autouse=True)
def canaries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIMDX_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SIMDX_HOME", str(tmp_path / "home"))


@pytest.fixture
def everything_said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every logger of ours at its most talkative."""
    ours = ("simdx", "simdx.service")
    with caplog.at_level(logging.DEBUG, logger=ours[0]), caplog.at_level(logging.DEBUG, logger=ours[1]):
        yield caplog


def clean(*said: str, words: tuple[str, ...] = (KEY, *WORDS)) -> None:
    assert not [word for word in words if word in "\n".join(said)]


def clean_files(folder: Path, words: tuple[str, ...] = (KEY, *WORDS)) -> int:
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        data = path.read_bytes()
        for word in words:
            assert word.encode() not in data, path.name
    return len(files)


def test_a_refusing_server(cli: Cli, tmp_path: Path, everything_said: pytest.LogCaptureFixture) -> None:
    with FaultyServer(["401"] * 100_000) as server:
        name = f"openai:any@{server.url}"
        out = tmp_path / "bank"
        jobs = (
            ("bank", "build", "--panel", PANEL, "--simulator", name, "--per-label", "2", "--out", out),
            ("classify", CASE, "--panel", PANEL, "--method", "elicited", "--simulator", name, "--json"),
            ("classify", CASE, "--panel", PANEL, "--embedder", name, "--json"),
        )
        for job in jobs:
            ended = cli(*job)
            assert ended.code != 0
            assert ended.err.strip()
            clean(ended.out, ended.err)
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"  # it was in use, and nowhere else
    clean(everything_said.text)
    clean_files(tmp_path)


def test_what_a_bad_command_line_says(cli: Cli, tmp_path: Path) -> None:
    cases = tmp_path / "data" / "cases.jsonl"
    cases.parent.mkdir()
    rows = ({"text": CASE, "label": "no such label"}, {"text": CASE}, {"label": CASE, "text": ""}, [CASE])
    for row in rows:
        cases.write_text(json.dumps(row) + "\n")
        ended = cli("evaluate", "--panel", PANEL, "--data", cases, "--json")
        assert ended.code == 2
        clean(ended.out, ended.err)
    for arguments in (
        ("--panel", "nowhere"), ("--method", "magic"), ("--prior", "nobody=.5"), ("--engine", "warp"),
        ("--policy", "missing.yaml"), ("--bank", "missing.jsonl"), ("--populations", "99"),
    ):  # fmt: skip
        panel = () if "--panel" in arguments else ("--panel", PANEL)
        ended = cli("classify", CASE, *panel, *arguments)
        assert ended.code == 2
        clean(ended.out, ended.err)


def test_what_an_evaluation_keeps(
    cli: Cli, tmp_path: Path, everything_said: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data" / "cases.jsonl"
    data.parent.mkdir()
    rows = ({"text": f"{CASE} {i}", "label": "oral mucocele", "id": i} for i in range(4))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outside = data.with_name("outside.jsonl")
    outside.write_text(json.dumps({"text": f"{CASE} once more"}) + "\n")
    out = tmp_path / "out"
    # A small bank of its own: what is embedded, fitted and found for it goes into the cache.
    labels = load_panel(PANEL).names
    bank = [{"label": label, "text": f"{label} that came {i} days ago"} for label in labels for i in range(9)]
    (tmp_path / "bank.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bank))
    ended = cli("evaluate", "--panel", PANEL, "--data", data, "--ood", outside, "--embedder", "hashing",
                "--bank", tmp_path / "bank.jsonl", "--resamples", "100", "--out", out, "--json")  # fmt: skip
    assert ended.code == 0
    clean(ended.out, ended.err, everything_said.text)
    assert clean_files(out) >= 3
    assert clean_files(tmp_path / "home") >= 1


def test_what_the_service_says_and_keeps(tmp_path: Path, everything_said: pytest.LogCaptureFixture) -> None:
    token, _ = TokenFile(tmp_path / "tokens.json").new("clinic", ("classify", "admin"))
    with serving(tmp_path, require_token=True) as client:
        headers = {"authorization": f"Bearer {token}"}
        good = {"panel": PANEL, "text": CASE}
        for more in ({}, {"draws": 5}):
            assert client.post("/v1/classify", json={**good, **more}, headers=headers).status_code == 200
        clean(client.get("/v1/audit", headers=headers).text, client.get("/metrics", headers=headers).text)
        bad = (
            {**good, "method": "magic"}, {**good, "panel": "nowhere"}, {**good, "prior": {"x": 9}},
            {"text": CASE},
            {**good, CASE: 1}, {**good, "texts": [CASE]}, {"panel": CASE}, {**good, "draws": CASE}, [CASE],
        )  # fmt: skip
        for body in bad:
            for path in ("/v1/classify", "/v1/feedback", "/v1/fhir/RiskAssessment"):
                refused = client.post(path, json=body, headers=headers)
                if refused.status_code >= 400:
                    clean(refused.text, str(refused.headers))
        wrong = client.post("/v1/classify", json=good, headers={"authorization": f"Bearer {token}x"})
        assert wrong.status_code == 401
        clean(wrong.text, words=(token, *WORDS))
    clean(everything_said.text, words=(token, KEY, *WORDS))
    assert any(record.name.startswith("simdx") for record in everything_said.records)
    assert clean_files(tmp_path, words=(token, KEY, *WORDS)) >= 3
