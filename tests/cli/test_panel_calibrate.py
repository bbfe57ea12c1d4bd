"""`simdx panel calibrate`: what a panel's answers rest on, found and kept; and the prior of none of these."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simdx import Classifier
from simdx.decide.policy import read_policy
from simdx.methods.calibration_record import FILE, keep, read_file
from simdx.panels import problems_of
from tests.cli.conftest import Cli

FRUIT = ["red", "sweet", "fruit", "tree", "orchard", "juice", "core", "peel"]
BOATS = ["water", "current", "bridge", "flood", "boat", "stream", "delta", "sail"]
BOOKS = ["quiet", "library", "shelf", "page", "paper", "reader", "ink", "letter"]


def rows(words: list[str], n: int, **more: str) -> str:
    texts = [
        " ".join(words[(i * k + k) % len(words)] for k in range(1, 6)) + f" number {i}" for i in range(n)
    ]
    return "".join(json.dumps({"text": text, **more}) + "\n" for text in texts)


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    (tmp_path / "bank.jsonl").write_text(rows(FRUIT, 16, label="apple") + rows(BOATS, 16, label="boat"))
    (tmp_path / "background.jsonl").write_text(rows(BOOKS, 24))
    (tmp_path / "panel.yaml").write_text(
        "labels: [apple, boat]\nembedder: hashing\nbanks: [bank.jsonl]\nbackground: background.jsonl\n"
    )
    return tmp_path / "panel.yaml"


def test_what_it_finds_is_kept_beside_the_panel_and_used(cli: Cli, panel: Path) -> None:
    ran = cli("panel", "calibrate", panel)
    assert ran.code == 0, ran.err
    kept = panel.with_name(FILE)
    assert ran.out.splitlines()[-1] == f"  saved in {kept}"
    assert "Auto-accept is off: the bank has 32 texts (at least 100 are needed)" in ran.out
    ((address, found),) = read_file(kept).items()
    assert (found.basis, found.n, found.writers) == ("rehearsed", 32, 2)
    ask = ("classify", "red sweet fruit", "--panel", panel, "--json")
    assert cli(*ask).json["calibration"]["sentence"] == found.sentence()
    keep(address, replace(found, n=333), kept)
    assert cli(*ask).json["calibration"]["n"] == 333  # what the file says, and no rehearsal anew
    # A changed bank does not meet the old one.
    panel.with_name("bank.jsonl").write_text(rows(FRUIT, 12, label="apple") + rows(BOATS, 12, label="boat"))
    assert cli(*ask).json["calibration"]["n"] == 24


def test_labelled_cases_measure(cli: Cli, panel: Path) -> None:
    cases, few = panel.with_name("cases.jsonl"), panel.with_name("few.jsonl")
    few.write_text(rows(["ripe", *FRUIT], 3, label="apple") + rows(["deep", *BOATS], 3, label="boat"))
    both = rows(["ripe", *FRUIT], 8, label="apple") + rows(["deep", *BOATS], 8, label="boat")
    cases.write_text(both + rows(["old", *FRUIT], 8, label="apple") + rows(BOOKS[:4], 5))
    labelled = "".join(
        json.dumps({"label": "none of these", **json.loads(line)}) + "\n"
        for line in cases.read_text().splitlines()
    )
    cases.write_text(labelled)
    assert "6 labelled cases are too few" in cli("panel", "calibrate", panel, "--data", few).complaint
    measured = cli("panel", "calibrate", panel, "--data", cases, "--json").json
    assert measured["calibration"]["basis"] == "measured"
    assert measured["sentence"].startswith("calibration error ")
    low, high = measured["calibration"]["ece_interval"]
    assert low <= measured["calibration"]["ece"] <= high
    own = panel.with_name("bank.jsonl")
    assert "are texts of the bank" in cli("panel", "calibrate", panel, "--data", own).complaint


def test_another_writer_weighs_in(cli: Cli, panel: Path) -> None:
    inside, outside = panel.with_name("in.jsonl"), panel.with_name("out.jsonl")
    inside.write_text(rows(["ripe", *FRUIT[:4], *BOATS[:3]], 12, label="apple"))
    outside.write_text(rows(["shelf", "ripe", "letter", "sail", "page"], 12))
    own = cli("panel", "calibrate", panel, "--json").json["calibration"]
    given = ("--inside", inside, "--outside", outside, "--outside", outside)
    both = cli("panel", "calibrate", panel, *given, "--json").json["calibration"]
    assert (own["writers"], both["writers"]) == (2, 3)
    assert both["rehearsed_sharpness"] < own["rehearsed_sharpness"]  # whom the bank understands less


def test_what_it_cannot_do_is_one_line(cli: Cli, panel: Path) -> None:
    books, fruit, labelled = (panel.with_name(f"{n}.jsonl") for n in ("books", "fruit", "labelled"))
    books.write_text(rows(["dusty", *BOOKS], 12))
    fruit.write_text(rows(["ripe", *FRUIT], 12, label="apple"))
    labelled.write_text(rows(["ripe", *FRUIT], 12, label="pear"))
    for arguments, said in (
        (["--outside", str(books)], "by the same writer"),
        (["--inside", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--inside", str(panel.with_name("bank.jsonl"))], "are in the panel's bank"),
        (["--inside", str(labelled)], "is not a label of the panel"),
        (["--inside", str(books)], "label"),
        (["--inside", str(fruit), "--outside", str(fruit)], "are both inside and outside"),
        (["--data", str(labelled)], "is not a label of the panel"),
        (["--embedder", "openai:some-model@http://192.0.2.1:1/v1"], "would send text to another machine"),
    ):
        assert said in cli("panel", "calibrate", panel, *arguments).complaint
    panel.write_text("labels: [apple, boat]\nembedder: hashing\nbackground: background.jsonl\n")
    assert "bank" in cli("panel", "calibrate", panel).complaint
    assert not panel.with_name(FILE).exists()


@pytest.mark.parametrize("prior", ["0", "1", "-0.1", ".nan", "often", "[0.1]"])
def test_a_prior_a_file_may_not_hold(panel: Path, prior: str) -> None:
    panel.write_text(panel.read_text() + f"none_of_these_prior: {prior}\n")
    (problem,) = problems_of(panel)
    assert "none_of_these_prior" in problem


def test_a_prior_needs_a_background(panel: Path) -> None:
    panel.write_text("labels: [apple, boat]\nbanks: [bank.jsonl]\nnone_of_these_prior: 0.1\n")
    assert "no background" in problems_of(panel)[0]


def test_the_prior_of_none_of_these_is_asked_for(cli: Cli, panel: Path) -> None:
    cases, policy = panel.with_name("cases.jsonl"), panel.with_name("policy-here.yaml")
    cases.write_text(rows(FRUIT, 4, label="apple") + rows(BOATS, 4, label="boat"))
    ask = ("classify", "sweet fruit peel core page number", "--panel", panel, "--json")
    evaluate = ("evaluate", "--panel", panel, "--data", cases, "--resamples", "100", "--json")
    for command, figure in ((ask, "out_of_class"), (evaluate, "entropy_bits")):
        plain, asked = cli(*command).json[figure], cli(*command, "--none-prior", "0.5").json[figure]
        assert plain < asked
    assert cli("policy", "tune", "--panel", panel, "--out", policy, "--none-prior", "0.5").code == 0
    assert read_policy(policy).fits(Classifier(panel, none_prior=0.5).desk.fingerprint)
    assert not read_policy(policy).fits(Classifier(panel).desk.fingerprint)
    by_option = cli(*ask, "--none-prior", "0.5").json["out_of_class"]
    panel.write_text(panel.read_text() + "none_of_these_prior: 0.5\n")
    assert cli(*ask).json["out_of_class"] == by_option
    assert cli("panel", "show", panel, "--json").json["none_of_these_prior"] == 0.5
