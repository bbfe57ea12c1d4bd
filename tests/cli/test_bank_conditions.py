"""`simdx bank conditions` and `simdx bank build --conditions`."""

from __future__ import annotations

import json
from pathlib import Path

from simdx.bank.conditions import CONDITIONS, outside, read_conditions
from simdx.panels import load_panel
from tests.cli.conftest import Cli

BUILD = ("bank", "build", "--panel", "oral-lesions", "--simulator", "scripted", "--per-label", "2")


def test_the_broad_list_is_printed_and_written(cli: Cli, tmp_path: Path) -> None:
    panel = load_panel("symptom-to-diagnosis")
    shown = cli("bank", "conditions", "--panel", panel.name, "--json").json
    assert tuple(shown["conditions"]) == outside(panel)
    assert len(outside(panel)) < len(CONDITIONS)
    file = tmp_path / "broad.txt"
    assert "conditions" in cli("bank", "conditions", "--panel", panel.name, "--out", file).out
    assert read_conditions(file) == outside(panel)
    for out in (file, tmp_path, tmp_path / "absent" / "x.txt"):
        assert str(out)[:20] in cli("bank", "conditions", "--panel", panel.name, "--out", out).complaint
    assert "--simulator" in cli("bank", "conditions", "--panel", panel.name, "--per-label", 3).complaint


def test_a_model_that_lists_nothing_is_one_line(cli: Cli) -> None:
    said = cli("bank", "conditions", "--panel", "oral-lesions", "--simulator", "scripted")
    assert said.code == 1
    assert "without naming" in said.err


def test_a_bank_is_built_from_a_list(cli: Cli, tmp_path: Path, private_home: Path) -> None:
    near, out = tmp_path / "near.txt", tmp_path / "bank"
    near.write_text("leukoplakia\nranula\noral cancer\n", encoding="utf-8")
    assert "--background" in cli(*BUILD, "--conditions", near, "--out", out).complaint
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
