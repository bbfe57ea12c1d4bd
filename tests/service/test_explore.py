"""Prior sliders: the same case under another prior, quickly, without embedding it again."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from fastapi import FastAPI
from simdx.service.observations import ObservationCache
from starlette.testclient import TestClient

from simdx.service.intervals import posterior_intervals
from tests.service.conftest import PANEL, TEXT, Guarded, bearer, told


@contextmanager
def watched(owner: object, name: str) -> Iterator[list[object]]:
    """What a method is asked meanwhile."""
    asked, real = list[object](), getattr(owner, name)
    setattr(owner, name, lambda given: asked.append(given) or real(given))
    yield asked
    delattr(owner, name)


def explore(client: TestClient, **body: object) -> dict:
    reply = client.post("/v1/explore", json={"panel": PANEL, "text": TEXT, **body})
    assert reply.status_code == 200
    return reply.json()


def test_another_prior_gives_what_a_fresh_question_would(app: FastAPI, client: TestClient) -> None:
    first = explore(client, draws=50)
    prior = {"oral mucocele": 0.02, "atrophic glossitis": 0.49}
    with watched(app.state.simdx.registry.get(PANEL, "auto").material.embedder, "embed_batch") as asked:
        again = client.post(f"/v1/explore/{first['observation']}", json={"prior": prior, "draws": 50}).json()
    assert asked == []
    fresh = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT, "prior": prior}).json()
    assert again["answer"]["posterior"] == pytest.approx(fresh["posterior"], abs=1e-6)
    assert again["answer"]["decision"] == fresh["decision"]
    assert again["observation"] == first["observation"]
    record = app.state.simdx.audit.find(again["answer_id"])
    assert record.kind == "explore"
    assert record.to_json()["prior"] == pytest.approx({**prior, "oral squamous cell carcinoma": 0.49})
    for reply in (first, again):
        draws = np.array(reply["draws"])
        assert draws.shape == (50, 3)
        assert np.allclose(draws.sum(axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("method", ["auto", "m-smc", "d-smc"])
def test_a_preview_is_what_the_answer_will_say(client: TestClient, method: str) -> None:
    first = explore(client, method=method)
    body = {"prior": {"oral mucocele": 0.0, "atrophic glossitis": 0.3}, "method": method}
    where = f"/v1/explore/{first['observation']}"
    preview, answered = (client.post(f"{where}{end}", json=body).json() for end in ("/preview", ""))
    assert preview == {"outcomes": answered["outcomes"], "intervals": answered["intervals"]}
    assert preview["outcomes"]["oral mucocele"] == 0
    assert sum(preview["outcomes"].values()) == pytest.approx(1)


def test_a_preview_is_no_answer(app: FastAPI, client: TestClient) -> None:
    first, house = explore(client), app.state.simdx
    before = house.audit.head(), told(house.meters, "simdx_answers_total")
    reply = client.post(f"/v1/explore/{first['observation']}/preview", json={"prior": {"oral mucocele": 0.9}})
    assert set(reply.json()) == {"outcomes", "intervals"}  # nothing to act on
    assert "simdx-answer" not in reply.headers
    assert (house.audit.head(), told(house.meters, "simdx_answers_total")) == before


def test_a_preview_needs_neither_embedding_nor_new_draws(app: FastAPI, client: TestClient) -> None:
    where, body = f"/v1/explore/{explore(client)['observation']}", {"prior": {"oral mucocele": 0.123}}
    classifier = app.state.simdx.registry.get(PANEL, "auto")
    embedder, simplex = classifier.material.embedder, classifier.fitted.simplex
    with watched(embedder, "embed_batch") as embedded, watched(simplex, "shared") as drawn:
        assert client.post(f"{where}/preview", json=body).status_code == 200
        assert embedded == drawn == []
        assert client.post(where, json=body).status_code == 200
        assert drawn  # the answer does make draws: the check above can fail


@pytest.mark.parametrize("end", ["", "/preview"])
def test_what_is_not_kept_is_gone(client: TestClient, end: str) -> None:
    reply = client.post(f"/v1/explore/{'0' * 32}{end}", json={})
    assert (reply.status_code, reply.json()["type"]) == (410, "urn:simdx:problem:gone")


def test_a_kept_case_belongs_to_its_caller(guarded: Guarded) -> None:
    client, plain, admin, _ = guarded
    reply = client.post("/v1/explore", json={"panel": PANEL, "text": TEXT}, headers=bearer(plain))
    for end in ("", "/preview"):
        where = f"/v1/explore/{reply.json()['observation']}{end}"
        assert client.post(where, json={}, headers=bearer(admin)).status_code == 410


def test_the_cache_forgets_by_time_and_by_size() -> None:
    moment = [0.0]
    cache = ObservationCache(2, 10.0, clock=lambda: moment[0])
    for name in "abc":
        cache.put(name, PANEL, "me", None)
        moment[0] += 1
    assert cache.get("a", "me") is None
    assert cache.get("b", "me") is not None
    moment[0] = 12.5  # c was put at 2, b renewed at 3
    assert cache.get("c", "me") is None
    assert cache.get("b", "me") is not None
    assert cache.get("b", "you") is None
    moment[0] = 30
    assert cache.get("b", "me") is None
    assert len(cache) == 0


def test_names_depend_on_everything_and_on_the_process() -> None:
    cache, other = ObservationCache(2, 1), ObservationCache(2, 1)
    names = {cache.name("p", "me", "x"), cache.name("q", "me", "x"), cache.name("p", "you", "x"),
             cache.name("p", "me", "y"), cache.name("pm", "e", "x"), other.name("p", "me", "x")}  # fmt: skip
    assert len(names) == 6
    assert cache.name("p", "me", "x") == cache.name("p", "me", "x")


def test_intervals_hold_the_posterior_and_shrink_with_simulations() -> None:
    def answer(n: float, outside: float, prior: dict[str, float]) -> dict:
        return {
            "posterior_in_class": {"a": 0.7, "b": 0.3, "c": 0.0}, "effective_simulations": n,
            "out_of_class": outside, "provenance": {"prior": prior},
        }  # fmt: skip

    prior = {"a": 0.5, "b": 0.5, "c": 0.0}
    few, many = (posterior_intervals(answer(n, 0.0, prior)) for n in (10, 1000))
    for intervals in (few, many):
        assert intervals["a"][0] <= 0.7 <= intervals["a"][1]
        assert intervals["c"] == (0.0, 0.0)  # impossible stays impossible
    assert many["a"][1] - many["a"][0] < 0.2 * (few["a"][1] - few["a"][0])
    pulled = posterior_intervals(answer(10, 1.0, prior))
    assert pulled["a"] == pytest.approx((0.0, 0.0))  # none of these has it all
    assert posterior_intervals(answer(0, 0.0, prior))["b"][1] > 0.9
