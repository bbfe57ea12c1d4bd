"""Sentences about an answer, for every reader: the terminal, the page, the HTML report, the card.

One vocabulary: a decision is one of `ACTIONS`, a probability is `percent`, the alarm's views are "other
readings of the text", D-SMC beside another method is "the second comparison".

The alarm weighs *how much* the readings say, not how many there are: it can be raised while all of them put
the answer first, only weakly, and stay silent while none does. So the sentence counts who puts what first,
and says how many correct answers are as weakly supported; it never says that readings agree or contradict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose

NEXT_TO_NOTHING = 0.005  # bits
ACTIONS = {"accept": "Accept", "likely": "Likely", "test": "Test further", "review": "Send to review"}
NO_PROMISE = "no error rate guaranteed"


def leading(label: str, posterior: Mapping[str, float]) -> str:
    """The outcome that leads, with its probability."""
    return f"{label}, {percent(posterior[label])}"


def percent(p: float) -> str:
    """Whole percents, and never a certainty that is only rounding."""
    return (
        f"{100 * p:.0f} %" if p in (0, 1) or 0.005 <= p < 0.995 else "over 99 %" if p > 0.5 else "under 1 %"
    )


def simplex_words(
    label: str,
    among_labels: Mapping[str, float],
    mean: Mapping[str, float],
    total_bits: float,
    aleatoric_bits: float,
    cap: float | None = None,
) -> str:
    """`label` leads the posterior among the labels, the rest is D-SMC's own."""
    same = drawn_around(among_labels, mean)
    lead = max(mean, key=lambda name: mean[name])
    said = f"{percent(mean[label])} to '{label}'"
    if lead != label:
        said = f"{percent(mean[lead])} to '{lead}' and {said}"
    ceiling = "" if cap is None else f" (its maximum here is {percent(cap)})"
    whose = (
        f"D-SMC gives {said}{ceiling}."
        if same
        else f"D-SMC, a second and blunter comparison, is not the answer: it gives {said}{ceiling}."
    )
    if total_bits < NEXT_TO_NOTHING:
        return f"{whose} It leaves almost no uncertainty."
    share = min(1.0, max(0.0, aleatoric_bits / total_bits))
    return (
        f"{whose} Of its {total_bits:.2f} bits of uncertainty, {percent(share)} is ambiguity of the case "
        f"(aleatoric: more tests help), and {percent(1 - share)} is doubt about the probabilities "
        "themselves (epistemic: review helps)."
    )


def drawn_around(among_labels: Mapping[str, float], mean: Mapping[str, float]) -> bool:
    """Is the second order the answer's own, so that it may be drawn around it?"""
    return all(isclose(mean[name], p, abs_tol=1e-6) for name, p in among_labels.items())


def preferences(label: str, preferred: Sequence[str], most: int = 2) -> str:
    """Who puts what first: `preferred` is the label each reading puts first."""
    total = len(preferred)
    votes = Counter(preferred)
    mine = votes.pop(label, 0)
    if total == 1:
        return f"the one other reading of the text puts '{preferred[0]}' first"
    every, no = ("both", "neither of the 2") if total == 2 else (f"all {total}", f"none of the {total}")
    who = every if mine == total else f"{mine} of {total}" if mine else no
    own = f"{who} other readings of the text {'puts' if mine <= 1 else 'put'} '{label}' first"
    return ", ".join([own, *(f"{n} '{name}'" for name, n in votes.most_common(most))])


def alarm_words(label: str, preferred: Sequence[str], p_value: float | None, raised: bool) -> str:
    """What the alarm found, as a clause of its own."""
    if not preferred:
        return f"no other reading of the text is available to check '{label}'"
    votes, all_for_it = preferences(label, preferred), set(preferred) == {label}
    share = "few" if raised else "many"
    if p_value is not None:
        share = "fewer than 1 %" if 0 < p_value < 0.005 else percent(p_value)
    if raised:
        weakly = ", but weakly" if all_for_it else ""
        return f"{votes}{weakly}: {share} of correct answers are this weakly supported"
    if all_for_it:
        return votes
    return f"{votes}; not unusual: {share} of correct answers are as weakly supported"


# An emergency is named beside an answer from this probability on, or from half of the leading label's.
NEAR, LEAST_NEAR = 0.05, 0.01
MOST_NEAR = 3


def outside_words(
    none_leads: bool, lead: float, nearest: Sequence[tuple[str, float, bool]], most: int = MOST_NEAR
) -> str | None:
    """What none of these may be: the nearest condition where none of these leads, and emergencies that come
    near the leading label. `lead` is that label's probability, `nearest` has (condition, probability,
    emergency), the most probable first."""
    least = max(LEAST_NEAR, min(NEAR, lead / 2))
    named = [(name, p) for name, p, emergency in nearest if emergency and p >= least][:most]
    if not none_leads:
        said = [f"{name} (emergency), {percent(p)}" for name, p in named]
        return f"also possible: {', '.join(said)}" if said else None
    if not nearest:
        return None
    first, _, urgent = nearest[0]
    others = [f"{name} (emergency)" for name, _ in named if name != first]
    also = f"; also near: {', '.join(others)}" if others else ""
    return f"none of these; nearest: {first}{' (emergency)' * urgent}{also}"
