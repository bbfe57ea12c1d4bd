"""Differentials, accuracy at 1, 3, 5, conformal sets and none of these in `simdx evaluate`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

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


def evaluated(cli, folder: Path, *args):
    common = ("--panel", folder / "panel.yaml", "--data", folder / "cases.jsonl", "--resamples", "100")
    return cli("evaluate", *common, *args)


def test_json(cli, files):
    record = evaluated(cli, files, "--ood", files / "outside.jsonl", "--prior", "apple=.5", "--json").json
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


def test_for_people_in_the_terminal_and_on_the_page(cli, files):
    out = files / "out"
    given = ("--ood", files / "outside.jsonl", "--out", out, "--prior", "apple=.5")
    shown = evaluated(cli, files, *given).out
    page = (out / "report.html").read_text("utf-8")
    record = json.loads((out / "metrics.json").read_text("utf-8"))
    variation = f"{record['differential']['total_variation']:.3f}"
    for text in (shown, re.sub("<[^>]+>", " ", page)):
        flat = " ".join(text.split())
        for words in (f"total variation {variation}", "ccuracy at 5", "prior: class-conditional"):
            assert words in flat
    assert "Reference differentials" in page
    assert "Conformal sets" in page


def test_sets_that_would_hold_every_label_are_not_shown(cli, files):
    shown = evaluated(cli, files, "--coverage", ".99").out
    assert "conformal sets, 99 %: 24 cases are too few" in " ".join(shown.split())
    assert "class-conditional" not in shown


def test_a_calibration_set_calibrates_the_sets(cli, files):
    rng = np.random.default_rng(2)
    rows = [{"text": texts(rng, name) + f" {i}", "label": name} for i in range(4) for name in WORDS]
    (files / "held.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    given = ("--calibrate", files / "held.jsonl", "--coverage", ".8", "--json")
    found = evaluated(cli, files, *given).json["conformal"]
    assert (found["level"], found["n_calibration"]) == (0.8, 24)
    assert found["calibrated_on"] == "calibration cases"
