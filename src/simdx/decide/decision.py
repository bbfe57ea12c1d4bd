"""The decision: accept, likely, test further, or send to review, with every reason in plain words.

Doubt whether the *panel* applies (a text unlike the panel, views that contradict the answer, a feature of
the case that a person must see) leads to review. Doubt about the *answer* (probability elsewhere, entropy, a
label that must not be missed, a sentence that the leading label does not explain) leads to more tests. A
utility matrix, where given, replaces the thresholds of the second kind by the decision of largest expected
utility. All reasons that hold are collected; the most serious one decides. An answer within every limit is
`accept` only where labelled cases have shown how often accepted answers are wrong (`policy`). Otherwise it is
`likely`, and the reasons say what is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simdx.answer import DecisionAnswer, alarm_words, percent
from simdx.decide.policy import Policy
from simdx.panels.schema import matching
from simdx.types import NONE_OF_THESE, Float, Mask, Panel

ROUND_FIGURES = Policy()
# A prior below this almost excludes a label; with more than 50 labels the limit is half an even share.
EXCLUDED = 0.01
NOT_ACCEPTED = "not accepted automatically"
# Effective simulations below which an answer rests on one or two texts that may be nonsense.
LEAST_EFFECTIVE = 3.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one answer before the decision."""

    posterior: Float  # (K,) of the labels as shown to users; with none of these they sum to one
    entropy_bits: float
    out_of_class: float | None = None
    typicality: float | None = None
    aleatoric_bits: float | None = None
    epistemic_bits: float | None = None
    alarm: bool | None = None
    alarm_p: float | None = None
    preferred: tuple[str, ...] = ()  # the label each independent view puts first
    conformal_set: tuple[str, ...] | None = None
    effective_simulations: float | None = None
    refuted: tuple[str, ...] = ()  # reasons against accepting any answer from this bank
    missing: tuple[str, ...] = ()  # what the panel lacks for an answer to be accepted
    prior: Float | None = None  # (K,); None: even
    even: Float | None = None  # (K,) the posterior under an even prior, if the given prior excludes labels
    unexplained: tuple[str, ...] = ()  # sentences that the leading label does not explain
    red_flags: tuple[str, ...] = ()  # red flags in those sentences, as the library names them
    rival: tuple[str, float] | None = None  # an emergency that the label could hide, and its probability
    text: str = ""
    foreign: bool = False  # the text is not in the bank's language
    silent: bool = False  # the text states nothing as present
    # The label that leads, and its probability, if only findings stated as present are read.
    stated: tuple[str, float] | None = None


def decide(
    panel: Panel, facts: Facts, policy: Policy = ROUND_FIGURES, promise: str | None = None
) -> DecisionAnswer:
    """The decision on one answer with its reasons; `promise`: the guaranteed error rate, if there is one."""
    review = list(_review_reasons(panel, facts, policy))
    within = None
    if policy.utility is None:
        test = list(_test_reasons(panel, facts, policy))
    else:
        choice, within = _by_utility(panel, facts, policy.utility)
        test = [within] if choice == "test" else []
        review += [within] if choice == "review" else []
    test += _other_doubts(panel, facts, policy.thresholds.must_not_miss)
    outside = facts.out_of_class or 0.0
    if not (review or test) and outside > facts.posterior.max():  # only a label can be accepted
        test = [f"none of these leads with {percent(outside)}"]
    action: Literal["accept", "likely", "test", "review"] = "review" if review else "test"
    reasons = (*review, *test)
    # Labels that must not be missed but cannot lead under the user's prior or choice of labels.
    prior = facts.prior
    set_aside = [] if prior is None else [
        f"'{panel.names[i]}' must not be missed, and its prior is {100 * prior[i]:.2g} %"
        for i in np.flatnonzero(excluded(prior)).tolist() if panel.labels[i].must_not_miss
    ]  # fmt: skip
    if not reasons and (missing := (*facts.missing, *set_aside)):
        action, reasons = "likely", (f"{NOT_ACCEPTED}: {missing[0]}", *missing[1:])
    elif not reasons:
        top = int(facts.posterior.argmax())
        shown = percent(facts.posterior[top])
        within = within or f"'{panel.names[top]}' has probability {shown}; all safety checks passed"
        action, reasons = "accept", (within,)
    return DecisionAnswer(action=action, reason="; ".join(reasons), reasons=reasons, promise=promise)


def excluded(prior: Float) -> Mask:
    """(K,) labels that a prior excludes or almost excludes."""
    return prior < min(EXCLUDED, 0.5 / len(prior))


def _review_reasons(panel: Panel, facts: Facts, policy: Policy) -> Iterator[str]:
    limit = policy.thresholds
    rules = (*panel.review_rules, *(rule.to_rule() for rule in policy.review_rules))
    if facts.foreign:
        yield "the text does not read as English, the language of the simulated texts"
    if facts.silent:
        yield "the text states nothing as present: every finding is denied, past, normal or another person's"
    for rule in matching(rules, facts.text):
        yield rule.reason or f"the text matches the review rule '{rule.name}'"
    if _reaches(facts.out_of_class, limit.out_of_class):
        yield f"none of these is more likely than any label ({percent(facts.out_of_class or 0.0)})"
    if facts.typicality is not None and limit.typicality is not None and facts.typicality < limit.typicality:
        yield (
            f"the text is unlike the simulated ones (only {percent(facts.typicality)} are so isolated): "
            "the probabilities may not apply"
        )
    if limit.alarm and facts.alarm:
        claimed = panel.names[int(facts.posterior.argmax())]
        yield alarm_words(claimed, facts.preferred, facts.alarm_p, raised=True)
    if _exceeds(facts.epistemic_bits, limit.epistemic_bits):
        yield (
            f"D-SMC is unsure of its probabilities (epistemic "
            f"{facts.epistemic_bits:.3f} bits, limit {limit.epistemic_bits:.3f})"
        )


def _test_reasons(panel: Panel, facts: Facts, policy: Policy) -> Iterator[str]:
    limit, names, p = policy.thresholds, panel.names, facts.posterior.tolist()
    order = sorted(range(len(p)), key=lambda i: -p[i])
    top, second = order[0], order[min(1, len(order) - 1)]  # a panel made on the fly may have one label
    for i in order[1:]:
        if panel.labels[i].must_not_miss and _reaches(p[i], limit.must_not_miss):
            yield f"'{names[i]}' must not be missed and still has {percent(p[i])}"
    outside = facts.out_of_class or 0.0
    if limit.confident is not None and p[top] < limit.confident and outside <= p[top]:
        against = f"against {percent(p[second])} for '{names[second]}'"
        if outside > p[second]:
            against = f"against {percent(outside)} for none of these"
        yield f"'{names[top]}' leads with only {percent(p[top])}, {against}"
    elif limit.confident is not None and p[top] < limit.confident:
        said = f"no label has over {percent(p[top])}; none of these has {percent(outside)}"
        yield said.replace("has over under 1 %", "reaches 1 %")
    if policy.origin.refuted:
        yield (
            f"auto-accept is off: too many confident answers to the bank's own {policy.origin.n} "
            "texts were wrong"
        )
    elif _exceeds(facts.entropy_bits, limit.entropy_bits):
        yield (
            f"the probabilities are too spread out (entropy {facts.entropy_bits:.2f} bits, limit "
            f"{limit.entropy_bits:.2f})"
        )
    if _exceeds(facts.aleatoric_bits, limit.aleatoric_bits):
        yield (
            f"D-SMC finds the case ambiguous (aleatoric {facts.aleatoric_bits:.2f} "
            f"bits, limit {limit.aleatoric_bits:.2f})"
        )
    risk = policy.risk
    if risk is not None and risk.entropy_bits is None:
        yield f"no threshold keeps errors at or below {risk.target:.0%} of cases"
    elif risk is not None and _exceeds(facts.entropy_bits, risk.entropy_bits):
        yield (
            f"at most {risk.target:.0%} errors are guaranteed only up to {risk.entropy_bits:.2f} bits of "
            f"entropy; this answer has {facts.entropy_bits:.2f}"
        )
    if facts.conformal_set is not None and len(facts.conformal_set) != 1 and policy.conformal is not None:
        listed = ", ".join(f"'{name}'" for name in facts.conformal_set) or "no label"
        yield f"the conformal {policy.conformal.level:.0%} set holds {listed}"


def _other_doubts(panel: Panel, facts: Facts, kept: float | None) -> Iterator[str]:
    """Doubts that hold under every policy: missing evidence, or findings that stay unexplained."""
    label = panel.names[int(facts.posterior.argmax())]
    if facts.refuted:
        yield f"auto-accept is off: {'; '.join(facts.refuted)}"
    if facts.prior is not None and facts.even is not None:
        for i in np.flatnonzero(excluded(facts.prior)).tolist():
            name, p = panel.names[i], float(facts.even[i])
            if facts.even.argmax() == i:
                yield f"the prior excludes '{name}', which would lead with {percent(p)} under an even one"
            elif panel.labels[i].must_not_miss and _reaches(p, kept):
                yield f"'{name}' must not be missed and would have {percent(p)} under an even prior"
    if facts.unexplained:
        n = len(facts.unexplained)  # only their number: reasons are logged, and case text must not be
        flags = f" ({'; '.join(facts.red_flags)})" if facts.red_flags else ""
        yield f"{n} sentence{'s' * (n > 1)} not explained by '{label}'{flags}"
    if facts.stated is not None:
        name, p = facts.stated
        yield (
            f"the findings stated as present support '{name}' with only {percent(p)}"
            if name == label
            else (f"the findings stated as present support '{name}' ({percent(p)})")
        )
    if facts.rival is not None:
        yield f"could be {facts.rival[0]} (emergency), {percent(facts.rival[1])}"
    few = facts.effective_simulations
    if few == 0:
        yield "the calibration of this method was never measured"
    elif few is not None and few < LEAST_EFFECTIVE:
        yield f"only {few:.1f} simulated texts are like this one; the minimum is {LEAST_EFFECTIVE:g}"


def _by_utility(panel: Panel, facts: Facts, utility: dict[str, dict[str, float]]) -> tuple[str, str]:
    """The decision of largest expected utility, with a sentence; ties go to the more cautious one."""
    outside = facts.out_of_class or 0.0
    expected = {}
    for decision, row in utility.items():
        values = np.array([row[name] for name in panel.names])
        of_none = row.get(NONE_OF_THESE, float(values.mean()))  # if not stated: the mean of the labels
        expected[decision] = float(values @ facts.posterior) + outside * of_none
    caution = {"review": 2, "test": 1}
    ranked = sorted(expected, key=lambda d: (-round(expected[d], 12), -caution.get(d, 0)))
    best, next_best = ranked[0], ranked[1]
    said = {
        "test": "testing further" if panel.is_clinical else "checking further",
        "review": "sending to review",
    }
    first, second = (said.get(d, f"accepting '{d}'") for d in (best, next_best))
    sentence = (
        f"{first} has the largest expected utility ({expected[best]:.2f}), before {second} "
        f"({expected[next_best]:.2f})"
    )
    return (best if best in caution else "accept"), sentence


def _exceeds(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def _reaches(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value >= limit
