"""A server of typed decisions as a method, against a real server on loopback."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.egress import listens
from simdx.errors import BadInput, NotAllowed, RunFailed
from simdx.methods.fitted import Settings
from simdx.methods.panel_data import PanelData
from simdx.models.fetch import locate
from simdx.service.app import create_app
from simdx.service.state import refuse_remote
from simdx_contrib.systemone import Server, SystemOne
from tests.cli.conftest import Cli
from tests.loopback import Handler, running, until
from tests.service.conftest import make_config

PANEL = "oral-lesions"
TEXT = "A soft bluish swelling of the lower lip."


def likeness(text: str, name: str) -> float:
    """What the server believes of a case and a label, apart from the label's place and its own taste."""
    return 1.0 + len(set(text.lower()) & set(name.lower())) / 5 if text.strip() not in ("", "N/A") else 1.0


class Biased(Handler):
    """It prefers what stands first, and long names; it takes no empty state where it is told so."""

    takes_empty = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not asked["state"] and not self.takes_empty:
            self.answer(422, "application/json", b'{"detail": []}')
            return
        answers = {}
        for name, question in asked["questions"].items():
            options = question["criteria"]
            raw = {o: likeness(asked["state"], o) * len(o) / (2 + i) for i, o in enumerate(options)}
            p = {o: v / sum(raw.values()) for o, v in raw.items()}
            said = {"type": "choice", "choice": max(p, key=p.get), "confidence": 0}
            answers[name] = {**said, "probabilities": p}
        usage = {"input_tokens": 0, "output_tokens": 0}
        body = {"model": asked["model"], "answers": answers, "usage": usage}
        self.answer(200, "application/json", json.dumps(body).encode())


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    kind = type("Kind", (Biased,), {"takes_empty": getattr(request, "param", True)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def data() -> PanelData:
    return Classifier(PANEL).data


@pytest.mark.parametrize("address", [True, False], ids=["empty", "no empty"], indirect=True)
def test_place_and_taste_are_taken_out(data: PanelData, address: str) -> None:
    fitted = SystemOne(data, Settings(method="systemone", simulator=address))
    classifier = Classifier(PANEL)
    found = fitted.answer(data.observe([TEXT]), classifier.prior(None)).among_labels[0]
    expected = np.array([likeness(TEXT, name) for name in data.panel.names])
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)


def bank_rows(data: PanelData, step: int) -> list[dict[str, str]]:
    """Some simulated texts as labelled cases."""
    bank, names = data.bank, data.panel.names
    labelled = zip(bank.texts, bank.label_index, strict=True)
    return [{"text": text, "label": names[k]} for text, k in labelled][::step]


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_it_answers_from_the_command_line_and_is_compared(
    data: PanelData, address: str, tmp_path: Path, cli: Cli
) -> None:
    cases = written(tmp_path / "cases.jsonl", bank_rows(data, 20))
    common = ["--panel", PANEL, "--method", "systemone", "--simulator", f"any@{address}", "--json"]
    one = cli("classify", TEXT, *common).json
    assert one["method"] == "systemone"
    assert sum(one["among_labels"].values()) == pytest.approx(1)
    assert cli("evaluate", "--data", cases, *common).json["n"] == len(bank_rows(data, 20))


def test_a_service_in_front_keeps_what_the_upstreamsaid_and_calibrates_it(
    data: PanelData, address: str, tmp_path: Path
) -> None:
    others = [{"text": t, "label": "none of these"} for t in data.bank.background[:6]]
    cases = written(tmp_path / "cases.jsonl", bank_rows(data, 12) + others)
    options = dict.fromkeys(data.panel.names)
    ask = {"state": TEXT, "questions": {"q": {"type": "choice", "criteria": options}}}
    found = {}
    for given in (None, cases):
        config = make_config(tmp_path / str(given is None), upstream=address, upstream_cases=given)
        (tmp_path / str(given is None)).mkdir()
        with TestClient(create_app(config), base_url="http://127.0.0.1") as client:
            found[given] = client.post("/v1/systemone", json=ask).json()["answers"]["q"]
            plain = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT, "method": "auto"}).json()
    raw, moved = found[None], found[cases]
    described = {label.name: " ".join(label.description.split()) or None for label in data.panel.labels}
    said = Server(address, allow_remote=False).ask(TEXT, described)[0]
    assert list(raw["x_upstream"].values()) == pytest.approx(said.tolist())
    assert raw["probabilities"] == pytest.approx(raw["x_upstream"])  # without cases: as it said
    assert raw["x_none_of_these"] == pytest.approx(plain["out_of_class"], abs=1e-6)
    assert raw["x_calibration"]["basis"] == "transferred"
    assert raw["x_decision"]["action"] != "accept"
    assert moved["x_upstream"] == pytest.approx(raw["x_upstream"])
    assert moved["probabilities"] != pytest.approx(raw["probabilities"], abs=0.01)
    assert moved["x_calibration"]["basis"] == "measured"


def test_an_upstream_that_fails_is_no_failure_of_ours(address: str, tmp_path: Path) -> None:
    with TestClient(
        create_app(make_config(tmp_path, upstream=address)), base_url="http://127.0.0.1"
    ) as client:
        registry = client.app.state.simdx.registry
        registry.get(PANEL, "upstream").fitted._server = Server("http://127.0.0.1:9", allow_remote=False)
        reply = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT, "method": "upstream"})
    assert reply.status_code == 502
    assert reply.json()["type"].endswith("upstream")


def test_another_machine_needs_permission_and_an_address_is_needed(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed):
        refuse_remote(make_config(tmp_path, upstream="model@https://decisions.example.org"))
    with pytest.raises(NotAllowed):
        Server("http://192.0.2.1:8000", allow_remote=False)
    with pytest.raises(BadInput, match="needs a server"):
        Server("smollm2", allow_remote=False)


def test_another_shape_is_a_failure_in_one_line(address: str) -> None:
    server = Server(address, allow_remote=False)
    wrong = b'{"answers": {"q": {"type": "choice", "probabilities": {"a": 7}}}}'
    for body in (b"[]", b'{"answers": {}}', wrong):
        with pytest.raises(RunFailed, match="another shape"):
            server._read(body, ["q"], ["a"])
    with pytest.raises(RunFailed, match="did not answer"):
        Server("http://127.0.0.1:9", allow_remote=False).ask(TEXT, {"a": None, "b": None})


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`transformers serve` with SmolLM2. It cannot read the GGUF file: its weights are written out."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = locate("smollm2")
    folder, where = tmp_path_factory.mktemp("smollm2"), {"gguf_file": file.name}
    read = AutoModelForCausalLM.from_pretrained(file.parent, **where)
    read.config.__dict__.pop("quantization_config", None)
    plain = AutoModelForCausalLM.from_config(read.config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **where).save_pretrained(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--device", "cpu"]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [*command, "--port", str(port)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as serving:
        try:
            until(lambda: listens(f"127.0.0.1:{port}") or serving.poll() is not None, 240)
            yield f"{folder}@http://127.0.0.1:{port}"
        finally:
            serving.terminate()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries that read the weights
def test_a_real_model_is_asked_through_transformers_serve(data: PanelData, smollm2: str) -> None:
    fitted = SystemOne(data, Settings(method="systemone", simulator=smollm2, budget=2))
    found = fitted.answer(data.observe([TEXT]), Classifier(PANEL).prior(None)).among_labels[0]
    assert found.sum() == pytest.approx(1)
    assert found.max() > found.min()  # it says something
