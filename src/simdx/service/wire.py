"""Bytes out: strict JSON in ASCII, so that no label or case steers a terminal; infinite numbers are null."""

import json
import math
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response


def dump(value: Any) -> bytes:
    """Compact JSON; control and other characters beyond ASCII are escaped."""
    try:
        return to_json(value, inf_nan_mode="null", ensure_ascii=True)
    except PydanticSerializationError:  # half a surrogate pair
        text = json.dumps(finite(value), allow_nan=False, separators=(",", ":"))
        return text.encode("ascii")


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
    """Bytes are sent as they are: they were dumped, and recorded, before."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else dump(content)
