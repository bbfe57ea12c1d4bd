"""Panels of a caller's own: labels of the library, a panel made of them, which texts to label."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from simdx.panels import load_panel
from tests.loopback import until
from tests.service.conftest import PANEL, TEXT, Guarded, bearer, kind

HEADACHES = ["migraine", "tension headache", "cluster headache"]


def test_the_library_is_searched_by_name_alias_and_code(client: TestClient) -> None:
    for query, name in (("migraine", "migraine"), ("G44.0", "cluster headache")):
        found = client.get("/v1/library", params={"q": query}).json()["found"]
        assert found[0]["name"] == name
        assert {"icd10", "system", "emergency", "aliases", "how"} <= found[0].keys()
        assert len(found) <= 12
    meant = client.get("/v1/library", params={"q": "clot that travelled to the lung"}).json()["found"]
    assert {entry["how"] for entry in meant} == {"meaning"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((f"/v1/library?q={query}", None) for query in ("", "   ", "x" * 201)),
        ("/v1/ask", {"panel": PANEL, "texts": [TEXT] * 7}),
        ("/v1/ask", {"panel": PANEL, "texts": [TEXT] * 2_001}),
        ("/v1/ask", {"panel": PANEL, "texts": [TEXT] * 8, "count": 21}),
    ],
)
def test_queries_and_texts_to_choose_from_are_bounded(client: TestClient, path: str, body: Any) -> None:
    reply = client.get(path) if body is None else client.post(path, json=body)
    assert reply.status_code == 422
    assert kind(reply) in ("invalid-body", "bad-input")


def test_a_panel_of_the_library_is_the_one_its_file_describes(client: TestClient, tmp_path: Path) -> None:
    made = client.get("/v1/library/panel", params={"label": HEADACHES}).json()
    (tmp_path / "headaches.yaml").write_text(made["file"], encoding="utf-8")
    own = load_panel(tmp_path / "headaches.yaml")
    assert [label["name"] for label in made["panel"]["labels"]] == HEADACHES == list(own.names)
    assert made["panel"]["id"] == own.name == "made"
    assert "clinician" in made["panel"]["disclaimer"]


@pytest.mark.parametrize("labels", [["migraine"], ["migraine", "no such thing"], ["migraine", "G43"]])
def test_labels_are_different_names_of_the_library(client: TestClient, labels: list[str]) -> None:
    assert client.get("/v1/library/panel", params={"label": labels}).status_code == 422
    body = {"panel": "made", "labels": labels, "text": TEXT}
    assert client.post("/v1/classify", json=body).status_code == 422


def test_labels_belong_to_the_panel_that_is_made_of_them(client: TestClient) -> None:
    body = {"panel": PANEL, "labels": HEADACHES, "text": TEXT}
    assert client.post("/v1/classify", json=body).status_code == 422
    assert kind(client.post("/v1/classify", json={"panel": "made", "text": TEXT})) == "unknown-panel"


def test_a_panel_of_the_library_answers_as_others_do(app: FastAPI, client: TestClient) -> None:
    text = "Every night at two a stabbing pain behind one eye; the eye waters and I pace the room."
    body = {"panel": "made", "labels": HEADACHES, "text": text, "draws": 20}
    # On a busy machine the first may be told to come back; the panel is made meanwhile.
    reply = until(lambda: (r := client.post("/v1/classify", json=body)).status_code == 200 and r, 120)
    page = reply.json()
    assert page["answer"]["label"] == "cluster headache"
    assert page["answer"]["out_of_class"] is not None
    assert page["answer"]["evidence"]
    assert app.state.simdx.audit.find(page["answer_id"]).panel == "made"
    prior = {"cluster headache": 0.0}
    moved = client.post(
        "/v1/classify", json={**body, "draws": None, "prior": prior, "preview": page["preview"]}
    )
    assert moved.json()["outcomes"]["cluster headache"] == 0
    others = {**body, "draws": None, "labels": ["migraine", "gout"], "preview": page["preview"]}
    assert kind(client.post("/v1/classify", json=others)) == "bad-input"  # it is of another panel


def test_some_texts_are_chosen_and_nothing_is_recorded(app: FastAPI, client: TestClient) -> None:
    texts = [f"{words} Visit {i}." for i in range(10) for words in (TEXT, "A smooth, red tongue.")]
    before = app.state.simdx.audit.head()
    reply = client.post("/v1/ask", json={"panel": PANEL, "texts": texts, "count": 8})
    chosen = reply.json()["ask"]
    assert reply.json().keys() == {"ask"}
    assert len(set(chosen)) == 8
    assert set(chosen) <= set(range(20))
    assert app.state.simdx.audit.head() == before


def test_the_gate_stands_before_all_of_it(guarded: Guarded) -> None:
    client, every, _, tokens = guarded
    one, _ = tokens.new("one", ("classify",), panels=(PANEL,))
    search, made = "/v1/library?q=gout", "/v1/library/panel?label=gout&label=asthma"
    for path in (search, made):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=bearer(every)).status_code == 200
    assert client.get(search, headers=bearer(one)).status_code == 200
    body = {"panel": "made", "labels": ["gout", "asthma"], "text": TEXT}
    refused = (
        client.get(made, headers=bearer(one)),
        client.post("/v1/classify", json=body, headers=bearer(one)),
    )
    assert [kind(reply) for reply in refused] == ["wrong-panel"] * 2
    assert client.post("/v1/ask", json={}).status_code == 401
