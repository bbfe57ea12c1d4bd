"""`simdx quickstart` and `simdx panel status`: a stranger's first hour, with the scripted simulator."""

import io
import sys
from pathlib import Path

import pytest

from simdx.cli.quickstart import _inside
from simdx.panels import load_source
from tests.cli.conftest import Cli

TICKETS = ("late delivery=the parcel has not come", "wrong invoice=an amount is not right")
QUICK = ("--register", "general", "--simulator", "scripted", "--no-serve")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> object:
    return lambda *lines: monkeypatch.setattr(
        sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines))
    )


def test_from_labels_to_an_answer(cli: Cli, tmp_path: Path, typed) -> None:
    out = tmp_path / "tickets"
    # labels, a line for each, the file left as it is, the texts asked for again and approved, a case
    typed(
        "late delivery", "wrong invoice", "", "the parcel has not come", "", "", "e", "y", "It is late.", ""
    )
    ran = cli("quickstart", "--out", out, *QUICK, "--per-label", 12)
    assert ran.code == 0, ran.err
    source = load_source(out)  # the panel names its bank: --panel is enough from here on
    assert [label.description for label in source.panel.labels] == ["the parcel has not come", ""]
    assert source.background is not None
    assert ran.out.count("\nlate delivery\n  - ") == 2  # three texts, shown again after an edit
    for command in ("bank build", "bank show", "panel calibrate", "panel status", "classify 'It is late.'"):
        assert f"$ simdx {command}" in ran.err
    assert "weakest link: the bank" in ran.out
    again = cli("quickstart", "--out", out, *QUICK, "--per-label", 12, "--yes")  # goes on where it was
    assert again.code == 0
    assert "to look at" not in again.err
    assert "has its labels already" in cli("quickstart", *TICKETS, "--out", out, *QUICK, "--yes").err
    same = ("late delivery=the parcel has not come", "wrong invoice")  # the same command once more goes on
    assert cli("quickstart", *same, "--out", out, *QUICK, "--per-label", 12, "--yes").code == 0
    status = cli("panel", "status", out, "--json").json
    assert status["weakest"] == "bank"
    links = {link["name"]: link for link in status["links"]}
    states = [links[name]["state"] for name in ("bank", "background", "descriptions")]
    assert states == ["weak", "good", "good"]
    assert "simdx bank build --panel" in links["bank"]["mend"]


def test_nothing_is_built_that_nobody_approved(cli: Cli, tmp_path: Path, typed) -> None:
    out = tmp_path / "p"
    typed("", "n")
    ran = cli("quickstart", *TICKETS, "--out", out, *QUICK)
    assert ran.code == 2
    assert "simdx: nothing was approved" in ran.err.strip().splitlines()[-1]
    assert (out / "panel.yaml").is_file()
    assert not (out / "bank").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--yes",), "name at least two labels"),
        (("migraine", "--yes"), "at least two labels"),
        (("migraine, tension headache",), "is one: name each apart"),
        (("migraine", "Migraine"), "occurs more than once"),
        (("migraine", "migraine"), "occurs more than once"),
        (("a", "b", "--register", "french"), "register"),
        (("a", "b", "--simulator", "nonesuch"), "nonesuch"),
        (("a", "b", "--simulator", "nonesuch.gguf"), "nonesuch.gguf"),
        (("a", "b", "--out", __file__), "cannot be made"),
    ],
)
def test_a_slip_is_one_line_before_anything_is_asked(
    cli: Cli, tmp_path: Path, typed, args: tuple[str, ...], said: str
) -> None:
    typed()
    ran = cli("quickstart", "--out", tmp_path / "p", "--no-serve", *args)
    assert ran.code == 2
    (complaint,) = ran.err.strip().splitlines()
    assert said in complaint
    assert not (tmp_path / "p").exists()


def test_a_rehearsal_that_repeats_the_bank_is_left_out(tmp_path: Path) -> None:
    """As SmolLM2 does: `panel calibrate --inside` refuses the bank's texts, and quickstart ended there."""
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "bank.jsonl").write_text('{"label": "a", "text": "one"}\n', encoding="utf-8")
    other = tmp_path / "rehearsal" / "bank.jsonl"
    for text, given in (("one", ()), ("two", ("--inside", other))):
        other.write_text(f'{{"label": "a", "text": "{text}"}}\n', encoding="utf-8")
        assert _inside(tmp_path) == given


def test_an_interrupt_ends_it(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simdx.bank.builder.build_bank", interrupted)
    ran = cli("quickstart", *TICKETS, "--out", tmp_path / "p", *QUICK, "--yes")
    assert (ran.code, ran.err.splitlines()[-1]) == (130, "simdx: interrupted")


def test_nobody_to_ask(cli: Cli, tmp_path: Path, typed) -> None:
    typed()
    assert "nobody to ask" in cli("quickstart", "--out", tmp_path / "p").err.splitlines()[-1]


def test_a_line_the_model_cannot_propose_is_asked_for(
    cli: Cli, tmp_path: Path, typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model proposes nothing for most names: quickstart asks again, or says how to go on."""
    monkeypatch.setattr("simdx.bank.describe.propose", lambda panel, _: dict.fromkeys(panel.names))
    monkeypatch.setattr("simdx.bank.plan.voice_for", lambda _: "short")
    stuck = cli("quickstart", "migraine", "cluster", "--out", tmp_path / "a", *QUICK, "--yes")
    assert stuck.code == 2
    assert f"simdx quickstart --out {tmp_path / 'a'} --simulator scripted --yes" in stuck.err.splitlines()[-1]
    typed("", "", "", "throbs on one side", "stabs behind an eye", "n")
    cli("quickstart", "migraine", "cluster", "--out", tmp_path / "b", *QUICK)
    said = [label.description for label in load_source(tmp_path / "b").panel.labels]
    assert said == ["throbs on one side", "stabs behind an eye"]


def test_packaged_panels_are_good(cli: Cli) -> None:
    assert cli("panel", "status", "oral-lesions").out.splitlines()[-1] == "every link is good"
