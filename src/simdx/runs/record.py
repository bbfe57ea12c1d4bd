"""What a run leaves on disk: one JSON layout for an evaluation and an artefact of the paper.

The record's own keys come first, then settings and figures side by side with them, last the rows: per case
its id and numbers, never a text.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from simdx import __version__
from simdx.disk import seal_holds, sealed
from simdx.methods.fitted import recipe_of
from simdx.types import content_hash

FORMAT = 1
STATUSES = ("done", "failed", "not run")
_PACKAGES = ("numpy", "scipy", "wordllama", "xllamacpp", "sentence-transformers", "torch", "openai")


def identity(settings: Mapping[str, Any], hashes: Mapping[str, Any]) -> str:
    """Identity of a result: its settings, the content of its inputs, and the recipe's number."""
    parts = (json.dumps(part, sort_keys=True, ensure_ascii=False) for part in (settings, hashes))
    return content_hash("result", f"recipe {recipe_of(settings.get('method'))}", *parts)


@dataclass(frozen=True)
class Record:
    """One result, or why there is none. `found` holds the settings and the figures."""

    name: str
    status: str
    found: Mapping[str, Any]
    experiment: str = ""
    error: str | None = None
    identity: str | None = None
    hashes: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self.found[key]

    @property
    def done(self) -> bool:
        return self.status == "done"

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _OWN}
        if both := (set(own) | {"format", "rows", "seal"}) & set(self.found):
            raise ValueError(f"a record has '{both.pop()}' of its own")
        return {"format": FORMAT, **own, **self.found} | ({} if self.rows is None else {"rows": self.rows})

    @classmethod
    def from_json(cls, data: Any, name: str) -> Record | None:
        """None if it is not a record or was changed. Early records have neither name nor seal."""
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("status") not in STATUSES:
            return None
        if "seal" in data and not seal_holds(data):
            return None
        rest = {key: value for key, value in data.items() if key not in ("format", "seal")}
        own = {key: rest.pop(key) for key in (*_OWN, "rows") if key in rest}
        return cls(**{"name": name, **own, "found": rest})

    def dumps(self) -> str:
        """Sealed; readable at the top, a line for each column of the rows."""
        whole = sealed(self.to_json())
        if self.rows is None:
            return _text(whole, indent=1) + "\n"
        lines = ",\n".join(f"  {_text(name)}: {_text(column)}" for name, column in self.rows.items())
        head, _, tail = _text({**whole, "rows": "@rows"}, indent=1).rpartition('"@rows"')
        return f"{head}{{\n{lines}\n }}{tail}\n"


_OWN = tuple(f.name for f in fields(Record) if f.name not in ("found", "rows"))


def _text(value: Any, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, **how)


@lru_cache(maxsize=1)
def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {
        "simdx": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "commit": current_commit(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def current_commit() -> str | None:
    """The commit of the checkout this package runs from; images without one name it in SIMDX_COMMIT."""
    if named := os.environ.get("SIMDX_COMMIT"):
        return named[:12]
    here = Path(__file__).resolve().parent
    try:
        asked = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip()[:12] if asked.returncode == 0 else None
