"""When to ask a server again, and how long to wait before: one policy for texts and embeddings.

Rate limits, server errors, timeouts, lost connections and garbled or empty replies pass; a bad request or
a missing right does not. Waiting times double, are shortened at random so that many workers do not come
back together, and give way to the server's own Retry-After.
"""

import email.utils
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


class Passing(Exception):
    """It did not work, and may work later. The message is safe to show: it quotes no reply and no key."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class Lasting(Exception):
    """It did not work, and asking again will not help."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounded: at most `attempts` tries; the longest waits between them add up to about two minutes.

    A server that accepts and never answers costs a whole time limit with every try, so no try begins later
    than `give_up_after` seconds after the first.
    """

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_asked_wait: float = 300.0  # a server's Retry-After beyond this is treated as a failure
    give_up_after: float | None = None

    def run(self, attempt: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """The first result of `attempt`; its last `Passing`, or any `Lasting`, is raised."""
        rng, started = random.Random(), time.monotonic()
        for number in range(1, self.attempts + 1):
            try:
                return attempt()
            except Passing as problem:
                asked, spent = problem.wait or 0.0, time.monotonic() - started
                late = self.give_up_after is not None and spent >= self.give_up_after
                if number == self.attempts or asked > self.longest_asked_wait or late:
                    raise
                backoff = min(self.longest_wait, self.first_wait * 2 ** (number - 1))
                sleep(max(backoff * rng.uniform(0.5, 1.0), asked))
        raise AssertionError("unreachable")


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds a reply's Retry-After asks for, given as a number or as a date.

    A date is read by the server's own clock where the reply tells it: ours may be set wrong.
    """
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    until, now = _moment(value), _moment(headers.get("date", ""))
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def _moment(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
