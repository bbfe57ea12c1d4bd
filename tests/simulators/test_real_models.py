"""SmolLM2 for real: in this process, over its HTTP endpoint, behind a faulty proxy, and in transformers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simdx.bank.builder import BuildLimits, build_bank
from simdx.bank.plan import BuildSettings
from simdx.bank.store import STORE_FILE, read_answers
from simdx.panels import load_panel
from simdx.simulators import get_simulator
from simdx.simulators.base import Capabilities, Request, ask, ask_all
from simdx.simulators.llamacpp import LlamaCppSimulator
from simdx.simulators.openai import OpenAISimulator, RetryPolicy
from tests.simulators.faults import FaultyServer

pytestmark = pytest.mark.slow
# More attempts than there are faults: while others wait for the model, one request may meet them all.
PATIENT = RetryPolicy(attempts=30, first_wait=0.05, longest_wait=0.5)


@pytest.fixture(scope="module")
def smollm2() -> Iterator[LlamaCppSimulator]:
    simulator = get_simulator("smollm2", slots=4, context=1024)
    yield simulator
    simulator.close()


def test_the_opening_begins_a_text_and_what_cannot_be_answered_fails(smollm2: LlamaCppSimulator) -> None:
    opening = "For two weeks I have had"
    answer = ask(smollm2, Request("Describe a sore mouth.", opening=opening, max_tokens=12))
    assert answer.text.startswith(opening)
    assert answer.text != opening
    long, fine = Request("word " * 3000, max_tokens=4), Request("Say yes.", max_tokens=4)
    answers = ask_all(smollm2, [long, fine, replace(fine, grammar='root ::= ("')])
    assert [a.ok for a in answers] == [False, True, False]
    assert "exceeds the context of 1024" in str(answers[0].error)


def test_the_same_server_over_http(smollm2: LlamaCppSimulator) -> None:
    over_http = OpenAISimulator("smollm2", smollm2.address, timeout=120)
    assert over_http.capabilities == smollm2.capabilities == Capabilities(True, True, True, True)
    request = Request("Name a colour.", max_tokens=8, temperature=0.0, seed=1)
    assert ask(over_http, request).text == ask(smollm2, request).text


def test_a_bank_is_built_through_every_fault(smollm2: LlamaCppSimulator, tmp_path: Path) -> None:
    faults = ["429:0.2", "500", "reset", "malformed", "empty", "half", "wrong", "503", "hang", "ok"] * 2
    with FaultyServer(faults, upstream=smollm2.address) as proxy:
        simulator = OpenAISimulator("smollm2", proxy.url, concurrency=4, timeout=60, retry=PATIENT)
        settings = BuildSettings(per_label=2, max_tokens=60, voice="short", temperature=0.7)
        out, panel = tmp_path / "bank", load_panel("symptom-to-diagnosis")
        report = build_bank(panel, simulator, settings, out, BuildLimits(max_requests=40))
    rows = list(read_answers(out / STORE_FILE))
    assert report.failed == 0
    assert proxy.seen >= len(rows) + 18  # every fault but "ok" cost one more request
    assert len({row.key for row in rows}) == len(rows)
    assert sum(report.usable.values()) >= 6


def test_transformers_reads_the_same_weights(smollm2: LlamaCppSimulator) -> None:
    simulator = get_simulator("hf:smollm2", batch=2)
    assert simulator.id == f"hf:{smollm2.id}"
    answers = ask_all(simulator, [Request("Name a colour.", max_tokens=6, temperature=0.0) for _ in range(3)])
    assert all(a.ok and a.text.strip() for a in answers), answers
    assert len({a.text for a in answers}) == 1  # greedy: the batch must not change a text
    asked = Request("Describe pain.", opening="I have had", max_tokens=6, logprobs=2, temperature=0.0)
    opened = ask(simulator, asked)
    assert opened.text.startswith("I have had")
    assert len(opened.logprobs[0].top) == 2
    assert "obeys no grammar" in str(ask(simulator, Request("x", grammar='root ::= "zqx"')).error)
