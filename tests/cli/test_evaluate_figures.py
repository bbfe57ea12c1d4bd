"""Differentials, accuracy at 1, 3, 5, conformal sets and none of these in `simdx evaluate`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from simdx.cli.main import run

WORDS = {
    "apple": "red sweet fruit orchard juice peel",
    "river": "water current bridge flood boat stream",
    "engine": "piston oil fuel gear torque valve",
    "violin": "string bow tune melody orchestra wood",
    "bakery": "bread flour oven yeast crust dough",
    "desert": "sand dune heat dry camel oasis",
}


def texts(rng: np.random.Generator, label: str) -> str:
    return " ".join(rng.choice(WORDS[label].split(), size=4))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A panel of six labels, its bank, cases with a differential and cases of none of the labels."""
    rng = np.random.default_rng(1)
    names = list(WORDS)
    bank = [{"label": name, "text": texts(rng, name)} for name in names for _ in range(12)]
    cases = []
    for i, name in enumerate(names * 5):
        beside = names[(i + 1) % 6]
        differential = [[name, 0.6], [beside, 0.3], ["glacier", 0.1]]
        cases.append({"text": texts(rng, name), "label": name, "differential": differential})
    del cases[3]["differential"]
    outside = [{"text": f"tax ledger invoice {i}"} for i in range(8)]
    labels = "".join(f"  - name: {name}\n" for name in names)
    panel = f"name: words\nembedder: hashing\nbanks: [bank.jsonl]\nlabels:\n{labels}"
    (tmp_path / "panel.yaml").write_text(panel, "utf-8")
    for name, rows in {"bank": bank, "cases": cases, "outside": outside}.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return tmp_path


def call(capsys, folder: Path, *args):
    common = ("--panel", folder / "panel.yaml", "--data", folder / "cases.jsonl", "--resamples", "100")
    with pytest.raises(SystemExit) as caught:
        run(["evaluate", *map(str, (*common, *args))])
    streams = capsys.readouterr()
    return caught.value.code or 0, streams.out, streams.err


def test_json(capsys, files):
    args = ("--ood", files / "outside.jsonl", "--prior", "apple=.5", "--json")
    code, out, _ = call(capsys, files, *args)
    assert code == 0
    record = json.loads(out)
    found = record["differential"]
    assert found["n"] == 29  # one case has none
    names = {"total_variation", "cross_entropy", "top3_recall", "rank_correlation"}
    assert set(found["ci"]) == names
    assert all(found["ci"][name][0] <= found[name] <= found["ci"][name][1] for name in names)
    assert found["outside"]["reference_mass"] == pytest.approx(0.1)
    at = record["accuracy_at"]
    assert at["1"] == pytest.approx(record["accuracy"])
    assert at["1"] <= at["3"] <= at["5"] <= 1
    for sets in (record["conformal"]["split"], record["conformal"]["at_prior"]["weighted"]):
        assert 0 <= sets["coverage"] <= min(1, sets["mean_size"]) <= sets["mean_size"] <= 6
    assert set(record["ood"]) >= {"mean_inside", "mean_outside", "ci"}
    for name, interval in record["ood"]["ci"].items():
        if record["ood"][name] is not None:
            assert interval[0] <= record["ood"][name] <= interval[1]


def test_mean_none_of_these_has_an_interval(capsys, files):
    """On a packaged panel, which has a background and so an opinion on none of these."""
    args = ("--panel", "oral-lesions", "--embedder", "hashing", "--data", "oral-lesions")
    with pytest.raises(SystemExit):
        run(["evaluate", *args, "--ood", "oral-lesions", "--resamples", "100", "--json"])
    record = json.loads(capsys.readouterr().out)
    for name in ("mean_inside", "mean_outside"):
        low, high = record["ood"]["ci"][name]
        assert low < record["ood"][name] < high
    assert record["accuracy_at"] is None  # three labels
    assert record["differential"] is None


def test_for_people_in_the_terminal_and_on_the_page(capsys, files):
    out = files / "out"
    code, shown, _ = call(
        capsys, files, "--ood", files / "outside.jsonl", "--out", out, "--prior", "apple=.5"
    )
    assert code == 0
    page = (out / "report.html").read_text("utf-8")
    record = json.loads((out / "metrics.json").read_text("utf-8"))
    variation = f"{record['differential']['total_variation']:.3f}"
    for text in (shown, re.sub("<[^>]+>", " ", page)):
        flat = " ".join(text.split())
        assert f"total variation {variation}" in flat
        assert "ccuracy at 5" in flat
        assert "prior: class-conditional" in flat
    assert "Reference differentials" in page
    assert "Conformal sets" in page


def test_a_calibration_set_calibrates_the_sets(capsys, files):
    rng = np.random.default_rng(2)
    rows = [{"text": texts(rng, name) + f" {i}", "label": name} for i in range(4) for name in WORDS]
    (files / "held.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    _, out, _ = call(capsys, files, "--calibrate", files / "held.jsonl", "--coverage", ".8", "--json")
    found = json.loads(out)["conformal"]
    assert (found["level"], found["n_calibration"]) == (0.8, 24)
    assert found["calibrated_on"] == "calibration cases"


@pytest.mark.parametrize("coverage", ["0", "1", "nan"])
def test_a_coverage_that_is_none(capsys, files, coverage):
    code, out, err = call(capsys, files, "--coverage", coverage)
    assert (code, out) == (2, "")
    assert f"--coverage is {coverage}: give a number between 0 and 1" in err


def test_a_malformed_differential_is_one_line_and_exit_2(capsys, files):
    path = files / "cases.jsonl"
    lines = path.read_text("utf-8").splitlines()
    row = json.loads(lines[4]) | {"differential": [["apple", 0.2]]}
    path.write_text("\n".join([*lines[:4], json.dumps(row), *lines[5:]]), "utf-8")
    code, out, err = call(capsys, files, "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "case 5 of cases: its 'differential' sums to 0.200, not to 1" in err
