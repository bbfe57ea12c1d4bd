"""`simdx evaluate` as a program sees it: one JSON object, one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simdx.cli.main import run


def call(capsys, *args):
    with pytest.raises(SystemExit) as caught:
        run(["evaluate", *args])
    streams = capsys.readouterr()
    return caught.value.code or 0, streams.out, streams.err


@pytest.fixture
def cases(tmp_path):
    rows = [
        {"note": "a soft bluish swelling of the lower lip", "dx": "oral mucocele", "sex": "f"},
        {
            "note": "a hard ulcer of the lateral tongue",
            "dx": "oral squamous cell carcinoma",
            "sex": "m",
        },
        {"note": "a smooth red burning tongue", "dx": "atrophic glossitis", "sex": "m"},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


COMMON = ("--panel", "oral-lesions", "--embedder", "hashing", "--text-column", "note", "--label-column", "dx")


def test_json_is_one_object_with_the_contracts_keys(capsys, cases):
    code, out, _ = call(capsys, "--data", str(cases), *COMMON, "--by", "sex", "--json", "--resamples", "100")
    assert code == 0
    record = json.loads(out)
    assert record["n"] == 3
    assert record["groups"]["sex"]["m"]["n"] == 2
    assert record["groups"]["sex"]["m"]["too_small"] is True
    assert record["ood"] is None
    assert set(record["alarm"]) >= {"n_confident_errors", "recall", "false_alarm"}
    assert {gap["value"] for gap in record["audit"]} == {"f", "m"}


def test_a_table_for_people(capsys, cases):
    code, out, _ = call(capsys, "--data", str(cases), *COMMON, "--resamples", "100")
    assert code == 0
    assert "accuracy" in out
    assert "error_auroc" in out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--data", "nonesuch.jsonl"), "no file at nonesuch.jsonl"),
        (("--by", "age"), "has no field 'age'; it has sex"),
        (("--label-column", "label"), "line 1: no column 'label'"),
        (("--ood", "nonesuch.jsonl"), "no file"),
        (("--resamples", "5"), "at least 100"),
        (("--resamples", "100000000000"), "--resamples is over 1,000,000"),
        (("--seed", "-1"), "--seed"),
        (("--data", str(Path(__file__).parent)), "is a folder: give one of the files in it"),
        (("--ood", str(Path(__file__).parent)), "is a folder: give one of the files in it"),
        (("--method", "magic"), "magic"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, cases, extra, message):
    code, out, err = call(capsys, "--data", str(cases), *COMMON, *extra)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert "swelling" not in err
