"""How probable a text is: through transformers, llama.cpp and servers; and the exact posterior is exact."""

import json
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdx.errors import BadInput, NotAllowed, RunFailed
from simdx.methods.fitted import Settings
from simdx.simulators import get_simulator
from simdx.types import Float
from simdx_contrib.likelihood import open_scorer
from simdx_contrib.scoring import Scorer, ServerScorer, scorer_of
from tests.loopback import Handler, running

WORDS = [f"w{i}" for i in range(24)]


def scored(scorer: Scorer, prompts: Sequence[str], texts: Sequence[str]) -> tuple[Float, list[int]]:
    """(n, p) log-probabilities in the order of the texts, and the tokens of each."""
    found = sorted(scorer.score(prompts, texts), key=lambda one: one[0])
    return np.array([row for _, row, _ in found]), [tokens for _, _, tokens in found]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A language model of 24 words with random weights, large enough that a prompt matters."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<pad>", *WORDS])}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.Qwen2Config(
        vocab_size=25, num_key_value_heads=1, initializer_range=0.25, max_position_embeddings=64, **sizes
    )
    model = transformers.Qwen2ForCausalLM(config).eval()
    return SimpleNamespace(id="tiny", model_parts=(torch, tokenizer, model), rendered_prompt=lambda p: p)


PROMPTS = (
    "w1 w2 w3", "w4 w4", "w5 w6", "w7 w1 w1 w9", "w8 w1", "w2 w2", "w10 w11", "w12 w1", "w13 w3 w3", "w14 w2",
    "w15 w15",
)  # fmt: skip


def test_cached_and_batched_is_the_plain_forward_pass(tiny: Any) -> None:
    torch, tokenizer, model = tiny.model_parts
    texts = ["w1", "w2 w3 w4 w5 w6 w7", "w9 w9 w9", " ".join(WORDS)]
    found, tokens = scored(scorer_of(tiny), PROMPTS, texts)
    assert tokens == [1, 6, 3, 24]
    for i, text in enumerate(texts):
        for j, prompt in enumerate(PROMPTS):
            head, tail = (tokenizer(part)["input_ids"] for part in (prompt, text))
            with torch.inference_mode():
                log = torch.log_softmax(model(torch.tensor([head + tail])).logits[0], -1)
            plain = sum(log[len(head) - 1 + k, token].item() for k, token in enumerate(tail))
            assert found[i, j] == pytest.approx(plain, abs=1e-3)


# --------------------------------------------------------------------------- servers


class Server(ThreadingHTTPServer):
    """Answers as vLLM (`chat`), as a plain completion server with echo (`echo`), or as one without either."""

    def __init__(self, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kind, self.bodies = kind, list[dict[str, Any]]()
        self.name = f"openai:any@http://127.0.0.1:{self.server_port}/v1"

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        words = " ".join(m["content"] for m in body["messages"]).split()
        reply: dict[str, Any] = {"choices": [{"message": {"content": "x"}, "index": 0}], "usage": {}}
        if self.kind == "chat" and body.get("prompt_logprobs") == 0:
            own = [{str(len(w)): {"logprob": -0.5 * len(w), "rank": 1, "decoded_token": w}} for w in words]
            reply["prompt_logprobs"] = [None, *own]  # the template's own first token has none
        return reply

    def echo(self, body: dict[str, Any]) -> dict[str, Any]:
        # Without echo a server reports the token it generated, which must not pass for the prompt.
        offsets, values = [len(body["prompt"])], [-0.1]
        if self.kind == "echo" and body["echo"]:
            words = body["prompt"].split(" ")
            starts = np.cumsum([0, *(len(w) + 1 for w in words[:-1])]).tolist()
            offsets, values = [*starts, *offsets], [None, *(-0.5 * len(w) for w in words[1:]), *values]
        logprobs = {"token_logprobs": values, "text_offset": offsets, "tokens": []}
        return {"choices": [{"text": "x", "index": 0, "logprobs": logprobs}]}


class _Handler(Handler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        reply = self.server.chat if self.path.endswith("/chat/completions") else self.server.echo
        self.answer(200, "application/json", json.dumps(reply(body)).encode())


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(request.param)
    with running(made):
        yield made


@pytest.mark.parametrize("server", ["chat"], indirect=True)
def test_a_server_with_prompt_log_probabilities_scores(server: Server) -> None:
    scorer = ServerScorer.from_name(server.name, timeout=5)
    found, tokens = scored(scorer, ["one two", "three"], ["aa bbbb", "c"])
    np.testing.assert_allclose(found, [[-3.0, -3.0], [-0.5, -0.5]])
    assert tokens == [2, 1]
    assert not scorer.remote


@pytest.mark.parametrize("server", ["echo"], indirect=True)
def test_a_server_that_echoes_scores(server: Server) -> None:
    found, _ = scored(ServerScorer.from_name(server.name, timeout=5), ["one "], ["aa bbbb"])
    # the first word is one token with the end of the prompt here, so only the second is the text's own
    np.testing.assert_allclose(found, [[-2.0]])


@pytest.mark.parametrize("server", ["neither"], indirect=True)
def test_a_server_without_them_is_refused_before_it_sees_a_case(server: Server) -> None:
    with pytest.raises(BadInput, match="no log-probabilities of a prompt"):
        open_scorer(Settings(method="likelihood", simulator=server.name))
    assert all("harbour" in json.dumps(b) or "short text" in json.dumps(b) for b in server.bodies)


def test_another_machine_needs_permission() -> None:
    with pytest.raises(NotAllowed, match="--allow-remote"):
        open_scorer(Settings(method="likelihood", simulator="openai:m@http://192.0.2.7:9/v1"))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot say how probable"):
        open_scorer(Settings(method="likelihood", simulator="scripted"))


@pytest.mark.slow
def test_llama_cpp_scores_as_transformers_does() -> None:
    """The same weights twice; llama.cpp also rounds activations, so the two differ by a few per cent."""
    pytest.importorskip("torch")
    texts = ["A sore, red tongue that “burns” — since May.", "A lip."]
    prompts = ["Write a short clinical note.", "Write what a patient says about the lip."]
    embedded = get_simulator("smollm2", slots=2, context=512, threads=1)
    by_llama, same = scored(scorer_of(embedded), prompts, texts)
    embedded.close()
    by_torch, tokens = scored(scorer_of(get_simulator("hf:smollm2")), prompts, texts)
    assert same == tokens
    np.testing.assert_allclose(by_llama, by_torch, rtol=0.04)


def test_a_server_that_is_not_there_is_said_to_be_away() -> None:
    """Not that it lacks log-probabilities."""
    with pytest.raises(RunFailed, match=r"no server answers at http://127\.0\.0\.1:9/v1"):
        ServerScorer.from_name("openai:m@http://127.0.0.1:9/v1", timeout=5)
