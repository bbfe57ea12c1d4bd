"""`run(spec, data) -> record`: every result is made here."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from simdx.errors import SimdxError, place_of
from simdx.runs.record import Record, identity, versions
from simdx.runs.store import Store


class NotRun(Exception):
    """Raised by a measure that cannot run here, with the reason in one sentence. Not a failure."""


class Data(Protocol):
    """What a spec is measured on; `hashes` tells the content of everything that is read."""

    @property
    def hashes(self) -> Mapping[str, Any]: ...


D_contra = TypeVar("D_contra", bound=Data, contravariant=True)


@dataclass(frozen=True, slots=True)
class Result:
    """Figures by name, what a row per case holds, and what it cost."""

    figures: Mapping[str, Any]
    rows: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec(Generic[D_contra]):
    """What is to be measured: `settings` hold every choice, as JSON, and stand in the record."""

    experiment: str
    name: str
    settings: Mapping[str, Any]
    measure: Callable[[D_contra], Result]

    def identity(self, data: Data) -> str:
        return identity(self.settings, data.hashes)


def run(spec: Spec[Any], data: Data, store: Store, *, fresh: bool = False) -> Record:
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
