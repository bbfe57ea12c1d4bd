"""Bytes out: strict JSON, in which a number that is not finite is null."""

from __future__ import annotations

import json
import math
from typing import Any


def dump(value: Any) -> bytes:
    """Compact UTF-8 JSON. Finite numbers are the rule: the slow walk is only for the exception."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(finite(value))


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _encode(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
