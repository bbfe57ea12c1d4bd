"""The shared worker loop and the simulator without a model."""

import pytest

from simdx.errors import BadInput
from simdx.simulators import get_simulator, identity_of
from simdx.simulators.base import Completion, Request, Simulator, ask, ask_all
from simdx.simulators.scripted import ScriptedSimulator
from simdx.simulators.stream import stream


def test_a_worker_that_raises_is_a_failed_answer() -> None:
    def answer(request: Request) -> Completion:
        if request.prompt == "3":
            raise ZeroDivisionError("secret words")
        return Completion(request.prompt)

    got = dict(stream((Request(str(i)) for i in range(6)), answer, 2))
    assert len(got) == 6
    assert got[3].error == "the simulator failed with ZeroDivisionError"


def test_waiting_for_nothing_ends_the_stream() -> None:
    assert list(stream([None, Request("x")], lambda r: Completion("y"), 2)) == []


def test_scripted_texts_depend_on_content_alone() -> None:
    requests = [Request(f"The condition, which you must not name, is c{i}.", seed=i) for i in range(20)]
    forward = [c.text for c in ask_all(ScriptedSimulator(concurrency=1), requests)]
    backward = [c.text for c in ask_all(ScriptedSimulator(concurrency=7), requests[::-1])][::-1]
    assert forward == backward
    assert len(set(forward)) == 20


def test_scripted_answers_by_phrase() -> None:
    simulator = ScriptedSimulator({"tongue": ["a red tongue"]})
    assert ask(simulator, Request("about the tongue")).text == "a red tongue"


def test_scripted_faults_strike_their_share_and_pass() -> None:
    simulator = ScriptedSimulator(error=0.3)
    requests = [Request("x", seed=i) for i in range(300)]
    first = [c.ok for c in ask_all(simulator, requests)]
    # 300 draws at .3: the standard deviation of the share is .026; five of them.
    assert abs(first.count(False) / 300 - 0.3) < 5 * 0.026
    assert all(c.ok for c in ask_all(simulator, requests))


def test_names_and_refusals() -> None:
    assert isinstance(get_simulator("scripted:delay=0,error=.5"), Simulator)
    assert identity_of("smollm2").startswith("smollm2@b179c9523d0e6a0f")
    address = "openai:m@http://127.0.0.1:9/v1/"
    server = get_simulator(address)
    assert identity_of(address) == server.id == "openai:m@http://127.0.0.1:9/v1"
    server.close()
    for bad in ("no-such-model", "no/such/file.gguf", "scripted:error=2", "scripted:what=1", "wordllama"):
        with pytest.raises(BadInput):
            get_simulator(bad)


def test_a_file_that_is_no_model_is_refused(tmp_path: object) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="not a GGUF"):
        get_simulator(str(path))


def test_a_request_key_covers_model_prompt_and_parameters() -> None:
    base = Request("p", seed=1, options={"a": 1, "b": 2})
    assert base.key("m") == Request("p", seed=1, options={"b": 2, "a": 1}).key("m")
    others = [
        Request("q", seed=1, options=base.options),
        Request("p", seed=2, options=base.options),
        Request("p", seed=1, options=base.options, temperature=0.1),
        Request("p", seed=1, options=base.options, opening="o"),
        Request("p", seed=1),
    ]
    assert len({base.key("m"), base.key("n"), *(r.key("m") for r in others)}) == 7
