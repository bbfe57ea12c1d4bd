"""Walking the chain: every record's place follows from the one before, the key and its own content.

Every checkpoint must be met on the way, under the key that was in use there. A log may begin under any key
of its ring; from there only a record of kind `key`, written with the next one, changes it, and the log may
not end under one that was retired: who has an old key can add nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge

from simdx.service.audit.checkpoints import Checkpoint, CheckpointProblem
from simdx.service.audit.record import GENESIS, AuditRecord
from simdx.service.audit.ring import AuditKey, KeyRing

Head = tuple[int, str] | None  # how many records a log has, and the hash of its last


@dataclass(frozen=True, slots=True)
class Verdict:
    ok: bool
    records: int
    head: str
    problem: str | None = None
    checkpoints: int = 0
    unseen: tuple[str, ...] = ()  # checkpoint files the log knows of that were not at hand


@dataclass(slots=True)
class _Walk:
    ring: KeyRing
    checkpoints: Iterator[Checkpoint]  # in the order of the records they saw
    following: Checkpoint | None = None
    key: AuditKey | None = None
    count: int = 0
    head: str = GENESIS
    seen: dict[str, int] = field(default_factory=dict)  # checkpoints met, by file

    def step(self, record: AuditRecord) -> str | None:
        """Take one record; what is wrong with it, if anything."""
        number = self.count + 1
        if record.seq != number:
            return f"record {number} is missing"
        if record.previous != self.head:
            return f"record {number} does not follow the one before it"
        key = next((k for k in self._possible(record) if _unchanged(record, k, self.head)), None)
        if key is None:
            return f"record {number} was changed, or written with another key"
        self.key, self.head, self.count = key, record.hash, number
        return None

    def _possible(self, record: AuditRecord) -> Iterable[AuditKey]:
        if self.key is None:
            return self.ring.keys
        following = self.ring.after(self.key) if record.kind == "key" else None
        return (following,) if following else (self.key,)

    def meet(self) -> str | None:
        """Compare the checkpoints of this place with the chain; the empty log may have one, under any key."""
        while self.following is not None and self.following.records <= self.count:
            found = self.following
            if found.head != self.head or (self.key is not None and found.key != self.key.id):
                return (
                    f"checkpoint {found.number} does not match record {found.records}: the log was "
                    "rewritten, or the checkpoints are another log's"
                )
            self.seen[found.file] = found.number
            self.following = next(self.checkpoints, None)
        return None

    def end(self, head: Head) -> str | None:
        if self.following is not None:
            return (
                f"the log ends at record {self.count}, checkpoint {self.following.number} of "
                f"{self.following.at} saw record {self.following.records}: the newest records were cut "
                "off, or an older copy was put back"
            )
        if head is not None and head != (self.count, self.head):
            return f"the log ends at record {self.count}, its head was record {head[0]}"
        if self.key is not None and self.key.id in self.ring.retired:
            return "the log ends under a key that was rotated out: an older copy was put back"
        return None


def verify(
    records: Iterable[AuditRecord],
    ring: KeyRing,
    head: Head = None,
    *,
    checkpoints: Sequence[Iterator[Checkpoint]] = (),
    known: dict[str, int] | None = None,
    noted: str | None = None,
) -> Verdict:
    """Check a whole log in order.

    `head` is as the log has it. `checkpoints` are those of each of its files, `known` how many
    each should hold. `noted` is a head somebody wrote down, which must still be in the chain.
    """
    walk, known = _Walk(ring, merge(*checkpoints, key=lambda found: found.records)), known or {}
    try:
        problem = next(filter(None, _problems(walk, records, head, known, noted)), None)
    except CheckpointProblem as error:
        problem = str(error)
    unseen = tuple(sorted(set(known) - set(walk.seen)))
    return Verdict(problem is None, walk.count, walk.head, problem, sum(walk.seen.values()), unseen)


def _problems(
    walk: _Walk, records: Iterable[AuditRecord], head: Head, known: dict[str, int], noted: str | None
) -> Iterator[str | None]:
    """What is wrong, as far as the walk has come; behind the first nothing is to be relied on."""
    walk.following = next(walk.checkpoints, None)
    yield walk.meet()
    for record in records:
        yield walk.step(record) or walk.meet()
        if record.hash == noted:
            noted = None
    yield walk.end(head)
    if noted is not None:
        yield "the head noted earlier is not in the chain: records were cut off or rewritten"
    if known and not walk.seen:
        yield "its checkpoints are missing: give --checkpoints, the file the service wrote them to"
    for file, number in known.items():
        if (seen := walk.seen.get(file, number)) < number:
            yield f"checkpoint file {file} was cut: it holds {seen} checkpoints, there were {number}"


def _unchanged(record: AuditRecord, key: AuditKey, previous: str) -> bool:
    try:
        return record.hash == key.chain_hash(previous, record.content())
    except (TypeError, ValueError):  # a value that no record can hold
        return False
