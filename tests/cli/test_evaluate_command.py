"""`simdx evaluate` as a program sees it: one JSON object, one line for bad input."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

EVALUATE = (
    "evaluate", "--panel", "oral-lesions", "--embedder", "hashing", "--text-column", "note", "--label-column",
    "dx", "--resamples", "100", "--data",
)  # fmt: skip


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    rows = [
        {"note": "a soft bluish swelling of the lower lip", "dx": "oral mucocele", "sex": "f"},
        {"note": "a hard ulcer of the lateral tongue", "dx": "oral squamous cell carcinoma", "sex": "m"},
        {"note": "a smooth red burning tongue", "dx": "atrophic glossitis", "sex": "m"},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def test_json_is_one_object_with_the_contracts_keys(cli: Cli, cases: Path) -> None:
    record = cli(*EVALUATE, cases, "--by", "sex", "--json").json
    assert record["n"] == 3
    assert (record["groups"]["sex"]["m"]["n"], record["groups"]["sex"]["m"]["too_small"]) == (2, True)
    assert record["ood"] is None
    assert set(record["alarm"]) >= {"n_confident_errors", "recall", "false_alarm"}
    assert {gap["value"] for gap in record["audit"]} == {"f", "m"}
    assert sum(d["n"] for d in record["decisions"].values()) == 3
    said = cli(*EVALUATE, cases).out
    for words in ("accuracy", "error_auroc", "3 cases are few", "decisions: accept"):
        assert words in said


def test_rows_of_none_of_these_are_cases_outside(cli: Cli, cases: Path, tmp_path: Path) -> None:
    """The file that `panel calibrate --data` takes is taken here; --ood adds to its outside cases."""
    outside = [{"note": text, "dx": "none of these"} for text in ("a sprained ankle", "an itching scalp")]
    both = tmp_path / "both.jsonl"
    both.write_text("\n".join([cases.read_text("utf-8"), *map(json.dumps, outside)]), "utf-8")
    record = cli(*EVALUATE, both, "--json").json
    assert (record["n"], record["ood"]["n"]) == (3, 2)
    assert record["accuracy"] == cli(*EVALUATE, cases, "--json").json["accuracy"]
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"note": "a wart of the hand"}), "utf-8")
    assert cli(*EVALUATE, both, "--ood", more, "--json").json["ood"]["n"] == 3
    more.write_text("\n".join(map(json.dumps, outside)), "utf-8")
    assert "some need a label" in cli(*EVALUATE, more).complaint


def test_files_with_cases_are_for_whom_the_umask_says(cli: Cli, cases: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert cli(*EVALUATE, cases, "--out", tmp_path / "out").code == 0
        page = ("--panel", "oral-lesions", "--embedder", "hashing", "--html", tmp_path / "page.html")
        assert cli("classify", "a bluish lip", *page).code == 0
    finally:
        os.umask(before)
    written = [*(p for p in (tmp_path / "out").rglob("*") if p.is_file()), tmp_path / "page.html"]
    assert len(written) > 2
    assert {oct(path.stat().st_mode & 0o777) for path in written} == {"0o600"}


def test_what_was_taken_for_what_is_said_and_no_text(cli: Cli, cases: Path) -> None:
    rows = [
        {"note": f"a soft bluish swelling of the lower lip, visit {i}", "dx": "atrophic glossitis"}
        for i in range(30)
    ]
    cases.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    said = cli(*EVALUATE, cases).out
    for words in ("30 of 30 atrophic glossitis → oral mucocele", "answered oral mucocele", "and 25 more"):
        assert words in said
    assert "are few" not in said
    assert "swelling" not in said
