"""Callers that were turned away, counted until they are written: a flood makes the counts large, not the log.

What was presented is never kept, only where it came from and why it was refused.
"""

import threading
import time
import uuid
from typing import Any

from simdx.service.audit.record import Entry, now

SECONDS = 60.0  # between two writings
ADDRESSES = 16  # counted one by one in that time; the rest are counted together
ELSEWHERE = "other addresses"


class Refusals:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}  # as they will be recorded
        self._written = -SECONDS

    def note(self, address: str, reason: str) -> None:
        """Count one; touches no disk, so it may be called where requests are refused."""
        moment, place = now(), (address[:64], reason[:64])
        with self._lock:
            if place not in self._waiting and len(self._waiting) >= ADDRESSES:
                place = (ELSEWHERE, place[1])
            fresh = {"address": place[0], "reason": reason[:64], "count": 0, "first": moment}
            tally = self._waiting.setdefault(place, fresh)
            tally |= {"count": tally["count"] + 1, "last": moment}

    def take(self, everything: bool = False) -> list[Entry]:
        """What is to be written now: at once after a quiet time, else once in `SECONDS`."""
        with self._lock:
            if not self._waiting or (not everything and time.monotonic() - self._written < SECONDS):
                return []
            self._written = time.monotonic()
            taken, self._waiting = self._waiting, {}
        return [Entry(f"{uuid.uuid4().hex}.0", "refused", "", "", context=told) for told in taken.values()]

    def give_back(self, entries: list[Entry]) -> None:
        """Entries that could not be written are counted again."""
        with self._lock:
            for told in (entry.context for entry in entries):
                tally = self._waiting.setdefault((told["address"], told["reason"]), {**told, "count": 0})
                first = min(tally["first"], told["first"])
                tally |= {"count": tally["count"] + told["count"], "first": first}
