"""Sentences about an answer that more than one reader shows: the decision, the terminal, the page, the card.

The alarm weighs *how much* the views say, not how many there are: it can be raised while most of them prefer
the answer too, only less than they prefer correct ones. So no sentence says that views "agree" or
"contradict": it says what the alarm found, and then who prefers what.

The recipe's posterior and the simplex posterior are two comparisons of the same case. The second is blunter:
it mixes class means, and with few populations its top probability has a ceiling. So the words say whose
uncertainty it is, and how sure that one could be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose

NEXT_TO_NOTHING = 0.005  # bits


def simplex_words(
    label: str,
    in_class: Mapping[str, float],
    mean: Mapping[str, float],
    total_bits: float,
    aleatoric_bits: float,
    cap: float | None = None,
) -> str:
    """`label` leads the posterior, `in_class` is that posterior, the rest is the simplex posterior's own."""
    same = all(isclose(mean[name], p, abs_tol=1e-6) for name, p in in_class.items())
    lead = max(mean, key=lambda name: mean[name])
    said = f"{_percent(mean[label])} to '{label}'"
    if lead != label:
        said = f"{_percent(mean[lead])} to '{lead}' and {said}"
    ceiling = "" if cap is None else f" (the most it could give a label here is {_percent(cap)})"
    whose = (
        f"The simplex posterior gives {said}{ceiling}."
        if same
        else f"The simplex posterior is a second, blunter comparison: it gives {said}{ceiling}."
    )
    if total_bits < NEXT_TO_NOTHING:
        return f"{whose} It leaves next to no uncertainty."
    share = min(1.0, max(0.0, aleatoric_bits / total_bits))
    return (
        f"{whose} Of its {total_bits:.2f} bits of uncertainty, {_percent(share)} would be left whatever was "
        f"simulated (aleatoric: more tests help), and {_percent(1 - share)} is doubt about the probabilities "
        "themselves (epistemic: review helps)."
    )


def _percent(p: float) -> str:
    return (
        f"{100 * p:.0f} %" if p in (0, 1) or 0.005 <= p < 0.995 else "over 99 %" if p > 0.5 else "under 1 %"
    )


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
