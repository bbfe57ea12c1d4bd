"""`simdx quickstart` and `simdx panel status`: a stranger's first hour, with the scripted simulator."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simdx.cli.quickstart import _inside
from simdx.panels import load_source
from simdx.types import Bank
from simdx.upkeep import _background
from tests.cli.conftest import Cli
from tests.conftest import ROOT

TICKETS = ("late delivery=the parcel has not come", "wrong invoice=an amount is not right")
QUICK = ("--register", "general", "--simulator", "scripted", "--no-serve")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> object:
    return lambda *lines: monkeypatch.setattr(
        sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines))
    )


@pytest.mark.parametrize(
    ("labels", "register"),
    [
        (("parcel delivery is late", "wrong item received"), "general"),
        (("migraine", "parcel delivery is late"), "clinician"),
        (("late delivery", "wrong item received"), "clinician"),  # one that the library does not know
    ],
)
def test_everyday_topics_are_no_patients(cli: Cli, tmp_path: Path, labels, register: str) -> None:
    named = [part for label in labels for part in ("--label", label)]
    assert cli("panel", "new", tmp_path / "new.yaml", *named).code == 0
    assert load_source(tmp_path / "new.yaml").panel.register == register
    assert cli("panel", "new", tmp_path / "told.yaml", *named, "--register", "patient").code == 0
    assert load_source(tmp_path / "told.yaml").panel.register == "patient"


def test_from_labels_to_an_answer(cli: Cli, tmp_path: Path, typed) -> None:
    out = tmp_path / "tickets"
    # labels, a line for each, the texts asked for again and approved, a case
    typed("late delivery", "wrong invoice", "", "the parcel has not come", "", "e", "y", "It is late.", "")
    ran = cli("quickstart", "--out", out, *QUICK, "--per-label", 12)
    assert ran.code == 0, ran.err
    source = load_source(out)  # the panel names its bank: --panel is enough from here on
    assert [label.description for label in source.panel.labels] == ["the parcel has not come", ""]
    assert source.background is not None
    assert ran.out.count("\nlate delivery\n  - ") == 2  # three texts, shown again after an edit
    for command in ("bank build", "bank show", "panel calibrate", "panel status", "classify 'It is late.'"):
        assert f"$ simdx {command}" in ran.err
    assert "weakest: the bank" in ran.out
    again = cli("quickstart", "--out", out, *QUICK, "--per-label", 12, "--yes")  # goes on where it was
    assert again.code == 0
    assert "to look at" not in again.err
    assert "exists with other labels" in cli("quickstart", *TICKETS, "--out", out, *QUICK, "--yes").err
    same = ("late delivery=the parcel has not come", "wrong invoice")  # the same command once more goes on
    assert cli("quickstart", *same, "--out", out, *QUICK, "--per-label", 12, "--yes").code == 0
    status = cli("panel", "status", out, "--json").json
    assert status["weakest"] == "bank"
    links = {link["name"]: link for link in status["links"]}
    states = [links[name]["state"] for name in ("bank", "background", "descriptions")]
    assert states == ["weak", "good", "good"]
    # What is advised is not refused: a build with other settings would be, in a folder that holds a bank.
    assert links["bank"]["mend"] == f"simdx bank ask --panel {out}"
    assert cli(*links["bank"]["mend"].split()[1:]).code == 0
    assert status["next"] == [links["bank"]["mend"], f"simdx panel calibrate {out} --ask texts.txt"]


def test_nothing_is_built_that_nobody_approved(cli: Cli, tmp_path: Path, typed) -> None:
    out = tmp_path / "p"
    typed("n")
    ran = cli("quickstart", *TICKETS, "--out", out, *QUICK)
    assert ran.code == 2
    assert "simdx: nothing was approved" in ran.err.strip().splitlines()[-1]
    assert (out / "panel.yaml").is_file()
    assert not (out / "bank").exists()


def test_a_rehearsal_that_repeats_the_bank_is_left_out(tmp_path: Path) -> None:
    """As SmolLM2 does: `panel calibrate --inside` refuses the bank's texts, and quickstart ended there."""
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "bank.jsonl").write_text('{"label": "a", "text": "one"}\n', encoding="utf-8")
    other = tmp_path / "rehearsal" / "bank.jsonl"
    for text, given in (("one", ()), ("two", ("--inside", other))):
        other.write_text(f'{{"label": "a", "text": "{text}"}}\n', encoding="utf-8")
        assert _inside(tmp_path) == given


def test_labels_about_no_illness_are_not_told_of_diseases(cli: Cli, tmp_path: Path) -> None:
    """Nor is a panel left that nothing can be done with unasked."""
    ran = cli(
        "quickstart", "billing question", "login problem", "--out", tmp_path / "p", "--yes", "--no-serve"
    )
    assert ran.code == 2
    assert "the library does not know 'billing question'\n" in ran.err
    assert "it knows" not in ran.err
    assert "nearest" not in ran.err
    assert not (tmp_path / "p").exists()
    asked = cli("quickstart", "migraine", "odd ache", "--out", tmp_path / "p", "--yes", "--no-serve")
    assert "the library does not know 'odd ache'; nearest by meaning: " in asked.err


def test_two_names_of_one_condition_are_refused(cli: Cli, tmp_path: Path) -> None:
    labels = ("--label", "heart attack", "--label", "MI")
    told = cli("panel", "new", tmp_path / "p.yaml", *labels)
    assert told.code == 2
    assert "'heart attack' and 'MI' are both the library's 'acute myocardial infarction'" in told.err
    assert len(told.err.splitlines()) == 1
    assert not (tmp_path / "p.yaml").exists()
    assert cli("quickstart", *labels[1::2], "--out", tmp_path / "q", "--yes").code == 2
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("world", ["true", "false"])
def test_a_panel_file_with_two_names_of_one_condition_is_refused_where_the_library_is_its_bank(
    cli: Cli, tmp_path: Path, world: str
) -> None:
    file, bank = tmp_path / "p.yaml", tmp_path / "bank.jsonl"
    file.write_text(f"labels: [high blood pressure, hypertension, migraine]\nworld: {world}\n")
    twice = "'high blood pressure' and 'hypertension' are both the library's 'hypertension'"
    told = cli("classify", "My head hurts.", "--panel", file)
    assert (told.code, told.err) == (2, f"simdx: {twice}: leave one out\n")
    assert f"missing  none yet, and {twice}\n" in cli("panel", "status", file).out
    checked = cli("panel", "check", file)
    assert checked.code == 0
    assert f"suggestion: {twice}: its texts cannot tell them apart\n" in checked.out
    of = {"high blood pressure": "My arm is tight.", "hypertension": "I see spots.", "migraine": "It throbs."}
    rows = [{"label": label, "text": f"{text} {n}"} for label, text in of.items() for n in ("Ow.", "Oh no.")]
    bank.write_text("\n".join(map(json.dumps, rows)))
    assert cli("classify", "My head hurts.", "--panel", file, "--bank", bank).code == 0


def test_an_interrupt_ends_it(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simdx.bank.builder.build_bank", interrupted)
    ran = cli("quickstart", *TICKETS, "--out", tmp_path / "p", *QUICK, "--yes")
    assert (ran.code, ran.err.splitlines()[-1]) == (130, "simdx: interrupted")


def test_nobody_to_ask(cli: Cli, tmp_path: Path, typed) -> None:
    typed()
    assert "no terminal to ask in" in cli("quickstart", "--out", tmp_path / "p").err.splitlines()[-1]


def test_a_small_model_needs_a_line_and_does_not_propose_it(
    cli: Cli, tmp_path: Path, typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its proposals were dead ends ("Headache, Triggers, Symptoms, Findings."): the person is asked."""
    monkeypatch.setattr("simdx.bank.proposals.propose", lambda *_: pytest.fail("the model was asked"))
    monkeypatch.setattr("simdx.bank.plan.voice_for", lambda _: "short")
    stuck = cli("quickstart", "migraine", "odd ache", "--out", tmp_path / "a", *QUICK, "--yes")
    assert stuck.code == 2
    assert "needs a line on migraine, odd ache: give it as 'LABEL=DESCRIPTION'" in stuck.err.splitlines()[-1]
    assert not (tmp_path / "a").exists()
    typed("", "throbs on one side", "stabs behind an eye", "n")
    cli("quickstart", "migraine", "odd ache", "--out", tmp_path / "b", *QUICK)
    said = [label.description for label in load_source(tmp_path / "b").panel.labels]
    assert said == ["throbs on one side", "stabs behind an eye"]


CLASSIC = {
    "migraine": "Throbbing pain on the left side of my head since this morning, I feel sick, light and noise "
    "make it worse and I want to lie in a dark room.",
    "tension headache": "A dull pressure like a tight band around my whole head every afternoon, on both "
    "sides, and I can go on working.",
    "cluster headache": "Every night at two I wake with a stabbing pain behind my right eye, it waters and "
    "my nose runs, I pace the room, and after an hour it is gone.",
}


def test_labels_of_the_library_need_no_model(
    cli: Cli, tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's own panel: right on the three classic cases, and no simulator is ever made."""
    monkeypatch.setattr("simdx.simulators.get_simulator", lambda *_, **__: pytest.fail("a model was loaded"))
    out = tmp_path / "headaches"
    ran = cli("quickstart", *CLASSIC, "--out", out, "--yes", "--no-serve", "--text", CLASSIC["migraine"])
    assert ran.code == 0, ran.err
    assert "no model is needed" in ran.err
    for label, text in CLASSIC.items():
        answer = cli("classify", text, "--panel", out, "--json").json
        assert max(answer["posterior"], key=answer["posterior"].get) == label
        # what the rehearsal found is what answers rest on
        assert answer["calibration"]["sentence"].startswith("calibration rehearsed on 132")
    emergency = "Worst headache of my life, like a bat to the back of my head an hour ago, my neck is stiff."
    assert cli("classify", emergency, "--panel", out, "--json").json["decision"]["action"] != "accept"
    status = cli("panel", "status", out, "--json").json
    assert {link["name"]: link["state"] for link in status["links"]}["descriptions"] == "good"
    assert status["next"][-1] == f"simdx panel calibrate {out} --ask texts.txt"


REPLIES = ROOT / "tests" / "data" / "replies"


def test_a_chat_model_is_the_second_way(cli: Cli, tmp_path: Path, private_home: Path, typed) -> None:
    """A label that the library does not know: a prompt, two replies, stopped, gone on with, an answer."""
    out = tmp_path / "p"
    labels = ("migraine", "tension headache", "cluster headache", "snow blindness ache=burning after snow")
    typed("1", "nowhere.txt", REPLIES / "table.md", "")
    ran = cli("quickstart", *labels, "--out", out, "--no-serve", "--register", "patient")
    assert ran.code == 0, ran.err
    assert "weak: answers from its bank are often wrong; about" in ran.err  # said of the embedded model
    assert "there is no file 'nowhere.txt'" in ran.err
    assert "there is no bank yet" in ran.err.splitlines()[-1]  # nothing of the fourth label so far
    assert (out / "ask.txt").read_text().count("snow blindness ache") >= 3
    assert '"snow blindness ache"' in (out / "chat" / "next-prompt.txt").read_text()
    reply = tmp_path / "reply.txt"
    burning = ("After a whole day on the glacier", "Since the ski tour", "All evening after the sledge run")
    reply.write_text("".join(f"snow blindness ache | {start} my eyes burn like sand.\n" for start in burning))
    typed("1", reply, "", "My eyes burn after skiing.", "")
    again = cli("quickstart", "--out", out, "--no-serve")
    assert again.code == 0, again.err
    assert [path.name for path in load_source(out).banks] == ["bank.jsonl"]
    assert "snow blindness ache" in again.out


def test_the_embedded_model_is_the_last_way_and_called_weak(
    cli: Cli, tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simdx.bank.plan.EMBEDDED", "scripted")
    monkeypatch.setattr("simdx.bank.plan.voice_for", lambda _: "short")
    out = tmp_path / "tickets"
    ran = cli("quickstart", *TICKETS, "--out", out, *QUICK[:2], "--yes", "--no-serve", "--per-label", 55)
    assert ran.code == 0, ran.err
    assert "weak: answers from its bank are often wrong; about 9 to 14 minutes" in ran.err
    (bank,) = [x for x in cli("panel", "status", out, "--json").json["links"] if x["name"] == "bank"]
    assert bank["state"] == "weak"  # 55 texts a label are no merit here
    assert "a very small model wrote it" in bank["says"]
    assert "this bank is weak: a very small model wrote it" in ran.out  # and the build says the same


def test_a_new_panel_is_told_the_three_ways(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    said = cli("panel", "new", path, "--label", "migraine", "--label", "odd ache").out
    assert "the library does not know 'odd ache' (nearest by meaning: " in said
    ways = [
        said.index(word) for word in ("labels that the library", "any chat model", "the embedded model (weak")
    ]
    assert ways == sorted(ways)
    known = tmp_path / "known.yaml"
    assert "describes every label" in cli("panel", "new", known, "--label", "gout", "--label", "migraine").out


def test_a_few_background_texts_are_not_good(toy_bank: Bank) -> None:
    """Not even where the library stands beside them."""
    states = {}
    for n, world in ((0, True), (6, True), (6, False), (20, False), (20, True)):
        bank = replace(toy_bank, background=tuple(f"text {i}" for i in range(n)))
        link = _background(bank, None, "simdx bank ask", world=world)
        states[n, world] = link.state
        assert (link.mend is None) == (link.state == "good")
    assert states == {(0, True): "good", (6, True): "fair", (6, False): "weak", (20, False): "good",
                      (20, True): "good"}  # fmt: skip


def test_packaged_panels_are_good(cli: Cli) -> None:
    assert cli("panel", "status", "oral-lesions").out.splitlines()[-1] == "everything is in place"
