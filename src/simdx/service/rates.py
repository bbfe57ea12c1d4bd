"""How fast one caller may ask: a bucket that fills at a steady rate and holds two seconds' worth."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_SECONDS = 2.0


class Rate:
    """One bucket for each caller. Only callers with a valid token have one, so there are few."""

    def __init__(self, a_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = a_second, clock
        self._size = max(1.0, a_second * BURST_SECONDS)
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was so

    def wait(self, caller: str) -> float:
        """Take one request; 0, or the seconds after which there will be one to take."""
        if not self._rate:
            return 0.0
        now = self._clock()
        left, then = self._buckets.get(caller, (self._size, now))
        left = min(self._size, left + (now - then) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        self._buckets[caller] = (left - 1, now)
        return 0.0
