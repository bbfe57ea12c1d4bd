"""Reading what transformers generated, without a model."""

from types import SimpleNamespace

import pytest

from simdx.simulators.base import Request
from simdx.simulators.transformers import TransformersSimulator


def test_a_model_that_ends_at_once_still_gives_its_log_probabilities() -> None:
    """Asked for a digit, a model may hold the end likeliest; what it gave the digits is the answer."""
    torch = pytest.importorskip("torch")
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
