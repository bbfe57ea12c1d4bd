"""A headache, asked of the oral panel: every reader says none of these, with the same probability."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fastapi import FastAPI
from pyarrow import parquet
from starlette.testclient import TestClient

from simdx.answer import percent
from simdx.classifier import Classifier
from simdx.estimator import SimulationClassifier
from tests.cli.conftest import Cli, cli  # noqa: F401  # the fixture
from tests.service.conftest import PANEL

TEXT = "Half my head pounds for hours. Light hurts, I feel sick and have to lie down in the dark."
NONE = "none of these"
LABELS = ["oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis"]


@pytest.fixture(scope="module")
def expected() -> dict[str, float]:
    classifier = Classifier(PANEL)
    assert classifier.classes_.tolist() == [*LABELS, NONE]
    assert classifier.predict(TEXT).tolist() == [NONE]
    p = classifier.predict_proba(TEXT)[0]
    assert p.sum() == pytest.approx(1)
    assert p[3] > 0.9
    return dict(zip(classifier.classes_, p.tolist(), strict=True))


def alike(answer: dict, expected: dict[str, float]) -> None:
    assert answer["label"] == NONE
    assert set(answer["posterior"]) == {*LABELS, NONE}
    assert answer["posterior"] == pytest.approx(expected, abs=1e-6)
    assert answer["out_of_class"] == answer["posterior"][NONE]


def test_python_and_scikit_learn(expected: dict[str, float]) -> None:
    answer = Classifier(PANEL).infer(TEXT)
    alike(answer.to_json(), expected)
    assert answer.leading == f"{NONE}, {percent(expected[NONE])}"
    assert answer.leading_label in LABELS
    assert answer.flip is None  # no label's prior decides it
    assert sum(answer.among_labels.values()) == pytest.approx(1)
    assert any(part.effect > 0 for part in answer.sentences)
    model = SimulationClassifier(PANEL).fit()
    assert model.predict([TEXT]).tolist() == [NONE]
    assert model.predict_proba([TEXT])[0, model.classes_.tolist().index(NONE)] == pytest.approx(
        expected[NONE]
    )


def test_terminal_json_and_page(cli: Cli, tmp_path: Path, expected: dict[str, float]) -> None:  # noqa: F811
    html = tmp_path / "answer.html"
    told = cli("classify", TEXT, "--panel", PANEL, "--json", "--html", html)
    alike(told.json, expected)
    assert list(told.json["posterior"]) == [*LABELS, NONE]
    assert f"<h2>{NONE}</h2>" in html.read_text("utf-8")
    shown = cli("classify", TEXT, "--panel", PANEL).out
    bar = next(line for line in shown.splitlines() if line.startswith(NONE))
    assert bar.endswith(percent(expected[NONE]))


def test_files(cli: Cli, tmp_path: Path, expected: dict[str, float]) -> None:  # noqa: F811
    parquet.write_table(pa.table({"id": ["a"], "text": [TEXT]}), tmp_path / "in.parquet")
    asked = ("scale", "classify", tmp_path / "in.parquet", tmp_path / "out", "--panel", PANEL, "--in-process")
    assert cli(*asked).code == 0
    row = parquet.read_table(tmp_path / "out")
    assert json.loads(row.schema.metadata[b"simdx.labels"]) == [*LABELS, NONE]
    found = row.to_pylist()[0]
    assert (found["label"], found["probability"]) == (NONE, pytest.approx(expected[NONE]))
    np.testing.assert_allclose(found["posterior"], list(expected.values()), atol=1e-5)
    (tmp_path / "cases.jsonl").write_text(json.dumps({"text": TEXT, "label": LABELS[0]}) + "\n", "utf-8")
    how = ("--panel", PANEL, "--data", tmp_path / "cases.jsonl", "--resamples", 100, "--out", tmp_path / "e")
    assert cli("evaluate", *how).code == 0
    case = parquet.read_table(tmp_path / "e" / "cases.parquet").to_pylist()[0]
    assert (case["predicted"], case["correct"]) == (NONE, False)
    assert case[f"posterior.{NONE}"] == pytest.approx(expected[NONE])


def test_service_log_and_page(app: FastAPI, client: TestClient, expected: dict[str, float]) -> None:
    ask = {"panel": PANEL, "text": TEXT}
    alike(client.post("/v1/classify", json=ask).json(), expected)
    alike(app.state.simdx.audit.page(limit=1)[0].to_json()["answer"], expected)
    page = client.post("/v1/classify", json={**ask, "draws": 0}).json()
    assert page["outcomes"] == pytest.approx(expected, abs=1e-6)
    assert page["words"]["leading"] == f"{NONE}, {percent(expected[NONE])}"


def test_final_diagnoses_agree_with_none_of_these(client: TestClient) -> None:
    answered = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT})
    for label, agrees in ((None, True), (LABELS[0], False)):
        said = {"answer": answered.headers["simdx-answer"], "label": label}
        assert client.post("/v1/feedback", json=said).json()["agrees"] is agrees


def test_closed_leaves_it_out(cli: Cli) -> None:  # noqa: F811
    found = cli("classify", TEXT, "--panel", PANEL, "--closed", "--json").json
    assert (found["out_of_class"], found["posterior"]) == (None, found["among_labels"])
    assert found["label"] in LABELS
    assert found["decision"]["action"] != "accept"
    closed = Classifier(PANEL, closed=True)
    assert closed.classes_.tolist() == LABELS
    assert closed.predict(TEXT).tolist() == [found["label"]]
    sure = closed.infer("A soft, bluish, painless swelling of the lower lip that emptied and came back.")
    assert sure.decision.action in ("likely", "test")
    assert "none of these was left out (closed)" in sure.decision.reason
