"""A new key for a log, in steps of which each may be the last before a crash.

The new key is put into the key file; one transaction switches the log to it, with a record that says so;
kept texts are sealed again; the old key is marked as retired. It stays in the file: it verifies the records
it wrote. Running the command again finishes what was begun.
"""

from dataclasses import dataclass
from pathlib import Path

from simdx.service.audit.ring import KeyRing, add_key, retire_before
from simdx.service.audit.store import AuditStore


@dataclass(frozen=True, slots=True)
class Rotation:
    key: str
    texts: int  # sealed again
    stuck: int  # that did not open and were left as they were


def prepare(store: AuditStore, path: Path) -> str:
    """Put the next key into the file and use it nowhere yet, so that the file can be copied first."""
    ring, current = KeyRing.from_file(path), store.key_in_use()
    following = ring.after(current)
    return (following or add_key(path).newest).id


def rotate(store: AuditStore, path: Path) -> Rotation:
    store.resume()  # no new key for a log that was cut
    ring, current = KeyRing.from_file(path), store.key_in_use()
    earlier = ring.keys[: [key.id for key in ring.keys].index(current.id)]
    if all(key.id in ring.retired for key in earlier):  # else the switch was made and the rest was not
        prepare(store, path)
        store.switch_key(KeyRing.from_file(path))
    texts, stuck = store.reseal()
    store.checkpoint()
    current = store.key_in_use()
    retire_before(path, current)
    return Rotation(current.id, texts, stuck)
