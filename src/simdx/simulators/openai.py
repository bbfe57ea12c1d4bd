"""Any server that speaks the OpenAI protocol: vLLM, Ollama, llama.cpp's server, hosted services.

The `openai` package carries the bytes, through a client that `simdx.egress` makes; retrying, waiting and
judging replies happen here, because a build of hours needs them bounded, interruptible and told apart. A
reply is untrusted: it is parsed with pydantic, and nothing of it or of an exception's text goes into an error
message, since servers echo keys. The key comes from the environment (see `egress`) and is kept nowhere else.
"""

import email.utils
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeVar

from pydantic import AliasPath, BaseModel, Field, ValidationError

from simdx.egress import Elsewhere, is_loopback, is_remote, open_client, split_name
from simdx.errors import BadInput, RunFailed
from simdx.simulators.base import (
    Capabilities,
    Completion,
    Request,
    Simulator,
    TokenLogprobs,
    ask,
    failed,
    probe,
    stream,
)

T = TypeVar("T")
CONCURRENCY = 8  # requests under way: enough for a server to batch
UNREACHABLE = "the server cannot be reached"
TIMEOUT = 300.0  # seconds for one answer, unless SIMDX_TIMEOUT or the caller says otherwise
PATIENCE = 4  # a request is given up after so many time limits, tries and waits together
EMPTY_ATTEMPTS = 3  # after that the model means it: an empty text is its answer


# --------------------------------------------------------------------------- asking again
#
# One policy for texts and embeddings. Rate limits, server errors, timeouts, lost connections and garbled or
# empty replies pass; a bad request or a missing right does not. Waiting times double, are shortened at random
# so that many workers do not come back together, and give way to the server's own Retry-After.

PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


class Passing(Exception):
    """A temporary failure. The message is safe to show: it quotes no reply and no key."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class Lasting(Exception):
    """A permanent failure: asking again will not help."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounded: at most `attempts` tries; the longest waits between them add up to about two minutes.

    A server that accepts and never answers costs a whole time limit with every try, so no try begins later
    than `give_up_after` seconds after the first.
    """

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_asked_wait: float = 300.0  # a server's Retry-After beyond this is treated as a failure
    give_up_after: float | None = None

    def run(self, attempt: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """The first result of `attempt`; its last `Passing`, or any `Lasting`, is raised."""
        started, backoff = time.monotonic(), self.first_wait
        for _ in range(1, self.attempts):
            try:
                return attempt()
            except Passing as problem:
                asked, spent = problem.wait or 0.0, time.monotonic() - started
                late = self.give_up_after is not None and spent >= self.give_up_after
                if late or asked > self.longest_asked_wait:
                    raise
            sleep(max(backoff * random.uniform(0.5, 1.0), asked))
            backoff = min(self.longest_wait, 2 * backoff)
        return attempt()


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds a reply's Retry-After asks for, given as a number or as a date.

    A date is read by the server's own clock where the reply tells it: ours may be set wrong.
    """
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    until, now = _moment(value), _moment(headers.get("date", ""))
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def _moment(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


# --------------------------------------------------------------------------- the protocol


def parameters_of(request: Request) -> dict[str, Any]:
    """How a text shall be drawn, in the protocol's names."""
    body: dict[str, Any] = {name: getattr(request, name) for name in ("temperature", "top_p", "max_tokens")}
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": request.logprobs}
    return body


class _Token(BaseModel):
    token: str
    logprob: float
    top_logprobs: list["_Token"] = []


class _Message(BaseModel):
    content: str | None = None


class ChatReply(BaseModel):
    """A chat completion, which is untrusted."""

    message: _Message = Field(validation_alias=AliasPath("choices", 0, "message"))
    finish_reason: str | None = Field(None, validation_alias=AliasPath("choices", 0, "finish_reason"))
    tokens: list[_Token] | None = Field(None, validation_alias=AliasPath("choices", 0, "logprobs", "content"))
    prompt_tokens: int = Field(0, validation_alias=AliasPath("usage", "prompt_tokens"))
    completion_tokens: int = Field(0, validation_alias=AliasPath("usage", "completion_tokens"))

    def completion(self, request: Request, seconds: float) -> Completion:
        logprobs = None
        if request.logprobs and self.tokens is not None:
            logprobs = tuple(
                TokenLogprobs(t.token, t.logprob, tuple((a.token, a.logprob) for a in t.top_logprobs))
                for t in self.tokens
            )
        text, reason = self.message.content or "", self.finish_reason or "stop"
        return Completion(
            text, reason, self.prompt_tokens, self.completion_tokens, seconds, logprobs=logprobs
        )


# --------------------------------------------------------------------------- a server


class OpenAIServer:
    """A model behind an OpenAI-compatible endpoint, named `openai:MODEL@URL`."""

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        allow_remote: bool = False,
    ) -> None:
        limit = time_limit(timeout)
        self.id = f"openai:{model}@{base_url}"
        self.model = model
        self.remote = not is_loopback(base_url)
        self._retry = retry or RetryPolicy(give_up_after=PATIENCE * limit)
        self._client = open_client(base_url, limit, allow_remote)

    @classmethod
    def from_name(cls, name: str, **options: Any) -> Self:
        return cls(*split_name(name), **options)


class OpenAISimulator(OpenAIServer):
    remote: bool  # True away from loopback: the server's constructor says it
    lockstep = False

    def __init__(self, model: str, base_url: str, *, concurrency: int = CONCURRENCY, **server: Any) -> None:
        super().__init__(model, base_url, **server)
        self.concurrency = concurrency

    @cached_property
    def capabilities(self) -> Capabilities:
        # A capability that is lacking answers with an error: asking for it again would only cost time.
        def asked(request: Request) -> Completion:
            found = self._answer(request, RetryPolicy(attempts=2))
            if found.error == UNREACHABLE:  # at first contact: nothing is lost, and no build waits for it
                raise nobody_at(self.id)
            return found

        return probe(asked)

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self._answer, self.concurrency)

    def close(self) -> None:
        self._client.close()

    def _answer(self, request: Request, retry: RetryPolicy | None = None) -> Completion:
        started, empty = time.monotonic(), itertools.count(1)

        def attempt() -> Completion:
            completion = self._once(request)
            if not completion.text.strip() and next(empty) < EMPTY_ATTEMPTS:
                raise Passing("the server answered with an empty text")
            return completion

        try:
            return (retry or self._retry).run(attempt)
        except (Passing, Lasting) as problem:
            return failed(str(problem), time.monotonic() - started)

    def _once(self, request: Request) -> Completion:
        started = time.monotonic()
        raw = call(self._client.chat.completions.with_raw_response.create, **self._body(request))
        try:
            return ChatReply.model_validate_json(raw).completion(request, time.monotonic() - started)
        except ValidationError:
            raise Passing("the server's reply is not a chat completion") from None

    def _body(self, request: Request) -> dict[str, Any]:
        messages = request.messages
        if request.opening:
            messages[-1]["content"] += f' Begin with these words: "{request.opening}"'
        body: dict[str, Any] = {"model": self.model, "messages": messages, **parameters_of(request)}
        extra = dict(request.options)
        if request.grammar is not None:  # llama.cpp's name for it; servers without grammars ignore it
            extra["grammar"] = request.grammar
        if extra:
            body["extra_body"] = extra
        return body


# --------------------------------------------------------------------------- shared with the embedder


def time_limit(asked: float | None = None) -> float:
    """Seconds a server has for one answer: what was asked for, else SIMDX_TIMEOUT, else five minutes."""
    told = os.environ.get("SIMDX_TIMEOUT") or str(TIMEOUT)
    try:
        seconds = asked if asked is not None else float(told)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds <= 86_400:
        shown = f"{asked:g}" if asked is not None else f"'{told[:40]}' in SIMDX_TIMEOUT"
        raise BadInput(f"the time limit of a request is {shown}: give seconds above 0 and up to a day")
    return seconds


def nobody_at(server: str) -> RunFailed:
    return RunFailed(f"no server answers at {server.rpartition('@')[2]}: start it, or correct the address")


def call(send: Callable[..., Any], **body: Any) -> str:
    """The body of a reply, or what went wrong as `Passing` or `Lasting`, in words of our own."""
    import openai

    try:
        return str(send(**body).text)
    except openai.APITimeoutError:
        raise Passing("the server did not answer in time") from None
    except Elsewhere as error:
        raise Lasting(str(error)) from None
    except openai.APIConnectionError:
        raise Passing(UNREACHABLE) from None
    except openai.APIStatusError as error:
        status = error.status_code
        if status in PASSING_STATUS and getattr(error, "code", None) != "insufficient_quota":
            raise Passing(f"the server answered HTTP {status}", asked_wait(error.response.headers)) from None
        if 300 <= status < 400:
            raise Lasting(f"the server points elsewhere (HTTP {status}), and is not followed") from None
        raise Lasting(f"the server refused the request with HTTP {status}") from None
    except (openai.OpenAIError, UnicodeDecodeError):
        raise Passing("the server's reply cannot be read") from None
    except Exception as error:
        # The transport has error types of its own for replies that break off half-way.
        raise Passing(f"the exchange with the server broke off ({type(error).__name__})") from None


# --------------------------------------------------------------------------- several servers
#
# One simulator out of several servers of the same model, for building a bank faster. Each request goes to the
# server with the most room. One that fails a request is passed over for a while, longer each time, and the
# request is asked of another; only when every server has failed it is it a failure.


FIRST_REST = 2.0  # seconds a server is passed over after a failure; doubles with each in a row
LONGEST_REST = 120.0


@dataclass(slots=True, eq=False)
class _Server:
    simulator: Simulator
    under_way: int = 0
    answered: int = 0
    failed: int = 0
    failures_in_a_row: int = 0
    resting_until: float = 0.0


class Endpoints:
    """A simulator that spreads requests over others. `model` names what they all serve."""

    lockstep = False

    def __init__(self, model: str, simulators: Sequence[Simulator], *, first_rest: float = FIRST_REST):
        if not simulators:
            raise BadInput("give at least one --endpoint")
        self.id = f"endpoints:{model}"  # not the addresses: answers stay good when a server moves
        self.concurrency = sum(s.concurrency for s in simulators)
        self.remote = any(is_remote(s) for s in simulators)
        self._servers = [_Server(s) for s in simulators]
        self._first_rest = first_rest
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """What every server can do."""
        found = [server.simulator.capabilities for server in self._servers]
        return Capabilities(*(all(getattr(c, f.name) for c in found) for f in fields(Capabilities)))

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self._answer, self.concurrency)

    def close(self) -> None:
        for server in self._servers:
            server.simulator.close()

    def report(self) -> list[dict[str, Any]]:
        """What each server did."""
        return [{"server": s.simulator.id, "answered": s.answered, "failed": s.failed} for s in self._servers]

    def _answer(self, request: Request) -> Completion:
        left, completion = list(self._servers), failed("no server was asked")
        while left and not completion.ok:
            server = self._take(left)
            left.remove(server)
            completion = failed("the server broke off")
            try:
                completion = ask(server.simulator, request)
            finally:
                self._give_back(server, completion.ok)
        return completion

    def _take(self, servers: Sequence[_Server]) -> _Server:
        """The least loaded of them; one that rests only where no other is left."""
        with self._lock:
            now = time.monotonic()

            def readiness(s: _Server) -> tuple[bool, float, float]:
                return s.resting_until > now, s.under_way / s.simulator.concurrency, s.resting_until

            chosen = min(servers, key=readiness)
            chosen.under_way += 1
            return chosen

    def _give_back(self, server: _Server, ok: bool) -> None:
        with self._lock:
            server.under_way -= 1
            if ok:
                server.answered += 1
                server.failures_in_a_row, server.resting_until = 0, 0.0
                return
            rest = min(LONGEST_REST, self._first_rest * 2**server.failures_in_a_row)
            server.failed += 1
            server.failures_in_a_row += 1
            server.resting_until = time.monotonic() + rest
