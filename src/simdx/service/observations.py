"""Cases kept for a while in memory, so that another prior costs no second embedding. Never on disk.

An observation is named by a keyed hash of its content: the same case has the same name, and the name
tells nothing to someone without the process's key. It belongs to the caller who brought it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from simdx.methods import Observations


@dataclass(frozen=True, slots=True)
class Kept:
    panel: str
    caller: str
    observations: Observations
    until: float


class ObservationCache:
    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._seconds, self._clock = size, seconds, clock
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    @property
    def seconds(self) -> float:
        return self._seconds

    def name(self, panel: str, caller: str, text: str) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        for part in (panel, caller, text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def put(self, name: str, panel: str, caller: str, observations: Observations) -> None:
        with self._lock:
            self._drop_old()
            self._kept[name] = Kept(panel, caller, observations, self._clock() + self._seconds)
            self._kept.move_to_end(name)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def get(self, name: str, caller: str) -> Kept | None:
        """The kept case, its time renewed; None when it is gone or another caller's."""
        with self._lock:
            self._drop_old()
            kept = self._kept.get(name)
            if kept is None or kept.caller != caller:
                return None
            renewed = Kept(kept.panel, kept.caller, kept.observations, self._clock() + self._seconds)
            self._kept[name] = renewed
            self._kept.move_to_end(name)
            return renewed

    def _drop_old(self) -> None:
        # Every use renews an entry and moves it to the end, so the oldest time is always first.
        moment = self._clock()
        while self._kept and next(iter(self._kept.values())).until <= moment:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
