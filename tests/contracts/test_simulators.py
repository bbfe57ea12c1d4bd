"""One suite for every simulator: what a build, a method or an interview may rely on.

The scripted one, a server of this machine and several of them run with every change; the two that hold real
weights answer the same questions in the slow suite.
"""

from collections.abc import Iterator

import pytest

from simdx.egress import admit
from simdx.simulators import Simulator, get_simulator, identity_of
from simdx.simulators.base import Capabilities, Request, ask, ask_all
from simdx.simulators.openai import Endpoints
from simdx.simulators.scripted import ScriptedSimulator
from tests.simulators.faults import FaultyServer
from tests.source import classes_with

REAL = {"smollm2": {"slots": 4, "context": 1024}, "hf:smollm2": {"batch": 3}}
QUICK = ("scripted", "a server", "several")
KINDS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in REAL)]
ONE_OF_EACH = {
    "scripted": "ScriptedSimulator", "a server": "OpenAISimulator", "several": "Endpoints",
    "smollm2": "LlamaCppSimulator", "hf:smollm2": "TransformersSimulator",
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def simulator(request: pytest.FixtureRequest) -> Iterator[Simulator]:
    with FaultyServer() as server:
        address = f"openai:m@{server.url}"
        if request.param == "several":
            made: Simulator = Endpoints("m", [ScriptedSimulator(), ScriptedSimulator()])
        elif request.param == "a server":
            made = get_simulator(address)
            assert made.id == identity_of(address)
        else:
            made = get_simulator(request.param, **REAL.get(request.param, {}))
            assert made.id == identity_of(request.param)
        assert type(made).__name__ == ONE_OF_EACH[request.param]
        yield made
        made.close()


def requests(count: int, **more: object) -> list[Request]:
    return [Request(f"Say a few words about number {i}.", max_tokens=6, seed=i, **more) for i in range(count)]


def test_the_contract_knows_every_simulator() -> None:
    assert set(ONE_OF_EACH.values()) == classes_with("complete")


def test_it_says_what_it_is(simulator: Simulator) -> None:
    assert isinstance(simulator, Simulator)
    assert simulator.id
    assert simulator.concurrency >= 1
    assert isinstance(simulator.lockstep, bool)
    assert simulator.remote is False
    assert admit(simulator, False) is simulator
    found = simulator.capabilities
    assert isinstance(found, Capabilities)
    assert simulator.capabilities == found
    assert found.describe().startswith("has ")


def test_every_request_has_one_answer_in_its_place(simulator: Simulator) -> None:
    count = 2 * simulator.concurrency + 1
    answers = list(simulator.complete(iter(requests(min(count, 9)))))
    assert sorted(position for position, _ in answers) == list(range(min(count, 9)))
    for _, answer in answers:
        assert answer.ok, answer.error
        assert answer.text
        assert min(answer.prompt_tokens, answer.completion_tokens) > 0
    assert list(simulator.complete([])) == []


def test_what_is_asked_may_depend_on_what_was_answered(simulator: Simulator) -> None:
    first, second = requests(2)
    answered: list[int] = []

    def asked() -> Iterator[Request | None]:
        yield first
        while not answered:
            yield None
        yield second

    for position, answer in simulator.complete(asked()):
        assert answer.ok, answer.error
        answered.append(position)
    assert answered == [0, 1]


def test_a_seed_repeats_its_text_where_seeds_are_had(simulator: Simulator) -> None:
    once, again = (ask_all(simulator, requests(3, temperature=0.7)) for _ in range(2))
    if simulator.capabilities.seeds:
        assert [a.text for a in once] == [a.text for a in again]
        assert len({a.text for a in once}) > 1


def test_what_it_claims_it_does(simulator: Simulator) -> None:
    can = simulator.capabilities
    answer = ask(simulator, Request("Yes or no?", max_tokens=3, logprobs=2, temperature=0.0, seed=1))
    if can.logprobs:
        assert all(len(token.top) == 2 for token in answer.logprobs)
        assert all(value <= 0 for token in answer.logprobs for _, value in token.top)
    else:
        assert not answer.logprobs
    if can.grammars:
        assert ask(simulator, Request("x", grammar='root ::= "zqx"', max_tokens=8, seed=1)).text == "zqx"


def test_it_sends_nothing_elsewhere(simulator: Simulator, elsewhere_is_nowhere: None) -> None:
    assert ask(simulator, requests(1)[0]).ok
