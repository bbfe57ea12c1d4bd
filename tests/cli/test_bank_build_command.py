"""`simdx bank build|show|export|merge|conditions`: the JSON they print and how they end."""

import json
from pathlib import Path

from simdx.bank.plan import CONDITIONS, larger_than, outside, read_conditions
from simdx.bank.proposals import usable
from simdx.panels import load_panel
from simdx.types import Label, Panel
from tests.cli.conftest import Cli

BUILD = ("bank", "build", "--panel", "oral-lesions", "--simulator", "scripted", "--per-label", "3")


def test_build_show_export_merge(cli: Cli, tmp_path: Path, private_home: Path) -> None:
    out, again, parquet = tmp_path / "bank", tmp_path / "again", tmp_path / "b.parquet"
    built = cli(*BUILD, "--background", 2, "--out", out, "--json")
    assert built.json["complete"] is True
    assert built.json["labels"]["oral mucocele"] == 3
    assert "has seeds" in built.err

    shown = cli("bank", "show", out, "--map", tmp_path / "map.svg", "--json").json
    assert shown["hash"] == built.json["hash"]
    assert (shown["background"], shown["holds"]) == (2, True)
    assert "     2  (background)" in cli("bank", "show", out, "--no-stats").out
    assert set(shown["stats"]["confusion"]) == set(shown["labels"])
    assert "<svg" in (tmp_path / "map.svg").read_text()[:1000]

    assert cli("bank", "export", out, "--to", parquet, "--json").json["rows"] == 11
    imported = cli("bank", "import", "--panel", "oral-lesions", "--from", parquet, "--out", again, "--json")
    assert (imported.json["hash"], imported.json["background"]) == (built.json["hash"], 2)
    (again / "background.jsonl").rename(tmp_path / "elsewhere.jsonl")
    lost = cli("bank", "show", again, "--json").json
    assert (lost["background"], lost["holds"]) == (None, False)
    assert "     ?  (background)" in cli("bank", "show", again).out
    (tmp_path / "elsewhere.jsonl").rename(again / "background.jsonl")
    merged = cli("bank", "merge", out, again, "--panel", "oral-lesions", "--out", tmp_path / "m", "--json")
    assert merged.json["hash"] == built.json["hash"]


def test_an_incomplete_build_prints_its_report_and_ends_with_one(cli: Cli, tmp_path: Path) -> None:
    ended = cli(*BUILD, "--out", tmp_path / "bank", "--max-requests", 2, "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["stopped"] == "--max-requests 2 reached"
    assert "run the same command again" in ended.err.splitlines()[-1]


def test_a_rehearsal_keeps_within_what_the_build_left(cli: Cli, tmp_path: Path) -> None:
    given = (*BUILD, "--background", 3, "--out", tmp_path / "bank", "--json")
    ran = cli(*given, "--max-requests", 15)
    assert (ran.code, ran.json["requests"]) == (0, 12)
    asked = (tmp_path / "bank" / "rehearsal" / "answers.jsonl").read_text().splitlines()
    assert len(asked) == 3
    assert ran.json["rehearsal"]["calibration"]["writers"] < 3
    assert "left out of the calibration" in ran.err
    assert cli(*given).json["rehearsal"]["texts"] == 9  # without a limit it goes on
    assert len((tmp_path / "bank" / "rehearsal" / "answers.jsonl").read_text().splitlines()) == 12


def test_a_server_that_is_not_there_is_told_at_once(cli: Cli, tmp_path: Path) -> None:
    ran = cli("bank", "build", "--panel", "oral-lesions", "--per-label", 3, "--out", tmp_path / "bank",
              "--simulator", "openai:m@http://127.0.0.1:9/v1")  # fmt: skip
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "simdx: no server answers at http://127.0.0.1:9/v1: start it, or correct the address\n"
    assert not (tmp_path / "bank").exists()


def test_descriptions_are_proposed_shown_and_written_only_when_accepted(cli: Cli, tmp_path: Path) -> None:
    panel = tmp_path / "p.yaml"
    panel.write_text("labels: [gout, {name: mumps, description: swollen jaw}]\n")
    told = cli("bank", "build", "--panel", panel, "--per-label", 3, "--out", tmp_path / "bank").complaint
    for words in ("no description of gout", "larger model propose", f"simdx panel describe {panel}"):
        assert words in told
    seen = cli("panel", "describe", panel, "--simulator", "scripted")
    assert "nothing was written" in seen.out
    assert "gout: " in seen.err
    assert load_panel(panel).labels[0].description == ""
    done = cli("panel", "describe", panel, "--simulator", "scripted", "--yes", "--json")
    assert done.json["written"] is True
    assert load_panel(panel).labels[0].description == done.json["proposed"]["gout"]
    assert load_panel(panel).labels[1].description == "swollen jaw"
    assert cli("panel", "describe", panel, "--simulator", "nobody", "--json").json["proposed"] == {}


def test_a_list_of_headings_is_no_description() -> None:
    panel = Panel("h", (Label("tension headache"), Label("gout")))
    said = "Headache, Triggers, Symptoms, Findings."
    assert usable(panel, panel.labels[0], said) is None
    assert usable(panel, panel.labels[0], "a pressing band on both sides, worse in the evening") is not None


def test_a_weak_bank_is_called_weak_and_the_next_model_named(
    cli: Cli, tmp_path: Path, private_home: Path
) -> None:
    given = (*BUILD, "--rehearsal", 0)
    strong = cli(*given, "--out", tmp_path / "full", "--json").json
    # of nine texts: the same reasons that `panel status` gives
    assert [reason[:12] for reason in strong["weak_because"]] == ["the bank has", "the simulate"]
    small = cli(*given, "--voice", "short", "--out", tmp_path / "short", "--json").json
    assert "a very small model wrote it" in small["weak_because"][0]
    assert "or a larger model" in small["advice"]
    poor = cli(*given[:4], "--simulator", "scripted:leak=0.7", *given[6:], "--out", tmp_path / "poor")
    assert "this bank is weak: only" in poor.out
    assert larger_than("smollm2@b179") == larger_than("hf:smollm2@b179") != larger_than("openai:m@http://x")
    assert "simdx models pull qwen2.5-coder-1.5b" in larger_than("smollm2@b179")


def test_a_bank_is_built_where_its_embedder_is_not(cli: Cli, tmp_path: Path) -> None:
    panel = tmp_path / "panel.yaml"
    panel.write_text('labels: [apple, boat]\nembedder: "openai:m@http://192.0.2.1:1/v1"\n')
    ran = cli("bank", "build", "--panel", panel, *BUILD[4:], "--out", tmp_path / "bank", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["complete"] is True
    assert ran.json["rehearsal"] is None
    assert "the bank was not calibrated: " in ran.err


def test_a_dry_run_leaves_no_trace(cli: Cli, tmp_path: Path) -> None:
    found = cli(*BUILD, "--out", tmp_path / "bank", "--dry-run", "--price-out", 3, "--json").json
    assert found["requests_at_least"] == 9 + 20  # a background by default
    assert found["rehearsal"]["requests_at_least"] == 12
    assert found["cost"] > 0
    assert not (tmp_path / "bank").exists()


def test_the_path_is_refused_before_a_model_is_looked_for(cli: Cli, tmp_path: Path) -> None:
    """A simulator whose server is nowhere: whoever asked it first would complain of that."""
    taken, foreign = tmp_path / "file", tmp_path / "folder"
    taken.write_text("mine")
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    away = (*BUILD[:4], "--simulator", "nobody", "--per-label", 3)
    assert "is a file" in cli(*away, "--out", taken).complaint
    assert "is a file" in cli(*away, "--out", taken / "below").complaint
    assert "holds no build" in cli(*away, "--out", foreign).complaint
    assert "nobody" in cli(*away, "--out", tmp_path / "new").complaint
    assert not (tmp_path / "new").exists()


def test_a_table_is_imported_by_its_columns(cli: Cli, tmp_path: Path, private_home: Path) -> None:
    panel, plain, named = tmp_path / "p.yaml", tmp_path / "a.csv", tmp_path / "b.csv"
    panel.write_text("labels: [apple, river]\nembedder: hashing\n")
    plain.write_text('label,text,id\napple,"red, sweet",1\nriver,wet,1\n')  # an id says nothing in a bank
    named.write_text('kind,words\napple,"red, sweet"\nriver,wet\n')
    others = tmp_path / "others.csv"
    others.write_text("text\na stone\n")
    given = ("bank", "import", "--panel", panel, "--from")
    made = cli(*given, plain, "--background", others, "--out", tmp_path / "a", "--json").json
    assert made["labels"] == {"apple": 1, "river": 1}
    assert (tmp_path / "a" / "background.jsonl").read_text() == '{"text": "a stone"}\n'
    columns = ("--text-column", "words", "--label-column", "kind")
    again = cli(*given, named, *columns, "--out", tmp_path / "b", "--json").json
    assert again["labels"] == made["labels"]
    assert cli("bank", "verify", tmp_path / "b").code == 0

    wrong = cli(*given, named, "--out", tmp_path / "c").complaint
    assert "no column 'text', only 'kind', 'words'" in wrong
    assert "--text-column" in wrong
    plain.write_text("label,text\napple,red\n")
    assert "no description of 'river'" in cli(*given, plain, "--out", tmp_path / "c").complaint
    plain.write_text("label,text\napple,red\nstone,grey\n")
    odd = cli(*given, plain, "--out", tmp_path / "c").complaint
    assert "line 3: 'stone' in 'label' is not a label of the panel (apple, river)" in odd
    assert not (tmp_path / "c").exists()
    assert "bank import --from a.csv" in cli("classify", "red", "--panel", panel, "--bank", plain).complaint


def test_a_finished_bank_is_not_replaced(cli: Cli, tmp_path: Path) -> None:
    """Which settings make another bank is tested in tests/bank/test_successor.py."""
    out = tmp_path / "bank"
    cli(*BUILD, "--background", 0, "--rehearsal", 0, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "--temperature 0.8, not 0.2" in cli(*BUILD, "--out", out, "--temperature", 0.2).complaint
    # Before a model is looked for: these weights are nowhere, and whoever asked for them would say so.
    other = ("--simulator", "hf:nowhere/at-all")
    assert "simulator scripted, not the one given" in cli(*BUILD, "--out", out, *other).complaint
    assert "larger finished bank" in cli(*BUILD, "--out", out, "--per-label", 2, "--dry-run").complaint
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_the_broad_list_is_printed_and_written(cli: Cli, tmp_path: Path) -> None:
    panel = load_panel("symptom-to-diagnosis")
    shown = cli("bank", "conditions", "--panel", panel.name, "--json").json
    assert tuple(shown["conditions"]) == outside(panel)
    assert len(outside(panel)) < len(CONDITIONS)
    file = tmp_path / "broad.txt"
    assert "conditions" in cli("bank", "conditions", "--panel", panel.name, "--out", file).out
    assert read_conditions(file) == outside(panel)


def test_a_model_that_lists_nothing_is_one_line(cli: Cli) -> None:
    said = cli("bank", "conditions", "--panel", "oral-lesions", "--simulator", "scripted")
    assert said.code == 1
    assert "without naming" in said.err


def test_a_bank_is_built_from_a_list(cli: Cli, tmp_path: Path, private_home: Path) -> None:
    near, out = tmp_path / "near.txt", tmp_path / "bank"
    near.write_text("leukoplakia\nranula\noral cancer\n", encoding="utf-8")
    assert "above 0" in cli(*BUILD, "--background", 0, "--conditions", near, "--out", out).complaint
    built = cli(*BUILD, "--background", 6, "--conditions", near, "--out", out, "--json")
    assert built.code == 0
    assert "name a label of the panel: oral cancer" in built.err
    rows = (out / "background.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(row)["condition"] for row in rows} <= {"leukoplakia", "ranula"}
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["conditions"] == ["leukoplakia", "ranula"]
    # The same list extends the bank, another one does not replace it.
    assert cli(*BUILD, "--background", 7, "--conditions", near, "--out", out).code == 0
    assert "--conditions" in cli(*BUILD, "--background", 8, "--out", out).complaint
