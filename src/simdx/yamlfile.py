"""Read users' YAML files as plain data: panels, policies and rules.

A file is refused, in one line, when it is too large or nested too deep, is not UTF-8, is no YAML, uses
aliases (which nothing here needs, and which can expand without end) or holds half a character that could not
be written again.
"""

from pathlib import Path
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent

from simdx.errors import BadInput
from simdx.types import is_writable

MAX_BYTES = 1_000_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same language, ten times as fast
# The library's time grows with depth for every part: 50,000 brackets take minutes.
DEEPEST = 50


def read_mapping(path: Path, kind: str, mend: str) -> dict[Any, Any]:
    """The mapping in a file of that kind; `mend` says what a file that holds none should hold."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{kind} file {path.name} is over {MAX_BYTES:,} bytes: it is not a {kind}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{kind} file {path.name} is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{kind} file {path} cannot be read: {error.strerror}") from None
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                raise BadInput(f"{kind} file {path.name} is nested more than {DEEPEST} deep")
            if isinstance(event, yaml.AliasEvent):
                raise BadInput(f"{kind} file {path.name} uses YAML aliases (*name): write the text out")
            if isinstance(event, yaml.ScalarEvent) and not is_writable(event.value):
                raise BadInput(f"{kind} file {path.name} holds half a character (a lone surrogate)")
        data = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise BadInput(f"{kind} file {path.name} is not valid YAML{line}") from None
    if not isinstance(data, dict):
        raise BadInput(f"{kind} file {path.name} holds no mapping: {mend}")
    return data
