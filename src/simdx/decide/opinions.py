"""What the independent views make of an answer, in words that fit beside the alarm whichever way it went.

The alarm weighs *how much* the views say, not how many there are: it can be raised while most of them prefer
the answer too, only less than they prefer correct ones, and stay silent where most prefer another label but
none of them strongly. So no sentence here says that views "agree" or "contradict": it says what the alarm
found, and then who prefers what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def preferences(label: str, preferred: Sequence[str], most: int = 2) -> str:
    """Who prefers what: `preferred` is the label each view puts first."""
    total = len(preferred)
    votes = Counter(preferred)
    mine = votes.pop(label, 0)
    others = [f"{_many(n, total)} '{name}'" for name, n in votes.most_common(most)]
    own = f"none of {total} prefers it" if mine == 0 else f"{mine} of {total} {_verb(mine)} it"
    return ", ".join([own, *others])


def alarm_words(label: str, preferred: Sequence[str], p_value: float | None, raised: bool) -> str:
    """What the alarm found, without its own name: a clause to follow "alarm" or "no alarm"."""
    p = "" if p_value is None else f" (p = {p_value:.3f})"
    found = (
        f"independent views of the case support '{label}' less than is usual for a correct answer{p}"
        if raised
        else f"independent views of the case support '{label}' within what is usual for correct answers{p}"
    )
    return f"{found}: {preferences(label, preferred)}" if preferred else found


def _many(count: int, total: int) -> str:
    return f"all {total} prefer" if count == total and total > 1 else f"{count} {_verb(count)}"


def _verb(count: int) -> str:
    return "prefers" if count == 1 else "prefer"
