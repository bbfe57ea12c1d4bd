"""`simdx distil`: the file is run by onnxruntime, answers as it was trained to, and says what it loses."""

import json
from pathlib import Path

import pytest

from simdx import BadInput, Classifier, distil
from simdx.distil import Student
from simdx.types import Bank, Case, Panel
from tests.cli.conftest import Cli

ODD = ["Red, SWEET fruit; motor-oil!", "a a a boat.\nnew line\tTab", "Ärzte water", "x", "fruit_tree 12"]


def test_the_file_answers_as_the_pipeline_did(
    tmp_path: Path, toy_panel: Panel, toy_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    monkeypatch.setattr(distil, "to_onnx", lambda p=None, made=distil.to_onnx: (kept.append(p), made(p))[1])
    archive = ["the river in flood", "an apple core"]
    student = distil.distil(Classifier(toy_panel, toy_bank), tmp_path / "student", archive)
    texts = [*ODD, *toy_bank.texts]
    theirs = Student.open(tmp_path / "student").predict_proba(texts)
    assert theirs == pytest.approx(kept[-1].predict_proba(texts), abs=1e-5)
    assert theirs.argmax(axis=1)[len(ODD) :].tolist() == toy_bank.label_index.tolist()
    measured = student.card["simulated_text"]
    assert measured["n"] == 6
    assert measured["same_label"] > 0.8
    assert 0 < measured["total_variation"] < 0.5
    assert student.card["trained_on"] == {"bank": 36, "background": 0, "archive": 2}
    assert student.predict_proba([]).shape == (0, 3)


def test_it_follows_its_teacher_and_not_the_labels(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    """Words that the bank does not have get from an archive what the recipe says of them."""
    known = [Case("zebra quagga okapi", label="engine")] * 6
    teacher = Classifier(toy_panel, toy_bank, real_cases=known, real_weight=5)
    archive = ["zebra quagga"] * 10
    wanted = teacher.infer_batch(archive[:1]).posterior_in_class[0, 2]
    alone = distil.distil(teacher, tmp_path / "alone").predict_proba(archive[:1])[0, 2]
    told = distil.distil(teacher, tmp_path / "told", archive).predict_proba(archive[:1])[0, 2]
    assert alone < wanted - 0.2
    assert abs(told - wanted) < 0.15


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    rows = [
        {"text": "a soft bluish swelling of the lower lip", "label": "oral mucocele"},
        {"text": "a hard ulcer of the lateral tongue", "label": "oral squamous cell carcinoma"},
    ]
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    out = tmp_path / "student"
    how = ("distil", "--panel", "oral-lesions", "--out", out)
    made = cli(*how, "--archive", data, "--data", data, "--json").json
    assert made["labels"][-1] == "none of these"
    assert made["simulated_text"]["student"]["accuracy"] > 0.8
    assert made["cases"]["n"] == 2
    p = Student.open(out).predict_proba(["A soft, bluish swelling of the lip."])
    assert p.shape == (1, 4)
    assert p.sum() == pytest.approx(1, abs=1e-5)
    assert "not empty" in cli(*how).complaint
    for content in ("{", '{"labels": 3}'):
        (out / "student.json").write_text(content, "utf-8")
        with pytest.raises(BadInput, match="holds no student"):
            Student.open(out)
