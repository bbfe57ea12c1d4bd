"""The embedded simulator: llama.cpp inside this process, any GGUF file, no network, no other program.

llama.cpp batches continuously over its slots. Where cores are few that is no faster than one text after
another, and the first text comes last (two ARM cores: 2.4 tokens a second with one slot and with eight, the
first text after 28 s or after 200), so there are no more slots than threads.
Three of its habits shape this file. It divides `n_ctx` over the slots, so the context is asked for per
slot. Its threads spin while they wait for each other, so that two threads on two cores somebody else is
using are ten times slower than one: polling is off, and it gets only the cores that are free when it
starts. Its log-probabilities under a grammar are those before the grammar masks anything; whoever wants
probabilities of the allowed answers renormalises over them.
"""

import os
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.simulators.base import Capabilities, Completion, Request, failed, probe, stream
from simdx.simulators.openai import ChatReply, parameters_of

SLOTS = 8  # texts generated side by side, at most
CONTEXT_PER_SLOT = 2048  # tokens: the longest prompt of a build and its text fit


class LlamaCppSimulator:
    """A GGUF model served in-process. `address` is its OpenAI-compatible endpoint on loopback."""

    remote = False
    lockstep = False

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        slots: int | None = None,
        context: int = CONTEXT_PER_SLOT,
        threads: int | None = None,
    ) -> None:
        path = Path(path)
        self.id = name or file_identity(path)
        threads = free_cores() if threads is None else threads
        slots = min(SLOTS, threads) if slots is None else slots
        if slots < 1 or context < 1:
            raise BadInput("a simulator needs at least one slot and one token of context")
        self.concurrency = slots
        self.context = context
        self._server = _start(path, slots, context, threads)

    @property
    def address(self) -> str:
        return f"{self._server.listening_address}/v1"

    @cached_property
    def capabilities(self) -> Capabilities:
        return probe(self._answer)

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self._answer, self.concurrency)

    def complete_raw(self, body: dict[str, Any]) -> Any:
        """A plain completion in llama.cpp's own terms."""
        return self._server.handle_completions(body)

    def close(self) -> None:
        self._server = None

    def _answer(self, request: Request) -> Completion:
        started = time.monotonic()
        try:
            reply = self._server.handle_chat_completions(_body(request))
        except Exception as error:
            refused = f"llama.cpp refused the request ({type(error).__name__})"
            return failed(refused, time.monotonic() - started)
        seconds = time.monotonic() - started
        if "error" in reply:
            return failed(f"llama.cpp: {_reason(reply['error'])}", seconds)
        return ChatReply.model_validate(reply).completion(request, seconds)


def file_identity(path: Path) -> str:
    """Name and size: they tell two quantisations of one model apart without hashing gigabytes."""
    if not path.is_file():
        raise BadInput(f"no model file at '{path}'")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise BadInput(f"'{path.name}' is not a GGUF model file")
    return f"gguf:{path.name}:{path.stat().st_size}"


def free_cores() -> int:
    """SIMDX_THREADS where it is set; else the cores this process may use less those already busy."""
    asked = os.environ.get("SIMDX_THREADS", "")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise BadInput(f"SIMDX_THREADS is '{asked}': give a whole number of threads")
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(cores, round(cores - busy)))


def _body(request: Request) -> dict[str, Any]:
    messages = request.messages
    if request.opening:  # llama.cpp continues an assistant message that comes last
        messages.append({"role": "assistant", "content": request.opening})
    body = {"messages": messages, **parameters_of(request), **dict(request.options)}
    return body if request.grammar is None else {**body, "grammar": request.grammar}


def _start(path: Path, slots: int, context: int, threads: int) -> Any:
    try:
        import xllamacpp
    except ImportError:
        raise MissingExtra("a model on this machine", "local") from None
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.verbosity = -1
    params.warmup = False
    params.cache_ram_mib = 256
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = threads
        cpu.poll = 0
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        raise RunFailed(
            f"llama.cpp could not load '{path.name}': the file may be damaged or too large for this machine"
        ) from error


def _reason(error: Any) -> str:
    """llama.cpp's own words name token counts and settings, never the prompt."""
    told = error if isinstance(error, dict) else {}
    if told.get("type") == "exceed_context_size_error":
        return (
            f"the prompt of {told.get('n_prompt_tokens')} tokens exceeds the context of {told.get('n_ctx')}"
        )
    return f"error {told['code']}" if told.get("code") else "error"
