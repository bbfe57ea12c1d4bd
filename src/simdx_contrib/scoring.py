"""How probable a model finds a text: log p(text | prompt), the reverse of simulating.

The same names as for simulators. Nothing is generated but, with llama.cpp, what is already known:

hf:NAME        one forward pass; all prompts are read once, their keys and values shared by every text
llama.cpp      its server reports log-probabilities of generated tokens alone, so a grammar of the text's own
               tokens leaves it one thing to write; the probabilities are those before the grammar
openai:…       a server that returns log-probabilities of a prompt: vLLM's `prompt_logprobs` on chats, else
               `echo` with `logprobs` on plain completions. One that does neither is refused
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
from pydantic import AliasPath, BaseModel, Field, ValidationError

from simdx.errors import BadInput, RunFailed
from simdx.models import REGISTRY
from simdx.simulators.base import Request, Simulator, of_like_length
from simdx.simulators.llamacpp import LlamaCppSimulator
from simdx.simulators.openai import (
    CONCURRENCY,
    UNREACHABLE,
    Lasting,
    OpenAIServer,
    Passing,
    RetryPolicy,
    call,
    nobody_at,
)
from simdx.types import Float

PADDED_TOKENS = {"cpu": 2048, "cuda": 65536}  # of texts in one pass
LOGIT_ROWS = {"cpu": 256, "cuda": 8192}  # positions whose whole vocabulary is held at once


class Scorer(Protocol):
    """`id` names the weights; `remote` says that texts leave this machine, `quick` that a GPU scores them."""

    id: str
    remote: bool
    quick: bool

    def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
        """(position, log-probabilities under every prompt, tokens) of each text, as they are known."""
        ...


def scorer_of(simulator: Simulator, *, allow_remote: bool = False) -> Scorer:
    """The same weights as a density."""
    if isinstance(simulator, LlamaCppSimulator):
        return LlamaCppScorer(simulator)
    if isinstance(simulator, OpenAIServer):
        return ServerScorer.from_name(simulator.id, allow_remote=allow_remote)
    if hasattr(simulator, "model_parts"):
        return TransformersScorer(simulator)
    raise BadInput(f"'{simulator.id[:80]}' cannot say how probable a text is: name weights or a server")


# --------------------------------------------------------------------------- transformers


class TransformersScorer:
    """Batches of (text, prompt) pairs of like length over one cache of all prompts."""

    remote = False

    def __init__(self, simulator: Any) -> None:
        self.id = simulator.id
        self._torch, self._tokenizer, self._model = simulator.model_parts
        self._rendered = simulator.rendered_prompt
        kind = self._model.device.type
        self.quick = kind == "cuda"
        self._padded = PADDED_TOKENS.get(kind, PADDED_TOKENS["cpu"])
        self._rows = LOGIT_ROWS.get(kind, LOGIT_ROWS["cpu"])

    def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
        tokens = [self._ids(text) or [self._tokenizer.pad_token_id] for text in texts]
        found = np.zeros((len(texts), len(prompts)))
        most = self._padded // max(len(prompts), 1)
        with self._torch.inference_mode():
            prefix = self._read_prompts([self._ids(self._rendered(prompt)) for prompt in prompts])
            for rows in of_like_length(range(len(tokens)), [len(t) for t in tokens], most, 1):
                # A group of texts goes under every prompt in as few passes as fit.
                pairs = [(i, j) for i in rows for j in range(len(prompts))]
                width = max(len(tokens[i]) for i in rows) + 1
                step = max(1, self._padded // width)
                for at in range(0, len(pairs), step):
                    part = pairs[at : at + step]
                    values = self._pass(prefix, [tokens[i] for i, _ in part], [j for _, j in part])
                    for (i, j), value in zip(part, values, strict=True):
                        found[i, j] = value
                yield from ((i, found[i], len(tokens[i])) for i in rows)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _read_prompts(self, prompts: list[list[int]]) -> _Prefix:
        """Keys and values of all prompts but their last tokens, padded on the left."""
        torch, device = self._torch, self._model.device
        width = max(len(p) for p in prompts) - 1
        ids = torch.full((len(prompts), width), self._tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) + 1 :] = torch.tensor(prompt[:-1])
            mask[row, width - len(prompt) + 1 :] = 1
        ids, mask = ids.to(device), mask.to(device)
        place = (mask.cumsum(1) - 1).clamp(min=0)
        out = self._model.base_model(ids, attention_mask=mask, position_ids=place, use_cache=True)
        kept = out.past_key_values
        last = torch.tensor([p[-1] for p in prompts], device=device)
        return _Prefix([(layer.keys, layer.values) for layer in kept.layers], mask, last, type(kept))

    def _pass(self, prefix: _Prefix, texts: list[list[int]], prompts: list[int]) -> list[float]:
        torch, device = self._torch, self._model.device
        chosen = torch.tensor(prompts, device=device)
        width = max(map(len, texts))
        ids = torch.full((len(texts), width + 1), self._tokenizer.pad_token_id)
        inside = torch.zeros((len(texts), width + 1), dtype=torch.bool)
        for row, text in enumerate(texts):
            ids[row, 1 : len(text) + 1] = torch.tensor(text)
            inside[row, : len(text)] = True
        ids, inside = ids.to(device), inside.to(device)
        ids[:, 0] = prefix.last[chosen]
        cache = prefix.cache()
        for layer, (keys, values) in enumerate(prefix.layers):
            cache.update(keys[chosen], values[chosen], layer)
        before = prefix.mask[chosen]
        mask = torch.cat([before, torch.ones_like(ids)], dim=1)
        place = before.sum(1, keepdim=True) + torch.arange(width + 1, device=device)[None]
        hidden = self._model.base_model(
            ids, attention_mask=mask, position_ids=place, past_key_values=cache, use_cache=True
        ).last_hidden_state
        target = torch.roll(ids, -1, dims=1)
        # Only positions that a token of a text follows meet the vocabulary, some thousands at a time.
        flat, wanted = hidden[inside], target[inside]
        parts = []
        for h, t in zip(flat.split(self._rows), wanted.split(self._rows), strict=True):
            logits = self._model.lm_head(h).float()
            parts.append(logits.gather(1, t[:, None])[:, 0] - logits.logsumexp(1))
        by_token = torch.zeros(inside.shape, device=device, dtype=torch.float32)
        by_token[inside] = torch.cat(parts)
        return [float(v) for v in by_token.sum(1).tolist()]


class _Prefix(NamedTuple):
    layers: list[tuple[Any, Any]]
    mask: Any  # (p, w)
    last: Any  # (p,) the last token of each prompt, which the passes begin with
    cache: Any  # makes an empty one of the model's kind


# --------------------------------------------------------------------------- llama.cpp


class LlamaCppScorer:
    """The embedded llama.cpp, made to write the text's own tokens."""

    remote = False
    quick = False

    def __init__(self, simulator: LlamaCppSimulator) -> None:
        self.id = simulator.id
        self._simulator = simulator
        name = self.id.split("@")[0]
        # It writes token by token what transformers reads in one pass.
        there = name in REGISTRY and all(find_spec(package) for package in ("torch", "transformers"))
        self.faster = f"hf:{name}" if there else None

    def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
        bodies = ({"messages": Request(prompt).messages} for prompt in prompts)
        rendered = (self._post("/apply-template", body)["prompt"] for body in bodies)
        heads = [self._tokens(prompt, special=True) for prompt in rendered]
        with ThreadPoolExecutor(self._simulator.concurrency) as pool:
            for i, text in enumerate(texts):
                tokens = self._tokens(text, special=False)
                row = list(pool.map(lambda head, t=tokens: self._one(head, t), heads))
                yield i, np.array(row), len(tokens)

    def _one(self, prompt: list[int], tokens: list[int]) -> float:
        if not tokens:
            return 0.0
        body = {
            "prompt": prompt, "max_tokens": len(tokens), "temperature": 0.0, "logprobs": 1,
            "cache_prompt": True, "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in tokens),
        }  # fmt: skip
        reply = self._simulator.complete_raw(body)
        try:
            written = reply["choices"][0]["logprobs"]["content"]
            same = [entry["id"] for entry in written] == tokens
            total = math.fsum(float(entry["logprob"]) for entry in written)
        except (KeyError, IndexError, TypeError, ValueError):
            same, total = False, math.nan
        if same and math.isfinite(total):
            return total
        raise RunFailed("llama.cpp did not score a text: it may exceed the context, or llama.cpp be too old")

    def _tokens(self, text: str, *, special: bool) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": special}
        return [int(token) for token in self._post("/tokenize", body)["tokens"]]

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """To the server inside this process; it listens on loopback alone."""
        address = urlsplit(self._simulator.address)
        line = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=60)
        try:
            line.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = json.loads(line.getresponse().read())
        except (OSError, ValueError) as error:
            raise RunFailed(f"llama.cpp did not answer ({type(error).__name__})") from None
        finally:
            line.close()
        if not isinstance(answer, dict) or "error" in answer:
            raise RunFailed("llama.cpp refused a text to be scored")
        return answer


# --------------------------------------------------------------------------- servers


_ECHOED = ("choices", 0, "logprobs")


class _PromptToken(BaseModel):
    logprob: float


class _ChatReply(BaseModel):
    """vLLM: for each token of the prompt its own log-probability first, null for the very first token."""

    prompt_logprobs: list[dict[str, _PromptToken] | None] | None = None


class _EchoReply(BaseModel):
    values: list[float | None] = Field(validation_alias=AliasPath(*_ECHOED, "token_logprobs"))
    places: list[int] = Field(validation_alias=AliasPath(*_ECHOED, "text_offset"))


_PROBE = ("Write a short text.", "The harbour was quiet that morning.")  # no case: it is sent before any


class ServerScorer(OpenAIServer):
    """An OpenAI-compatible server that says how probable it finds a prompt; asked once which way it does."""

    quick = False  # it may be, but every request is somebody's time

    def __init__(self, model: str, base_url: str, **server: Any) -> None:
        super().__init__(model, base_url, **server)
        self._once_more = RetryPolicy(attempts=2)
        self._way = next((way for way in (self._by_chat, self._by_echo) if self._can(way)), None)
        if self._way is None:
            raise BadInput(
                f"'{self.id[:120]}' returns no log-probabilities of a prompt: take a server that does, "
                "such as vLLM, or weights of your own (--simulator hf:NAME or a named model)"
            )

    def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
        way = self._way
        assert way is not None

        def one(pair: tuple[str, str]) -> tuple[float, int]:
            try:
                return self._retry.run(lambda: way(*pair))
            except (Passing, Lasting) as problem:
                raise RunFailed(f"a text could not be scored: {problem}") from None

        with ThreadPoolExecutor(CONCURRENCY) as pool:
            replies = pool.map(one, ((prompt, text) for text in texts for prompt in prompts))
            for i, _ in enumerate(texts):
                row = [next(replies) for _ in prompts]
                yield i, np.array([value for value, _ in row]), row[0][1]

    def _can(self, way: Any) -> bool:
        try:
            value, tokens = self._once_more.run(lambda: way(*_PROBE))
        except (Passing, Lasting) as problem:
            if str(problem) == UNREACHABLE:
                raise nobody_at(self.id) from None
            return False
        return tokens > 1 and value < 0

    def _by_chat(self, prompt: str, text: str) -> tuple[float, int]:
        """The chat with the text as the model's own turn, less the chat before it."""
        head = self._chat(Request(prompt).messages, {"add_generation_prompt": True})
        whole = self._chat(
            [*Request(prompt).messages, {"role": "assistant", "content": text}],
            {"add_generation_prompt": False, "continue_final_message": True},
        )
        return _total(whole[len(head) :])

    def _chat(self, messages: list[dict[str, str]], extra: dict[str, Any]) -> list[float | None]:
        asked = {"model": self.model, "messages": messages, "max_tokens": 1, "temperature": 0.0}
        send = self._client.chat.completions.with_raw_response.create
        raw = call(send, **asked, extra_body={"prompt_logprobs": 0, **extra})
        try:
            found = _ChatReply.model_validate_json(raw).prompt_logprobs
        except ValidationError:
            found = None
        if not found:
            raise Lasting("the server gives no log-probabilities of a prompt")
        return [None if not place else next(iter(place.values())).logprob for place in found]

    def _by_echo(self, prompt: str, text: str) -> tuple[float, int]:
        """A plain completion: the server repeats what it was sent, with log-probabilities."""
        head = f"{prompt}\n\n"
        whole = head + text
        asked = {"model": self.model, "prompt": whole, "max_tokens": 1, "temperature": 0.0}
        raw = call(self._client.completions.with_raw_response.create, **asked, echo=True, logprobs=0)
        try:
            found = _EchoReply.model_validate_json(raw)
            pairs = list(zip(found.places, found.values, strict=True))
        except ValueError:
            raise Lasting("the server gives no log-probabilities of a prompt") from None
        if not pairs or pairs[0][0] != 0:  # the prompt is not among them
            raise Lasting("the server does not repeat the prompt")
        return _total([value for at, value in pairs if len(head) <= at < len(whole)])


def _total(own: list[float | None]) -> tuple[float, int]:
    """Of a text's tokens, and their number; a log-probability is not above zero, rounding aside, nor NaN."""
    found = [value for value in own if value is not None]
    if not own or len(found) < len(own):
        raise Lasting("the server's log-probabilities do not cover the text")
    if not all(value <= 0.01 for value in found):
        raise Lasting("the server's log-probabilities are none")
    return math.fsum(max(value, -1e4) for value in found), len(own)
