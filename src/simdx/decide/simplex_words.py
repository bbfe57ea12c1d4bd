"""The split of uncertainty in one sentence or two that cannot deny the posterior beside them.

The recipe's posterior and the simplex posterior are two comparisons of the same case. The second is blunter:
it mixes class means, and with few populations its top probability has a ceiling. It can be two thirds sure,
and call the rest ambiguity, of a case that the posterior settles. A reader who sees "100 %" beside "the case
fits more than one label" has been told neither. So the words say whose uncertainty it is, and how sure that
one could be.
"""

from __future__ import annotations

from collections.abc import Mapping
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
