"""How fast something may happen: for each name a bucket that fills at a steady rate and holds so much."""

import time
from collections.abc import Callable

from cachetools import LRUCache

MOST_NAMES = 10_000  # a stranger with many addresses must not fill the memory


class Rate:
    """`a_second` for each name, after `burst_seconds` worth at once; 0: no limit."""

    def __init__(
        self, a_second: float, burst_seconds: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = a_second, clock
        self._size = max(1.0, a_second * burst_seconds)
        # What is left, and when that was so. The name that was not heard of for longest makes room: whoever
        # asks too fast is heard of all the time, and stays known however many names come between.
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(MOST_NAMES)

    def wait(self, name: str) -> float:
        """Take one; 0, or the seconds after which there will be one to take."""
        if not self._rate:
            return 0.0
        left = self._left(name)
        if left < 1:
            return (1 - left) / self._rate
        self._buckets[name] = (left - 1, self._clock())
        return 0.0

    def spent(self, name: str) -> bool:
        """Is there none to take? Takes none."""
        return name in self._buckets and self._left(name) < 1

    def _left(self, name: str) -> float:
        now = self._clock()
        left, then = self._buckets.get(name, (self._size, now))
        return min(self._size, left + (now - then) * self._rate)
