"""Sentences about an answer, for every reader: the terminal, the page, the HTML report, the card.

One vocabulary: a decision is one of `ACTIONS`, a probability is `percent`, the alarm's views are "other
readings of the text", D-SMC beside another method is "the second comparison".

The alarm weighs *how much* the readings say, not how many there are: it can be raised while all of them put
the answer first, only weakly, and stay silent while none does. So the sentence counts who puts what first,
and says how many correct answers have no more support; it never says that readings agree or contradict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose

NEXT_TO_NOTHING = 0.005  # bits
ACTIONS = {"accept": "Accept", "likely": "Likely", "test": "Test further", "review": "Send to review"}
NO_PROMISE = "no error rate is promised"


def leading(label: str, posterior: Mapping[str, float]) -> str:
    """The outcome that leads, with its probability."""
    return f"{label}, {percent(posterior[label])}"


def headline(action: str, lead: str) -> str:
    """A case sent to review is not announced as the label it may well not be."""
    return ACTIONS[action] if action == "review" else f"{ACTIONS[action]}: {lead}"


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
    ceiling = "" if cap is None else f" (the most it could give a label here is {percent(cap)})"
    whose = (
        f"D-SMC gives {said}{ceiling}."
        if same
        else f"The second comparison (D-SMC) is blunter and not the answer: it gives {said}{ceiling}."
    )
    if total_bits < NEXT_TO_NOTHING:
        return f"{whose} It leaves next to no uncertainty."
    share = min(1.0, max(0.0, aleatoric_bits / total_bits))
    return (
        f"{whose} Of its {total_bits:.2f} bits of uncertainty, {percent(share)} would be left whatever was "
        f"simulated (aleatoric: more tests help), and {percent(1 - share)} is doubt about the probabilities "
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
    who = f"all {total}" if mine == total else f"{mine or 'none'} of {total}"
    own = f"{who} other readings of the text {'puts' if mine <= 1 else 'put'} '{label}' first"
    return ", ".join([own, *(f"{n} '{name}'" for name, n in votes.most_common(most))])


def alarm_words(label: str, preferred: Sequence[str], p_value: float | None, raised: bool) -> str:
    """What the alarm found, as a clause of its own."""
    if not preferred:
        return f"there is no other reading of the text to hold against '{label}'"
    votes, all_for_it = preferences(label, preferred), set(preferred) == {label}
    share = percent(p_value) if p_value is not None else "few" if raised else "many"
    if raised:
        weakly = ", but weakly" if all_for_it else ""
        return f"{votes}{weakly}: only {share} of correct answers have so little support"
    if all_for_it:
        return votes
    return f"{votes}; not unusual, as {share} of correct answers have no more support"
