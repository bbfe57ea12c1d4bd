"""A chat completion as the OpenAI protocol has it: what is asked for, and a reply, which is untrusted."""

from typing import Any

from pydantic import BaseModel

from simdx.simulators.base import Completion, Request, TokenLogprobs


def parameters_of(request: Request) -> dict[str, Any]:
    """How a text shall be drawn, in the protocol's names."""
    body: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": request.logprobs}
    return body


class _Top(BaseModel):
    token: str
    logprob: float


class _Token(_Top):
    top_logprobs: list[_Top] = []


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ChatReply(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None

    def completion(self, request: Request, seconds: float) -> Completion:
        choice, usage = self.choices[0], self.usage or _Usage()
        return Completion(
            text=choice.message.content or "",
            finish_reason=choice.finish_reason or "stop",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=seconds,
            logprobs=_tokens(choice.logprobs) if request.logprobs else None,
        )


def _tokens(part: _Logprobs | None) -> tuple[TokenLogprobs, ...] | None:
    if part is None or part.content is None:
        return None
    return tuple(
        TokenLogprobs(t.token, t.logprob, tuple((a.token, a.logprob) for a in t.top_logprobs))
        for t in part.content
    )
