"""A chat completion as the OpenAI protocol has it: what is asked for, and a reply, which is untrusted."""

from typing import Any

from pydantic import AliasPath, BaseModel, Field

from simdx.simulators.base import Completion, Request, TokenLogprobs


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


class _Top(BaseModel):
    token: str
    logprob: float


class _Token(_Top):
    top_logprobs: list[_Top] = []


class _Message(BaseModel):
    content: str | None = None


def _of_choice(*place: str) -> Any:
    return Field(None, validation_alias=AliasPath("choices", 0, *place))


class ChatReply(BaseModel):
    message: _Message = Field(validation_alias=AliasPath("choices", 0, "message"))
    finish_reason: str | None = _of_choice("finish_reason")
    tokens: list[_Token] | None = _of_choice("logprobs", "content")
    prompt_tokens: int = Field(0, validation_alias=AliasPath("usage", "prompt_tokens"))
    completion_tokens: int = Field(0, validation_alias=AliasPath("usage", "completion_tokens"))

    def completion(self, request: Request, seconds: float) -> Completion:
        logprobs = None
        if request.logprobs and self.tokens is not None:
            pairs = ((t, tuple((a.token, a.logprob) for a in t.top_logprobs)) for t in self.tokens)
            logprobs = tuple(TokenLogprobs(t.token, t.logprob, top) for t, top in pairs)
        return Completion(
            text=self.message.content or "",
            finish_reason=self.finish_reason or "stop",
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            seconds=seconds,
            logprobs=logprobs,
        )
