"""What the page asks for beside an answer: draws and words, and previews while a slider moves."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from simdx.service.routes import intervals
from tests.service.conftest import ASK, Guarded, bearer, kind, told


def shown(client: TestClient, **body: object) -> dict[str, Any]:
    reply = client.post("/v1/classify", json={**ASK, "draws": 50, **body})
    assert reply.status_code == 200
    return reply.json()


def test_the_page_gets_the_answer_and_what_it_shows_beside_it(app: FastAPI, client: TestClient) -> None:
    prior = {"oral mucocele": 0.02, "atrophic glossitis": 0.49}
    page = shown(client, prior=prior)
    plain = client.post("/v1/classify", json={**ASK, "prior": prior}).json()
    assert page["answer"]["posterior"] == pytest.approx(plain["posterior"], abs=1e-6)
    assert page["answer"]["decision"] == plain["decision"]
    draws = np.array(page["draws"])
    assert draws.shape == (50, 3)
    assert np.allclose(draws.sum(axis=1), 1, atol=1e-3)
    assert {"headline", "leading", "alarm"} <= page["words"].keys()
    assert app.state.simdx.audit.find(page["answer_id"]).kind == "answer"
    assert shown(client, explain=False)["answer"]["sentences"] is None


@pytest.mark.parametrize("method", ["auto", "m-smc", "d-smc"])
def test_a_preview_is_what_the_answer_will_say(client: TestClient, method: str) -> None:
    code = shown(client, method=method)["preview"]
    body = {"prior": {"oral mucocele": 0.0, "atrophic glossitis": 0.3}, "method": method}
    preview = client.post("/v1/classify", json={**ASK, **body, "preview": code}).json()
    answered = shown(client, **body)
    for part in ("outcomes", "intervals"):
        assert preview[part].keys() == answered[part].keys()
    assert preview["outcomes"] == pytest.approx(answered["outcomes"], abs=1e-6)
    assert preview["outcomes"]["oral mucocele"] == 0
    assert sum(preview["outcomes"].values()) == pytest.approx(1)


def test_a_preview_is_no_answer(app: FastAPI, client: TestClient) -> None:
    code, state = shown(client)["preview"], app.state.simdx
    before = state.audit.head(), told(state.meters, "simdx_answers_total")
    reply = client.post("/v1/classify", json={**ASK, "prior": {"oral mucocele": 0.9}, "preview": code})
    assert set(reply.json()) == {"outcomes", "intervals"}  # nothing to act on
    assert "simdx-answer" not in reply.headers
    assert (state.audit.head(), told(state.meters, "simdx_answers_total")) == before


def test_no_preview_without_a_recorded_answer_to_the_same_text(guarded: Guarded) -> None:
    """Otherwise a posterior could be had that the log knows nothing of."""
    client, plain, admin, _ = guarded
    body = {**ASK, "draws": 0}
    code = client.post("/v1/classify", json=body, headers=bearer(plain)).json()["preview"]

    def ask(who: str, **changes: str) -> Any:
        return client.post("/v1/classify", json={**ASK, "preview": code, **changes}, headers=bearer(who))

    assert ask(plain).status_code == 200
    for refused in (ask(admin), ask(plain, text="Another text."), ask(plain, preview="0" * 64)):
        assert (refused.status_code, kind(refused)) == (422, "bad-input")


def test_intervals_hold_the_posterior_and_shrink_with_simulations() -> None:
    def found(n: float, outside: float) -> dict[str, tuple[float, float]]:
        prior = SimpleNamespace(prior={"a": 0.5, "b": 0.5, "c": 0.0})
        shares = {"a": 0.7, "b": 0.3, "c": 0.0}
        return intervals(SimpleNamespace(
            among_labels=shares, effective_simulations=n, out_of_class=outside, provenance=prior
        ))  # fmt: skip

    few, many = found(10, 0.0), found(1000, 0.0)
    for one in (few, many):
        assert one["a"][0] <= 0.7 <= one["a"][1]
        assert one["c"] == (0.0, 0.0)  # impossible stays impossible
    assert many["a"][1] - many["a"][0] < 0.2 * (few["a"][1] - few["a"][0])
    assert found(10, 1.0)["a"] == pytest.approx((0.0, 0.0))  # none of these has it all
    assert found(0, 0.0)["b"][1] > 0.9
