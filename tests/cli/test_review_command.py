"""`simdx review` as a program sees it."""

from __future__ import annotations

import csv
import json


def test_make_import_summary(cli, tmp_path):
    out = tmp_path / "review"
    made = cli("review", "make", "--data", "oral-lesions", "--out", out, "--sample", 4, "--json").json
    assert made["cases"] == 4
    form = out / "form-reviewer-1.csv"
    with form.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    for row in rows[2:]:
        row[2:4] = ["5", "3"]
    with form.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    done = cli("review", "import", out, "--from", form, "--role", "oral pathologist", "--json").json
    assert done["scored"] == 4
    found = cli("review", "summary", out, "--json").json
    assert found["scales"]["correctness"]["mean"] == 3
    assert len(found["revise"]) == 4
    assert found["reviewers"]["reviewer-1"]["role"] == "oral pathologist"
    again = cli(
        "review", "make", "--data", "oral-lesions", "--out", tmp_path / "two", "--revise", out, "--json"
    )
    assert again.json["cases"] == 4
    assert "to revise: 4" in cli("review", "summary", out).out
    assert json.loads((out / "review.json").read_text("utf-8"))["format"] == 1


def test_bad_input_is_one_line(cli, tmp_path):
    assert "holds no review" in cli("review", "summary", tmp_path).complaint
    assert "no file" in cli("review", "make", "--data", "none.jsonl", "--out", tmp_path / "x").complaint
