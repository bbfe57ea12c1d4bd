"""What one line of the audit log says, and the exact bytes its place in the chain is computed from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

GENESIS = "0" * 64
# Answers and what became of them; then who was refused and who read the log.
KINDS = ("answer", "explore", "feedback", "cds", "cds-feedback", "refused", "read")
_JSON = ("prior", "answer", "versions", "context")


@dataclass(frozen=True, slots=True)
class Entry:
    """An event to be recorded. `about` names the earlier record a feedback is about.

    `context` is recorded as it is; of the `people` in it only a keyed hash is, as `<role>_hash`.
    """

    id: str
    kind: str
    caller: str
    panel: str
    prior: Mapping[str, float] | None = None
    answer: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] | None = None
    text: str | None = None
    about: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry in its place. JSON columns are kept as the text that was hashed."""

    seq: int
    id: str
    at: str
    kind: str
    caller: str
    panel: str
    about: str | None
    text_hash: str | None
    prior: str | None
    answer: str | None
    versions: str | None
    context: str | None
    previous: str
    hash: str

    def content(self) -> bytes:
        """What the hash is of."""
        return hashed_part({column: getattr(self, column) for column in COLUMNS[:-2]})

    def to_json(self) -> dict[str, Any]:
        out = asdict(self)
        for column in _JSON:
            out[column] = None if out[column] is None else json.loads(out[column])
        return out


COLUMNS = tuple(AuditRecord.__dataclass_fields__)
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """One spelling of a JSON value: sorted keys, ASCII, no spaces."""
    return _ENCODER.encode(value)


def hashed_part(said: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a record without its hashes; an absent context is left out."""
    absent = {"context"} if said["context"] is None else set()
    return canonical({name: said[name] for name in said.keys() - absent}).encode("ascii")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def patient_reference(patient: str) -> str:
    """One spelling of a patient's id: record systems send the bare id, a reference, or its whole address."""
    return "/".join(patient.rsplit("/", 2)[-2:]) if "/" in patient else f"Patient/{patient}"
