"""Words of cases, labels and files reach no terminal with control characters in them."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ran

CLEAR, TITLE, C1, BIDI = "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202eesrever\u2066"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    """Labels, descriptions and simulated texts with controls in them."""
    path = tmp_path / "hostile.yaml"
    labels = [
        {"name": f"delivery{CLEAR}", "description": f"a parcel{TITLE}", "aliases": [f"post{BIDI}"]},
        {"name": f"billing{C1}{BIDI}"},
    ]
    about = {"title": f"tickets{CLEAR}", "register": "general", "labels": labels, "banks": ["bank.jsonl"]}
    path.write_text(json.dumps({**about, "notice": f"{TITLE}a notice"}), "utf-8")
    words = ("parcel courier late van tracking depot", "invoice charge refund card payment receipt")
    rows = [
        {"label": label["name"], "text": f"About the {word}{CLEAR} and{C1} more: ask{BIDI} again."}
        for label, said in zip(labels, words, strict=True)
        for word in said.split()
    ]
    (tmp_path / "bank.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def clean(ran: Ran, code: int = 0) -> Ran:
    assert ran.code == code, ran.err
    assert not RAW.findall(ran.out + ran.err)
    return ran


def test_an_answer(cli: Cli, panel: Path) -> None:
    text = f"The courier{CLEAR} lost{C1} my{BIDI} parcel{TITLE}."
    asked = ("--panel", panel, "--embedder", "hashing", text)
    for more in ((), ("--verbose",), ("--ask",)):
        assert "delivery" in clean(cli("classify", *asked, *more)).out
    told = clean(cli("classify", *asked, "--json")).json
    # JSON says the same in escapes
    assert set(told["posterior"]) == {f"delivery{CLEAR}", f"billing{C1}{BIDI}"}


def test_panels_and_banks(cli: Cli, panel: Path) -> None:
    clean(cli("panel", "show", panel))
    clean(cli("panel", "check", panel))
    clean(cli("panel", "show", panel, "--json"))


def test_an_evaluation(cli: Cli, panel: Path, tmp_path: Path) -> None:
    row = {"text": f"my parcel{C1}", "label": f"billing{C1}{BIDI}", "sex": f"f{CLEAR}[/]"}
    rows = [{**row, "id": f"{CLEAR}{i}"} for i in range(3)]
    cases = tmp_path / "cases.jsonl"
    cases.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    asked = ("--panel", panel, "--embedder", "hashing", "--data", cases, "--resamples", "100", "--by", "sex")
    clean(cli("evaluate", *asked))


def test_an_error_line(cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(json.dumps({"labels": ["a", "b"], f"key{CLEAR}{BIDI}": 1}), "utf-8")
    assert "is not a key" in clean(cli("panel", "show", bad), 2).err
    clean(cli("classify", f"{CLEAR}", "--panel", f"no{TITLE}{C1}ne"), 2)
    clean(cli("classify", "x", f"--no{CLEAR}"), 2)
