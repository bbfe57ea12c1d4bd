"""`simdx panel calibrate`: a line for the panel file, from simulated text alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from simdx import Classifier
from simdx.decide.policy import read_policy
from simdx.panels import load_source, problems_of
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
    (tmp_path / "background.jsonl").write_text(rows(BOOKS, 30))
    (tmp_path / "panel.yaml").write_text(
        "labels: [apple, boat]\nembedder: hashing\nbanks: [bank.jsonl]\nbackground: background.jsonl\n"
    )
    return tmp_path / "panel.yaml"


def test_the_line_it_prints_goes_into_the_file(cli: Cli, panel: Path) -> None:
    ran = cli("panel", "calibrate", panel)
    assert ran.code == 0, ran.err
    line = ran.out.strip().splitlines()[-1]
    assert line.startswith("background_odds: {slope: ")
    panel.write_text(panel.read_text() + line + "\n")
    assert problems_of(panel) == []
    odds = load_source(panel).odds
    assert yaml.safe_load(line)["background_odds"] == asdict(odds)
    assert cli("panel", "show", panel, "--json").json["background_odds"]["prior"] == odds.prior


def test_conditions_in_the_file_are_left_out_together(cli: Cli, panel: Path) -> None:
    lines = panel.with_name("background.jsonl").read_text().splitlines()
    named = [json.dumps({**json.loads(line), "condition": f"book {i % 7}"}) for i, line in enumerate(lines)]
    assert cli("panel", "calibrate", panel, "--json").json["conditions"] == 30
    panel.with_name("background.jsonl").write_text("\n".join(named) + "\n")
    assert cli("panel", "calibrate", panel, "--json").json["conditions"] == 7


def test_another_writer_weighs_in(cli: Cli, panel: Path) -> None:
    inside, outside = panel.with_name("in.jsonl"), panel.with_name("out.jsonl")
    inside.write_text(rows(["ripe", *FRUIT[:4], *BOATS[:3]], 12, label="apple"))
    outside.write_text(rows(["shelf", "ripe", "letter", "sail", "page"], 12))
    own = cli("panel", "calibrate", panel, "--json").json
    given = ("--inside", inside, "--outside", outside, "--outside", outside)
    both = cli("panel", "calibrate", panel, *given, "--json").json
    assert [r["writer"] for r in own["rehearsals"]] == ["own"]
    counts = [(r["writer"], r["inside"], r["outside"]) for r in both["rehearsals"]]
    assert counts == [("own", 32, 30), ("another", 12, 12)]
    assert both["background_odds"] != own["background_odds"]
    assert set(both["rise_bits"]) == {"0.1", "0.05", "0.02", "0.01"}


def test_what_it_cannot_do_is_one_line(cli: Cli, panel: Path) -> None:
    inside = panel.with_name("in.jsonl")
    inside.write_text(rows(FRUIT, 3))
    books, fruit, labelled = (panel.with_name(f"{n}.jsonl") for n in ("books", "fruit", "labelled"))
    books.write_text(rows(["dusty", *BOOKS], 12))
    fruit.write_text(rows(["ripe", *FRUIT], 12))
    labelled.write_text(rows(["ripe", *FRUIT], 12, label="pear"))
    for arguments, said in (
        (["--inside", str(inside)], "on both sides"),
        (["--outside", str(inside)], "on both sides"),
        (["--inside", str(inside), "--outside", str(books)], "at least, not 3 and 12"),
        (["--inside", "nowhere.jsonl", "--outside", str(inside)], "nowhere.jsonl"),
        (["--inside", str(panel.with_name("bank.jsonl")), "--outside", str(books)], "are the panel's own"),
        (["--inside", str(books), "--outside", str(fruit)], "on the right side?"),
        (["--inside", str(labelled), "--outside", str(books)], "its label is not one"),
        (["--inside", str(fruit), "--outside", str(fruit)], "are inside and outside"),
        (["--embedder", "openai:some-model@http://192.0.2.1:1/v1"], "would send text to another machine"),
    ):
        assert said in cli("panel", "calibrate", panel, *arguments).complaint
    panel.write_text("labels: [apple, boat]\nembedder: hashing\nbackground: background.jsonl\n")
    assert "lists no bank" in cli("panel", "calibrate", panel).complaint
    panel.write_text("labels: [apple, boat]\nembedder: hashing\nbanks: [bank.jsonl]\n")
    assert "lists no background" in cli("panel", "calibrate", panel).complaint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("background_odds: {slope: 0, offset: 1, prior: 0.1}", "background_odds.slope"),
        ("background_odds: {slope: 1, offset: 1, prior: 1}", "background_odds.prior"),
        ("background_odds: {slope: 1, offset: .nan, prior: 0.1}", "background_odds.offset"),
        ("background_odds: {slope: 1, offset: 1}", "background_odds.prior: is missing"),
        ("background_odds: {slop: 1, offset: 1, prior: 0.1}", "did you mean 'slope'?"),
        ("background_odds: [1, 2, 3]", "background_odds: must be a mapping"),
        ("background_odds: {slope: true, offset: 1, prior: 0.1}", "background_odds.slope"),
    ],
)
def test_odds_a_file_may_not_hold(panel: Path, line: str, said: str) -> None:
    panel.write_text(panel.read_text() + line + "\n")
    problems = problems_of(panel)
    assert any(said in problem for problem in problems), problems


def test_odds_need_a_background(panel: Path) -> None:
    odds = "background_odds: {slope: 1, offset: 1, prior: 0.1}\n"
    panel.write_text("labels: [apple, boat]\nbanks: [bank.jsonl]\n" + odds)
    assert "no background" in problems_of(panel)[0]


def test_the_prior_of_none_of_these_is_asked_for(cli: Cli, panel: Path) -> None:
    cases, policy = panel.with_name("cases.jsonl"), panel.with_name("policy-here.yaml")
    cases.write_text(rows(FRUIT, 4, label="apple") + rows(BOATS, 4, label="boat"))
    ask = ("classify", "a quiet sweet fruit on a shelf", "--panel", panel, "--json")
    evaluate = ("evaluate", "--panel", panel, "--data", cases, "--resamples", "100", "--json")
    for command, figure in ((ask, "out_of_class"), (evaluate, "entropy_bits")):
        assert cli(*command).json[figure] < cli(*command, "--none-prior", "0.5").json[figure]
    assert "between 0 and 1" in cli(*ask, "--none-prior", "2").complaint
    assert cli("policy", "tune", "--panel", panel, "--out", policy, "--none-prior", "0.5").code == 0
    assert read_policy(policy).fits(Classifier(panel, none_prior=0.5).desk.fingerprint)
    assert not read_policy(policy).fits(Classifier(panel).desk.fingerprint)
