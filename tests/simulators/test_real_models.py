"""SmolLM2 for real: in this process, over its HTTP endpoint, and in transformers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from simdx.simulators import get_simulator
from simdx.simulators.base import Capabilities, Request, ask, ask_all
from simdx.simulators.llamacpp import LlamaCppSimulator
from simdx.simulators.openai import OpenAISimulator

pytestmark = pytest.mark.slow


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
