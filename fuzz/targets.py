"""What is fuzzed. A target takes any bytes and returns; raising anything is a finding.

`BadInput` is how a reader refuses, so it is caught here and nowhere else. Whatever is accepted must hold:
labels are a choice, texts can be written again, probabilities sum to one, HTTP never fails.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from simdx.errors import BadInput

Target = Callable[[bytes], None]


def panel_yaml(folder: Path) -> Target:
    """A panel file: `panel check`, `panel show` and every verb with --panel."""
    from simdx.panels import advice_for, load_source, problems_of

    path = folder / "panel.yaml"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        problems = problems_of(path)
        try:
            panel = load_source(path).panel
        except BadInput:
            assert problems
            return
        assert not problems
        assert len({name.casefold() for name in panel.names}) == len(panel.names) >= 2
        assert all(name.strip() for name in panel.names)
        advice_for(panel)
        "".join(panel.names).encode("utf-8")

    return one


def bank_jsonl(folder: Path) -> Target:
    """A bank file, and the answer store of a build."""
    from simdx.bank.files import background_texts, read_bank
    from simdx.bank.store import read_answers
    from simdx.types import Label, Panel

    panel = Panel("toy", (Label("a"), Label("b")))
    path = folder / "bank.jsonl"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        bank = _taken(lambda: read_bank(path, panel))
        if bank is not None:
            assert set(bank.counts) == set(panel.names)
            assert all(text.strip() for text in bank.texts)
            "".join(bank.texts).encode("utf-8")
        _taken(lambda: background_texts(path))
        _taken(lambda: list(read_answers(path)))

    return one


def cases(folder: Path) -> Target:
    """A file of cases; the first byte chooses its format."""
    from simdx.datasets import make_splits, read_cases

    def one(data: bytes) -> None:
        suffix = ("jsonl", "csv", "parquet")[data[0] % 3] if data else "jsonl"
        path = folder / f"cases.{suffix}"
        path.write_bytes(data[1:])
        for labelled in (True, False):
            found = _taken(lambda labelled=labelled: read_cases(path, labelled=labelled))
            if found is not None:
                assert len({case.id for case in found.cases}) == len(found.cases) >= 1
                assert all(text.strip() for text in found.texts)
                "".join([*found.texts, *(case.id for case in found.cases)]).encode("utf-8")
                parts = make_splits(found, {"x": 0.5, "y": 0.5})
                assert sum(map(len, parts.values())) == len(found.cases)

    return one


def prior(folder: Path) -> Target:
    """Arguments of --prior, --prior-counts and --odds, one a line, as the system hands them over."""
    from simdx.cli.main import spread_repeated
    from simdx.cli.options import PriorOptions

    labels = ("apple", "river=bank", "ألم", "engine")

    def one(data: bytes) -> None:
        arguments = data.decode("utf-8", "surrogateescape").split("\n")
        spread_repeated(arguments)
        middle = len(arguments) // 2
        for options in (
            (arguments, None, None),
            (None, arguments, None),
            (arguments[:middle], None, arguments[middle:]),
        ):
            made = _taken(lambda options=options: PriorOptions(*options).over(labels))
            if made is not None:
                assert abs(float(made.probabilities.sum()) - 1) < 1e-9
                assert float(made.probabilities.min()) >= 0
                assert 0 < made.alpha0 < float("inf")

    return one


def policy(folder: Path) -> Target:
    """A decision policy."""
    from simdx.decide.policy import policy_text, read_policy

    path = folder / "file.yaml"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        found = _taken(lambda: read_policy(path))
        if found is not None and found == found:  # one with a NaN in it is equal to nothing, itself included
            path.write_text(policy_text(found), encoding="utf-8")
            assert read_policy(path) == found

    return one


_SERVED: list[object] = []  # held until the process ends: were they collected, the engine would stop


def http(folder: Path, registry: Any = None) -> Target:
    """A request to the service in this process; the first byte chooses the address, the rest is the body.

    It answers from a dozen descriptions and the simplest embedder: what a body does to the service is the
    same, and an answer costs a tenth. A registry of panels loaded before can be given.
    """
    from simdx.service.app import create_app
    from simdx.service.config import Limits, ServiceConfig

    app = create_app(
        ServiceConfig(
            panels={"oral-lesions": _small_bank("oral-lesions", folder / "bank.jsonl")},
            embedder="hashing",
            audit_url=f"sqlite:///{folder / 'audit.sqlite3'}",
            audit_key=folder / "audit.key",
            token_file=folder / "tokens.json",
            # An instrumented answer is slow, and "try again later" would hide what the body leads to.
            limits=Limits(seconds=600.0),
        ),
        registry,
    )
    logging.getLogger("simdx").setLevel(logging.ERROR)
    loop, lifespan = asyncio.new_event_loop(), app.router.lifespan_context(app)
    loop.run_until_complete(lifespan.__aenter__())
    _SERVED.append((loop, lifespan))
    door = httpx.ASGITransport(app, raise_app_exceptions=True, client=("127.0.0.1", 1))
    client = httpx.AsyncClient(
        transport=door, base_url="http://127.0.0.1", headers={"content-type": "application/json"}
    )
    paths = (
        "/v1/classify", "/v1/feedback", "/v1/fhir/RiskAssessment",
        "/cds-services/oral-lesions-patient-view", "/cds-services/oral-lesions-patient-view/feedback",
    )  # fmt: skip

    def asked(path: str, body: bytes) -> httpx.Response:
        return loop.run_until_complete(client.post(path, content=body))

    warm = json.dumps({"panel": "oral-lesions", "text": "a sore tongue"}).encode()
    assert asked(paths[0], warm).status_code == 200

    def one(data: bytes) -> None:
        path = paths[data[0] % len(paths)] if data else paths[0]
        said = asked(path, data[1:])
        assert said.status_code < 500, f"{path} answered {said.status_code}"
        answer = said.json()
        if path == "/v1/classify" and said.status_code == 200:
            for found in answer.get("results", [answer.get("answer", answer)]):
                assert abs(sum(found["posterior"].values()) - 1) < 1e-6

    return one


def page(folder: Path) -> Target:
    """A page of others: the note of a record system, or a reviewer's form, as a page or as a table."""
    from simdx.review import import_scores, make_review
    from simdx.rows import data_blocks, words_of
    from simdx.service.chart import read_chart

    cases = folder / "cases.jsonl"
    cases.write_text('{"id": "1", "text": "a", "label": "gout"}\n{"id": "2", "text": "b", "label": "flu"}\n')
    sheet = make_review(cases, folder / "review", reviewers=["anna"], seed=1)
    form = folder / "form"

    def one(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        words = words_of(text)
        assert len(words) <= len(text) or "&" in text  # one reference may stand for two characters
        assert all(block in text for block in data_blocks(text).values())
        attachment = {"contentType": "text/html", "data": base64.b64encode(data).decode()}
        note = {
            "resourceType": "DocumentReference", "status": "current", "subject": {"reference": "Patient/1"},
            "content": [{"attachment": attachment}],
        }  # fmt: skip
        read_chart({"note": note}, "1")
        # The identity of a review is not to be guessed: the form's own is put in.
        form.write_text(text.replace("REVIEW", sheet.review), encoding="utf-8")
        done = _taken(lambda: import_scores(sheet, form, role="reader"))
        assert done is None or done["scored"] + done["unscored"] == 2

    return one


def _small_bank(panel: str, path: Path, per_label: int = 4) -> Path:
    """Some of a packaged panel's descriptions as a bank of their own."""
    from simdx.bank.files import packaged_bank, write_jsonl
    from simdx.panels import load_source

    bank = packaged_bank(load_source(panel))
    few = [row for k in range(len(bank.labels)) for row in (bank.label_index == k).nonzero()[0][:per_label]]
    write_jsonl(path, ({"label": bank.labels[bank.label_index[row]], "text": bank.texts[row]} for row in few))
    return path


TARGETS: dict[str, Callable[[Path], Target]] = {
    made.__name__: made for made in (panel_yaml, bank_jsonl, prior, http, cases, policy, page)
}


def _taken(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except BadInput:
        return None
