"""One runner, one record, one store: `evaluate` and the paper go through them.

    run(spec, data) ──► the standing record, or a new one ──► store

Two results are the same when the content of their inputs, their settings and `RECIPE_VERSION` are. Nothing
else counts: no version, no commit, no source text.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from simdx import __version__
from simdx.disk import (
    load_arrays,
    make_folder,
    save_arrays,
    seal_holds,
    sealed,
    write_atomically,
)
from simdx.errors import SimdxError, place_of
from simdx.methods.fitted import recipe_of
from simdx.types import Float, content_hash

T = TypeVar("T")
Arrays = dict[str, Float]
Progress = Callable[[int, int], None]

FORMAT = 1
STATUSES = ("done", "failed", "not run")
PARTS = ".parts"
CHUNK = 500
_PACKAGES = ("numpy", "scipy", "wordllama", "xllamacpp", "sentence-transformers", "torch", "openai")


# --------------------------------------------------------------------------- the runner


class NotRun(Exception):
    """Raised by a measure that cannot run here, with the reason in one sentence. Not a failure."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures by name, what a row per case holds, and what it cost."""

    figures: Mapping[str, Any]
    rows: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec(Generic[T]):
    """What is to be measured: `settings` hold every choice, as JSON, and stand in the record.

    `measure` is given data whose `hashes` tell the content of everything that is read.
    """

    experiment: str
    name: str
    settings: Mapping[str, Any]
    measure: Callable[[T], Result]

    def identity(self, data: Any) -> str:
        return identity(self.settings, data.hashes)


def identity(settings: Mapping[str, Any], hashes: Mapping[str, Any]) -> str:
    """Identity of a result: its settings, the content of its inputs, and the recipe's number."""
    parts = (json.dumps(part, sort_keys=True, ensure_ascii=False) for part in (settings, hashes))
    return content_hash("result", f"recipe {recipe_of(settings.get('method'))}", *parts)


def run(spec: Spec[Any], data: Any, store: Store, *, fresh: bool = False) -> Record:
    """Return the valid record, or measure and write a new one. Errors are raised."""
    if not fresh and (known := store.standing(spec.name, spec.identity(data))) is not None:
        return known
    # Durations use the monotonic clock, the start date the wall clock.
    started, began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.perf_counter()
    error, status, result = None, "done", Result({})
    try:
        result = spec.measure(data)
    except NotRun as reason:
        status, error = "not run", str(reason)
    cost = {"started": started, "seconds": round(time.perf_counter() - began, 3), **result.cost}
    record = Record(
        spec.name, status, {**spec.settings, **result.figures}, spec.experiment, error, spec.identity(data),
        data.hashes, versions(), cost, result.rows,
    )  # fmt: skip
    store.write(record)
    return record


def fail(spec: Spec[Any], problem: Exception, store: Store) -> Record:
    """Write and return a record of a failure, so that it does not end the other runs."""
    # The message of an unforeseen error may quote what was being processed: only our own are repeated.
    reason = str(problem) if isinstance(problem, SimdxError) else f"failed with {place_of(problem)}"
    record = Record(spec.name, "failed", spec.settings, spec.experiment, reason, versions=versions())
    store.write(record)
    return record


# --------------------------------------------------------------------------- the record


@dataclass(frozen=True)
class Record:
    """What a run leaves: one result, or why there is none. `found` holds the settings and the figures.

    In JSON the record's own keys come first, then settings and figures side by side with them, last the rows:
    per case its id and numbers, never a text.
    """

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
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip()[:12] if asked.returncode == 0 else None


# --------------------------------------------------------------------------- the store


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results, whole files found again by content; without a folder nothing is kept.

        FOLDER/cells/NAME.json           records
        FOLDER/.parts/IDENTITY/…         answers, chunk by chunk: a killed run goes on where it stopped

    Only numbers are stored in chunks, never a text.
    """

    folder: Path | None
    place: str = "cells"

    def read(self, name: str) -> Record | None:
        """The record, or None if it is missing, unreadable or changed."""
        if self.folder is None:
            return None
        try:
            return Record.from_json(json.loads(self._path(name).read_bytes()), name)
        except (OSError, ValueError, RecursionError):
            return None

    def records(self) -> list[Record]:
        """Every record that can be read, by name."""
        paths = [] if self.folder is None else sorted((self.folder / self.place).glob("*.json"))
        return [record for path in paths if (record := self.read(path.stem)) is not None]

    def holds(self, name: str, identity: str) -> bool:
        return self.standing(name, identity) is not None

    def standing(self, name: str, identity: str) -> Record | None:
        """The result made from exactly these inputs."""
        record = self.read(name)
        if record is None or record.status == "failed" or record.identity != identity:
            return None
        return record

    def write(self, record: Record) -> None:
        if self.folder is not None:
            path = self._path(record.name)
            make_folder(path.parent)
            write_atomically(path, record.dumps())

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / self.place / f"{name}.json"

    def answers(
        self, key: str, cases: Sequence[T], compute: Callable[[Sequence[T]], Arrays], *,
        resume: bool = True, size: int = CHUNK, progress: Progress | None = None,
    ) -> Arrays:  # fmt: skip
        """`compute` over all cases, `size` at a time; whole chunks found under `key` are not made again.

        The key is an `identity`, so a chunk can never be mistaken for another run's.
        """
        folder = None if self.folder is None else self.folder / PARTS / key
        if folder is not None:
            make_folder(folder)
        found: list[Arrays] = []
        for start in range(0, len(cases), size):
            part = cases[start : start + size]
            path = None if folder is None else folder / f"{start:09d}.safetensors"
            arrays = load_arrays(path) if path is not None and resume else None
            # An absent or damaged chunk, or one of another length, is computed again.
            if not arrays or any(len(a) != len(part) for a in arrays.values()):
                arrays = compute(part)
                if path is not None:
                    save_arrays(path, arrays)
            found.append(arrays)
            if progress is not None:
                progress(start + len(part), len(cases))
        return {name: np.concatenate([a[name] for a in found]) for name in (found[0] if found else {})}

    def forget_answers(self, keep: set[str]) -> None:
        """Remove the chunks of finished or abandoned runs with another identity."""
        folders = [] if self.folder is None else (self.folder / PARTS).glob("*/")
        for folder in folders:
            if folder.name not in keep:
                shutil.rmtree(folder)
