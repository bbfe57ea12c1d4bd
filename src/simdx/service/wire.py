"""Bytes out: strict JSON, in which a number that is not finite is null. Bytes in: a message read before."""

import json
import math
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response
from starlette.types import Message, Receive


def dump(value: Any) -> bytes:
    """Compact UTF-8 JSON. What holds half a character goes the slow way, without it."""
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def finite(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return finite(value.model_dump(mode="python"))
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Json(Response):
    """What is given as bytes was dumped before, and recorded."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else dump(content)


def again(message: Message, receive: Receive) -> Receive:
    """A message that was read before, once, and then whatever the connection says."""
    left = [message]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay
