"""Hugging Face transformers as a simulator: named weights, a local folder, a hub name, or a GGUF file.

For models llama.cpp cannot read and for machines with a GPU. Requests that share their sampling settings
are generated together in padded batches. A batch has one random state, so a text is reproducible only
together with its batch. Grammars are not obeyed, and a request with one fails.
"""

import itertools
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.models.hub import hub, may_ask
from simdx.simulators.base import (
    Capabilities,
    Completion,
    Request,
    TokenLogprobs,
    failed,
    of_like_length,
    probe,
)

_ALIKE = attrgetter("temperature", "top_p", "max_tokens", "stop", "logprobs", "grammar")
BATCH = 8
PADDED_CHARACTERS = 600_000  # of prompts in one batch, some 150,000 tokens
BATCH_ON_GPU = 192  # decoding reads the weights once per token whatever the batch: a GPU wants it large


class TransformersSimulator:
    """A causal language model. `name` may be that of known weights, a folder, a hub name, or a GGUF file.

    `id` stands for the simulator where it was found under a name that hides which weights it runs.
    """

    remote = False
    lockstep = True

    def __init__(
        self,
        name: str,
        *,
        id: str | None = None,
        batch: int | None = None,
        device: str | None = None,
        allow_remote: bool = False,
    ) -> None:
        if batch is not None and batch < 1:
            raise BadInput("a batch holds at least one request")
        self.id = id or f"hf:{name}"
        self._torch, self._tokenizer, self._model = _load(name, device, allow_remote)
        self.concurrency = batch or (BATCH_ON_GPU if self._model.device.type == "cuda" else BATCH)

    @cached_property
    def capabilities(self) -> Capabilities:
        return probe(lambda request: self._batch([request])[0])

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        source, position = iter(requests), 0
        while True:
            # What can be asked right now: a batch does not wait for answers it has not given yet.
            ready = itertools.takewhile(lambda request: request is not None, source)
            taken: list[Any] = list(itertools.islice(ready, self.concurrency))
            if not taken:
                return
            for i, completion in sorted(self._grouped(taken).items()):
                yield position + i, completion
            position += len(taken)

    def close(self) -> None:
        self._model = None

    @property
    def model_parts(self) -> tuple[Any, Any, Any]:
        """torch, the tokenizer and the model: what scoring a text needs of them."""
        return self._torch, self._tokenizer, self._model

    def rendered_prompt(self, prompt: str) -> str:
        """The prompt as the model reads it, up to where its own text begins."""
        return self._rendered(Request(prompt))

    def _grouped(self, requests: list[Request]) -> dict[int, Completion]:
        """Requests with equal settings share a batch; seeds of a group are folded into one."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, r in enumerate(requests):
            groups.setdefault((*_ALIKE(r), str(dict(r.options))), []).append(i)
        answers: dict[int, Completion] = {}
        lengths = [len(r.prompt) for r in requests]
        for members in groups.values():
            for together in of_like_length(members, lengths, PADDED_CHARACTERS):
                answers.update(zip(together, self._batch([requests[i] for i in together]), strict=True))
        return answers

    def _batch(self, requests: list[Request]) -> list[Completion]:
        started = time.monotonic()
        if requests[0].grammar is not None:
            return [failed("transformers obeys no grammar") for _ in requests]
        try:
            return self._generate(requests)
        except Exception as error:  # memory, a broken chat template: one batch, not the build
            seconds = time.monotonic() - started
            return [failed(f"transformers failed with {type(error).__name__}", seconds) for _ in requests]

    def _generate(self, requests: list[Request]) -> list[Completion]:
        torch, first, started = self._torch, requests[0], time.monotonic()
        inputs = self._tokenizer(
            [self._rendered(r) for r in requests], return_tensors="pt", padding=True, add_special_tokens=False
        ).to(self._model.device)
        if first.seed is not None:
            torch.manual_seed(sum((r.seed or 0) * (i + 1) for i, r in enumerate(requests)) % 2**31)
        sampling: dict[str, Any] = {"do_sample": False}
        if first.temperature > 0:
            sampling = {"do_sample": True, "temperature": first.temperature, "top_p": first.top_p, "top_k": 0}
        with torch.inference_mode():
            out = self._model.generate(
                **inputs,
                max_new_tokens=first.max_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                return_dict_in_generate=True,
                output_logits=bool(first.logprobs),
                **sampling,
            )
        width = inputs["input_ids"].shape[1]
        share = (time.monotonic() - started) / len(requests)  # so that the shares of a batch add up
        return [self._completion(r, i, inputs, out, width, share) for i, r in enumerate(requests)]

    @property
    def _ends(self) -> list[int]:
        value = self._model.generation_config.eos_token_id
        return [] if value is None else np.ravel(value).tolist()

    def _completion(
        self, request: Request, row: int, inputs: Any, out: Any, width: int, seconds: float
    ) -> Completion:
        tokens = out.sequences[row, width:].tolist()
        ends = {*self._ends, self._tokenizer.pad_token_id}
        length = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        text = request.opening + self._tokenizer.decode(tokens[:length], skip_special_tokens=True)
        stopped = length < len(tokens)
        placed = tokens[: max(length, 1)]  # a model that ends at once still weighed what could stand there
        for stop in request.stop:
            before, found, _ = text.partition(stop)
            if found:
                text, stopped = before, True
        return Completion(
            text=text,
            finish_reason="stop" if stopped else "length",
            prompt_tokens=int(inputs["attention_mask"][row].sum()),
            completion_tokens=length,
            seconds=seconds,
            logprobs=self._logprobs(request, out, row, placed) if request.logprobs else None,
        )

    def _logprobs(self, request: Request, out: Any, row: int, tokens: list[int]) -> tuple[TokenLogprobs, ...]:
        found = []
        for logits, token in zip(out.logits, tokens, strict=False):
            log = self._torch.log_softmax(logits[row].float(), dim=-1)
            top = log.topk(request.logprobs)
            pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
            alternatives = tuple((self._tokenizer.decode([i]), float(v)) for i, v in pairs)
            found.append(TokenLogprobs(self._tokenizer.decode([token]), float(log[token]), alternatives))
        return tuple(found)

    def _rendered(self, request: Request) -> str:
        messages = request.messages
        if self._tokenizer.chat_template is None:
            prompt = "\n\n".join(m["content"] for m in messages) + "\n\n"
        else:
            prompt = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return prompt + request.opening


def _load(name: str, device: str | None, allow_remote: bool) -> tuple[Any, Any, Any]:
    path, source, gguf = Path(name), name, {}
    if name.endswith(".gguf"):
        if not path.is_file():
            raise BadInput(f"no model file at '{path}'")
        source, gguf = str(path.parent), {"gguf_file": path.name}
    here = bool(gguf) or path.is_dir()
    asking = not here and may_ask(name, allow_remote)
    # A model is weights: code beside them is not run.
    options: dict[str, Any] = {"local_files_only": not asking, "trust_remote_code": False, **gguf}
    with hub(allowed=asking):
        try:
            import torch
            import transformers
        except ImportError:
            raise MissingExtra("the transformers simulator", "transformers") from None
        chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
        transformers.utils.logging.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, padding_side="left", **options)
            # Half precision on a GPU, where it is the fast path; on a CPU it is the slow one.
            dtype = torch.bfloat16 if chosen.startswith("cuda") else torch.float32
            model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **options)
        except Exception as error:  # the library raises a dozen types for a model it cannot get or read
            raise RunFailed(f"transformers could not load '{name}' ({type(error).__name__})") from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return torch, tokenizer, model.to(chosen).eval()
