"""The shared worker loop, the simulator without a model, names, and what transformers generated."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from simdx.errors import BadInput
from simdx.simulators import get_simulator, identity_of
from simdx.simulators.base import Completion, Request, Simulator, ask, ask_all, stream
from simdx.simulators.scripted import ScriptedSimulator


def test_a_worker_that_raises_is_a_failed_answer_and_waiting_for_nothing_ends() -> None:
    def answer(request: Request) -> Completion:
        if request.prompt == "3":
            raise ZeroDivisionError("secret words")
        return Completion(request.prompt)

    got = dict(stream((Request(str(i)) for i in range(6)), answer, 2))
    assert len(got) == 6
    assert got[3].error == "the simulator failed with ZeroDivisionError"
    assert list(stream([None, Request("x")], answer, 2)) == []


def test_scripted_texts_depend_on_content_alone_and_faults_strike_their_share() -> None:
    requests = [Request(f"The condition, which you must not name, is c{i}.", seed=i) for i in range(20)]
    forward = [c.text for c in ask_all(ScriptedSimulator(concurrency=1), requests)]
    backward = [c.text for c in ask_all(ScriptedSimulator(concurrency=7), requests[::-1])][::-1]
    assert forward == backward
    assert len(set(forward)) == 20
    told = ScriptedSimulator({"tongue": ["a red tongue"]})
    assert ask(told, Request("about the tongue")).text == "a red tongue"
    failing, requests = ScriptedSimulator(error=0.3), [Request("x", seed=i) for i in range(300)]
    first = [c.ok for c in ask_all(failing, requests)]
    # 300 draws at .3: the standard deviation of the share is .026; five of them.
    assert abs(first.count(False) / 300 - 0.3) < 5 * 0.026
    assert all(c.ok for c in ask_all(failing, requests))


def test_names_and_refusals(tmp_path: Path) -> None:
    assert isinstance(get_simulator("scripted:delay=0,error=.5"), Simulator)
    assert identity_of("smollm2").startswith("smollm2@b179c9523d0e6a0f")
    address = "openai:m@http://127.0.0.1:9/v1/"
    server = get_simulator(address)
    assert identity_of(address) == server.id == "openai:m@http://127.0.0.1:9/v1"
    server.close()
    (tmp_path / "x.gguf").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="not a GGUF"):
        get_simulator(str(tmp_path / "x.gguf"))
    for bad in ("no-such-model", "no/such/file.gguf", "scripted:error=2", "scripted:what=1", "wordllama"):
        with pytest.raises(BadInput):
            get_simulator(bad)


def test_a_request_key_covers_model_prompt_and_parameters() -> None:
    base = {"prompt": "p", "seed": 1, "options": {"a": 1, "b": 2}}
    key = Request(**base).key("m")
    assert key == Request(**{**base, "options": {"b": 2, "a": 1}}).key("m")
    changes = ({"prompt": "q"}, {"seed": 2}, {"temperature": 0.1}, {"opening": "o"}, {"options": {}})
    others = {Request(**{**base, **change}).key("m") for change in changes}
    assert len({key, Request(**base).key("n"), *others}) == 7


def test_a_model_that_ends_at_once_still_gives_its_log_probabilities() -> None:
    """Asked for a digit, a model may hold the end likeliest; what it gave the digits is the answer."""
    torch = pytest.importorskip("torch")
    from simdx.simulators.transformers import TransformersSimulator

    simulator = TransformersSimulator.__new__(TransformersSimulator)
    end, vocabulary = 2, ("zero", "one", "<end>")
    simulator._torch = torch
    simulator._tokenizer = SimpleNamespace(
        pad_token_id=end, decode=lambda tokens, **_: "".join(vocabulary[token] for token in tokens)
    )
    simulator._model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=end))
    out = SimpleNamespace(sequences=torch.tensor([[0, end]]), logits=[torch.tensor([[1.0, 0.0, 2.0]])])
    request = Request("Which digit?", opening="4", max_tokens=1, logprobs=3)
    inputs = {"attention_mask": torch.ones(1, 1)}
    answer = simulator._completion(request, 0, inputs, out, width=1, seconds=0.0)
    assert (answer.text, answer.completion_tokens) == ("4", 0)
    assert [token for token, _ in answer.logprobs[0].top] == ["<end>", "zero", "one"]
