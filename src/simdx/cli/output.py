"""How verbs speak: one JSON object on stdout with --json, words otherwise, progress on stderr.

Words may come from files and cases of others: no control character in them reaches the terminal.
"""

import json as json_format
import math
import sys
from typing import Any

from simdx.errors import CONTROLS, plain


def print_json(value: Any) -> None:
    """Exactly one JSON object; a number that is not finite becomes null rather than invalid JSON."""
    plain = _finite(value)
    text = json_format.dumps(plain, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a path in no encoding, or a terminal that is not UTF-8: escapes say the same
        text = json_format.dumps(plain, allow_nan=False)
    sys.stdout.write(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def say(json: bool, value: Any, *lines: str) -> None:
    """The JSON object where --json was given, the lines otherwise."""
    if json:
        print_json(value)
        return
    for line in lines:
        write_line(line)


def write_line(line: str) -> None:
    print(plain(line))


def note(message: str) -> None:
    """A line of progress or explanation, on stderr."""
    print(plain(message), file=sys.stderr)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
