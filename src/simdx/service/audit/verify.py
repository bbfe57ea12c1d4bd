"""Walking the chain: every record's place follows from the one before, the key and its own content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simdx.service.audit.key import AuditKey
from simdx.service.audit.record import GENESIS, Record


@dataclass(frozen=True, slots=True)
class Verdict:
    ok: bool
    records: int
    head: str
    problem: str | None = None


def verify(records: Iterable[Record], key: AuditKey, head: tuple[int, str] | None = None) -> Verdict:
    """Check a whole log in order. `head` is (count, hash) as noted elsewhere: it shows a cut-off tail."""
    previous, count = GENESIS, 0
    for record in records:
        expected = count + 1
        if record.seq != expected:
            return Verdict(False, count, previous, f"record {expected} is missing")
        if record.previous != previous:
            return Verdict(False, count, previous, f"record {expected} does not follow the one before it")
        if not _unchanged(record, key, previous):
            return Verdict(
                False, count, previous, f"record {expected} was changed, or written with another key"
            )
        previous, count = record.hash, expected
    if head is not None and head != (count, previous):
        return Verdict(
            False, count, previous, f"the log ends at record {count}, its head was record {head[0]}"
        )
    return Verdict(True, count, previous)


def _unchanged(record: Record, key: AuditKey, previous: str) -> bool:
    try:
        return record.hash == key.chain_hash(previous, record.content())
    except (TypeError, ValueError):  # a value that no record can hold
        return False
