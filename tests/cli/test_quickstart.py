"""`simdx quickstart` and `simdx panel status`: a stranger's first hour, with the scripted simulator."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

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
    status = cli("panel", "status", out, "--json").json
    assert status["weakest"] == "bank"
    links = {link["name"]: link for link in status["links"]}
    assert [links[name]["state"] for name in ("bank", "background", "descriptions")] == [
        "weak",
        "good",
        "good",
    ]
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
        (("migraine", "--yes"), "two labels at least"),
        (("migraine", "Migraine", "--yes"), "occurs more than once"),
        ((), "nobody to ask"),
        (("a", "b", "--yes", "--register", "french"), "register"),
        (("a", "b", "--yes", "--simulator", "nonesuch"), "nonesuch"),
    ],
)
def test_a_slip_is_one_line(cli: Cli, tmp_path: Path, typed, args: tuple[str, ...], said: str) -> None:
    typed()
    ran = cli("quickstart", "--out", tmp_path / "p", "--no-serve", *args)
    assert ran.code == 2
    complaint = ran.err.strip().splitlines()[-1]
    assert said in complaint
    assert "Traceback" not in ran.err


def test_packaged_panels_are_good(cli: Cli) -> None:
    assert cli("panel", "status", "oral-lesions").out.splitlines()[-1] == "every link is good"
