"""A panel, its bank or its policy is edited, damaged or removed while a service runs on it.

The service keeps answering for what it loaded, with every method: never for the new labels with one method
and for the old ones with another, and never with a failure.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from simdx.errors import BadInput
from simdx.service.app import create_app
from simdx.service.config import ServiceConfig
from tests.builders import WORDS


def edit_labels(world: Path) -> None:
    panel, rows = world / "with-bank.yaml", world / "rows.jsonl"
    panel.write_text(panel.read_text().replace("name: river", "name: brook"))
    rows.write_text(rows.read_text().replace('"river"', '"brook"'))


CHANGES: dict[str, Callable[[Path], object]] = {
    "labels edited": edit_labels,
    "all removed": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_service_keeps_what_it_loaded(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setenv("SIMDX_HOME", str(tmp_path / "home"))
    service = tmp_path / "service"
    config = ServiceConfig(
        panels={str(world / "with-bank.yaml"): None}, audit_url=f"sqlite:///{service}/audit.sqlite3",
        audit_key=service / "audit.key",
    )  # fmt: skip
    with TestClient(create_app(config), base_url="http://127.0.0.1") as client:

        def ask(method: str) -> dict[str, object]:
            body = {"panel": "toy", "text": "red sweet fruit", "method": method}
            reply = client.post("/v1/classify", json=body)
            assert reply.status_code == 200, reply.text
            return dict(reply.json())

        before = ask("auto")
        CHANGES[change](world)
        after = ask("auto")
        assert after["posterior"] == before["posterior"]
        for method in ("m-smc", "d-smc"):  # fitted now, for the first time
            answer = ask(method)
            assert list(answer["posterior"]) == list(WORDS)
            assert answer["provenance"]["bank"] == before["provenance"]["bank"]
        assert client.get("/v1/panels").json()
    if change == "all removed":
        with pytest.raises(BadInput) as refused:  # a new start says what is wrong, in one line
            create_app(config)
        assert "\n" not in str(refused.value)
