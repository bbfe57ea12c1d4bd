"""`simdx read`."""

import json
from pathlib import Path

import pytest

from simdx.cli.main import run


def told(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        run(["read", *args])
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


def test_json_has_the_spans(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "Cough. No fever.", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["english"] is True
    assert [(span["text"], span["assertion"]) for span in answer["spans"]] == [
        ("Cough", "present"),
        ("fever", "negated"),
    ]
    assert set(answer["spans"][1]) == {"start", "end", "text", "assertion", "section", "trigger"}


def test_words_name_the_assertion_and_its_trigger(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("PMH: asthma. Denies pain [bold].", encoding="utf-8")
    code, out, _ = told(capsys, "--file", str(file))
    assert code == 0
    assert "past          asthma  (section past history)" in out
    assert "negated       pain [bold]  (Denies)" in out


def test_another_language_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "Das Kind hat seit drei Tagen Fieber und hustet nachts.", "--json")
    assert code == 0
    assert json.loads(out)["english"] is False
    assert err.count("\n") == 1
    assert "English" in err


def test_no_text_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("simdx: give a text")
