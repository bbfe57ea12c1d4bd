"""Cases kept for a while in memory, never on disk, so that another prior costs no second embedding.

An observation belongs to the caller who brought it. Its name is a hash under the process's key: the same case
has the same name, which tells nothing to others.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import TTLCache

from simdx.methods import Observations


class Kept(NamedTuple):
    panel: str
    caller: str
    observations: Observations


class ObservationCache:
    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._kept: TTLCache[str, Kept] = TTLCache(size, seconds, clock)

    def name(self, panel: str, caller: str, text: str) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        for part in (panel, caller, text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def put(self, name: str, panel: str, caller: str, observations: Observations) -> None:
        with self._lock:
            self._kept[name] = Kept(panel, caller, observations)

    def get(self, name: str, caller: str) -> Kept | None:
        """The kept case, its time renewed; None when it is gone or another caller's."""
        with self._lock:
            self._kept.expire()  # a case whose time is over leaves the memory now, not at the next one kept
            kept = self._kept.get(name)
            if kept is None or kept.caller != caller:
                return None
            self._kept[name] = kept
            return kept

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)
