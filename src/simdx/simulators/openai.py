"""Any server that speaks the OpenAI protocol: vLLM, Ollama, llama.cpp's server, hosted services.

The `openai` package carries the bytes, through a client that `simdx.egress` makes; retrying, waiting and
judging replies happen here, because a build of hours needs them bounded, interruptible and told apart. A
reply is untrusted: it is parsed with pydantic, and nothing of it or of an exception's text goes into an error
message, since servers echo keys. The key comes from the environment (see `egress`) and is kept nowhere else.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from simdx.egress import Elsewhere, is_loopback, open_client, split_name
from simdx.errors import BadInput, RunFailed
from simdx.simulators.base import Capabilities, Completion, Request, failed, probe
from simdx.simulators.chat import ChatReply, parameters_of
from simdx.simulators.retry import PASSING_STATUS, Lasting, Passing, RetryPolicy, asked_wait
from simdx.simulators.stream import stream

T = TypeVar("T")
CONCURRENCY = 8  # requests under way: enough for a server to batch
UNREACHABLE = "the server cannot be reached"
TIMEOUT = 300.0  # seconds for one answer, unless SIMDX_TIMEOUT or the caller says otherwise
PATIENCE = 4  # a request is given up after so many time limits, tries and waits together
EMPTY_ATTEMPTS = 3  # after that the model means it: an empty text is its answer


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
        started = time.monotonic()
        empty = 0

        def attempt() -> Completion:
            nonlocal empty
            completion = self._once(request)
            if not completion.text.strip():
                empty += 1
                if empty < EMPTY_ATTEMPTS:
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
    return RunFailed(f"no server answers at {server.rpartition('@')[2]}: start it, or mend the address")


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
