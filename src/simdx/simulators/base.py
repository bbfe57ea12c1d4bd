"""What a simulator is: requests in, texts with their usage out, one batch method.

Everything that shapes a text belongs to its `Request`, never to the simulator, so a request can be
hashed, stored, repeated and compared. A simulator pulls requests lazily and hands every answer over the
moment it exists, so whoever builds a bank can persist it at once. A request that fails is an answer too:
a `Completion` with `error` set. No single request can end a batch.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol, runtime_checkable

from simdx.errors import RunFailed
from simdx.types import content_hash


@dataclass(frozen=True, slots=True)
class Request:
    """One text to generate. `options` holds further sampler settings by the server's own names."""

    prompt: str
    system: str | None = None
    opening: str = ""  # words the text begins with: put in its mouth where a server can, else asked for
    temperature: float = 0.8
    top_p: float = 0.95
    max_tokens: int = 256
    seed: int | None = None
    stop: tuple[str, ...] = ()
    grammar: str | None = None  # GBNF
    logprobs: int = 0  # alternatives wanted per generated token; 0: none
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, str]]:
        """As a chat begins, without the opening."""
        told = [{"role": "system", "content": self.system}] if self.system is not None else []
        return [*told, {"role": "user", "content": self.prompt}]

    def key(self, model: str) -> str:
        """The content address of this request when asked of `model`."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["options"] = dict(sorted(self.options.items()))
        return content_hash("request", model, json.dumps(fields, sort_keys=True, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One generated token and the likeliest alternatives in its place, natural logarithms."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one request; with `error` set there is no text, and the error names no secret."""

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Capabilities:
    logprobs: bool
    grammars: bool
    seeds: bool
    system_prompts: bool

    def describe(self) -> str:
        able = {name.replace("_", " "): getattr(self, name) for name in self.__dataclass_fields__}
        found, missing = ([name for name, has in able.items() if has is wanted] for wanted in (True, False))
        said = "has " + ", ".join(found) if found else "has nothing beyond plain text"
        return said + (f"; lacks {', '.join(missing)}" if missing else "")


@runtime_checkable
class Simulator(Protocol):
    """`id` names the weights as exactly as is known: it is part of every request's content address."""

    id: str
    concurrency: int  # requests it works on at once
    remote: bool  # True where prompts leave this machine
    lockstep: bool  # True where a batch ends with its slowest text, so that a few more texts cost nothing

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, found by probing it once."""
        ...

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        """(position, answer) in the order answers come; one for every request that was pulled.

        `requests` is pulled from the caller's own thread, only as fast as there is room. A `None` in it
        means "nothing to ask before another answer has come"; it takes no position.
        """
        ...

    def close(self) -> None:
        """Release memory and connections. The simulator cannot be used afterwards."""
        ...


def failed(error: str, seconds: float = 0.0) -> Completion:
    return Completion(text="", finish_reason="error", seconds=seconds, error=error)


def of_like_length(
    rows: Iterable[int], lengths: Sequence[int], most: int, pad: int = 0
) -> Iterator[list[int]]:
    """Groups of positions of like length whose padded size stays below `most`, or one alone: a long text
    would make hundreds of short ones as long."""
    group: list[int] = []
    for i in sorted(rows, key=lambda i: lengths[i]):
        if group and (lengths[i] + pad) * (len(group) + 1) > most:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def ask(simulator: Simulator, request: Request) -> Completion:
    (_, completion), *_ = simulator.complete([request])
    return completion


def ask_all(simulator: Simulator, requests: Iterable[Request]) -> list[Completion]:
    """All answers, in the order of the requests."""
    answers = dict(simulator.complete(requests))
    return [answers[i] for i in range(len(answers))]


# --------------------------------------------------------------------------- what it can do

# Found by asking, since servers differ and their names do not tell.
_TINY = 8


def probe(answer: Callable[[Request], Completion]) -> Capabilities:
    """A handful of requests of a few tokens each; whatever fails or is ignored counts as lacking.

    A server that does not answer the plainest one is asked nothing further: each would cost a time limit.
    """
    bare = answer(Request("Say hello.", max_tokens=1, seed=1))
    if not bare.ok:
        return Capabilities(logprobs=False, grammars=False, seeds=False, system_prompts=False)
    weighed = answer(Request("Say yes or no.", max_tokens=1, logprobs=3, temperature=0.0, seed=1))
    # A word no model would say by itself, so that obedience cannot be chance.
    obeyed = answer(Request("Say hello.", max_tokens=_TINY, grammar='root ::= "zqx"', seed=1))

    def draw(seed: int) -> str:
        asked = Request("Name any animal.", max_tokens=_TINY, temperature=1.5, top_p=1.0, seed=seed)
        return answer(asked).text

    first = draw(11)
    seeds = bool(first) and first == draw(11) and any(draw(seed) != first for seed in (12, 13, 14))
    # Some templates put a default system prompt in: one that is clearly longer must still count.
    led = answer(Request("Say hello.", system="You are terse and polite. " * 12, max_tokens=1, seed=1))
    return Capabilities(
        logprobs=weighed.ok and bool(weighed.logprobs) and len(weighed.logprobs[0].top) > 1,  # type: ignore[index]
        grammars=obeyed.ok and obeyed.text.strip() == "zqx",
        seeds=seeds,
        system_prompts=led.ok and led.prompt_tokens > bare.prompt_tokens,
    )


# --------------------------------------------------------------------------- keeping a server busy
#
# Requests are pulled, and answers yielded, in the caller's thread; only the blocking call to the server
# runs in workers. So a caller may decide what to ask next from the answers it has already seen, without
# locks of its own.

AHEAD = 1  # requests that wait ready, so that no worker idles while the caller deals with an answer
_END = object()


def stream(
    requests: Iterable[Request | None], answer: Callable[[Request], Completion], concurrency: int
) -> Iterator[tuple[int, Completion]]:
    """Answer `requests` with at most `concurrency` calls of `answer` at a time, each in a worker."""
    most = concurrency + AHEAD if concurrency > 1 else 1
    todo: SimpleQueue[tuple[int, Request] | None] = SimpleQueue()
    done: SimpleQueue[tuple[int, Completion]] = SimpleQueue()
    workers: list[threading.Thread] = []

    def work() -> None:
        while (item := todo.get()) is not None:
            position, request = item
            try:
                completion = answer(request)
            except Exception as error:  # a simulator's own bug must not swallow the position
                completion = failed(f"the simulator failed with {type(error).__name__}")
            done.put((position, completion))

    def start_worker() -> None:
        # Daemons: a worker stuck in a dead server must not keep the process alive.
        worker = threading.Thread(target=work, daemon=True, name="simdx-simulator")
        try:
            worker.start()
            workers.append(worker)
        except RuntimeError:  # no memory for another thread: those there are do the work
            if not workers:
                raise RunFailed("out of memory: no thread can be started to ask the simulator") from None

    source = iter(requests)
    position = under_way = 0
    more = True
    try:
        while True:
            while more and under_way < most:
                request: Any = next(source, _END)
                if request is _END or request is None:
                    # None: wait for an answer; with none under way there is nothing left to wait for.
                    more = request is None and under_way > 0
                    break
                todo.put((position, request))
                position += 1
                under_way += 1
                if len(workers) < min(under_way, concurrency):
                    start_worker()
            if not under_way:
                return
            yield done.get()
            under_way -= 1
    finally:
        for _ in workers:
            todo.put(None)
