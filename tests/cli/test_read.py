"""`simdx read`."""

from pathlib import Path

from tests.cli.conftest import Cli


def test_json_has_the_spans(cli: Cli) -> None:
    answer = cli("read", "Cough. No fever.", "--json").json
    assert answer["english"] is True
    found = [(span["text"], span["assertion"]) for span in answer["spans"]]
    assert found == [("Cough", "present"), ("fever", "negated")]
    assert set(answer["spans"][1]) == {"start", "end", "text", "assertion", "section", "trigger"}


def test_words_name_the_assertion_and_its_trigger(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("PMH: asthma. Denies pain [bold].", encoding="utf-8")
    out = cli("read", "--file", file).out
    assert "past          asthma  (section past history)" in out
    assert "negated       pain [bold]  (Denies)" in out


def test_another_language_is_said_in_one_line(cli: Cli) -> None:
    ran = cli("read", "Das Kind hat seit drei Tagen Fieber und hustet nachts.", "--json")
    assert ran.json["english"] is False
    assert ran.err.count("\n") == 1
    assert "English" in ran.err
