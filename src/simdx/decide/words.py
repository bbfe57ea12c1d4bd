"""A policy in plain words, one line a rule: what `simdx policy show` prints."""

from __future__ import annotations

from collections.abc import Iterator

from simdx.decide.policy import Policy
from simdx.decide.tune import LEAST_REHEARSED


def policy_words(policy: Policy) -> Iterator[str]:
    yield f"policy for {policy.panel or 'any panel'}, thresholds from {_source(policy)}"
    yield from _thresholds(policy)
    if policy.risk is not None:
        r = policy.risk
        if r.entropy_bits is None:
            yield f"  test    always: no threshold keeps errors under {r.target:.0%} on {r.n} cases"
        else:
            yield (
                f"  test    if entropy exceeds {r.entropy_bits:.2f} bits: below it at most "
                f"{r.target:.0%} errors, with {r.confidence:.0%} confidence "
                f"({r.errors} of {r.accepted} accepted were wrong)"
            )
    if policy.conformal is not None:
        c = policy.conformal
        yield (
            f"  test    if the {c.level:.0%} conformal set ({c.kind}, from {c.n} cases) does not hold "
            "exactly one label"
        )
    for rule in policy.review_rules:
        yield f"  review  if the case meets the rule '{rule.name}'"
    if policy.utility is not None:
        yield "  utility matrix: the decision of largest expected utility replaces thresholds on the answer"
        for decision, row in policy.utility.items():
            yield f"    {decision}: " + ", ".join(f"{label} {value:g}" for label, value in row.items())


def too_few(policy: Policy) -> str | None:
    """Why a policy tuned on a bank holds round figures all the same; None for every other policy."""
    origin = policy.origin
    if origin.source != "round figures" or not origin.made_for:
        return None
    few = f"the bank's {origin.n} descriptions are too few to find limits on ({LEAST_REHEARSED} are needed)"
    if policy.refuted:
        return few
    return f"{few}, so that 'accept' promises no rate of errors"


def _source(policy: Policy) -> str:
    origin = policy.origin
    if origin.source == "round figures":
        few = too_few(policy)
        return "round figures" + (f": {few}" if few else "")
    risk = "" if origin.risk is None else f", at most {origin.risk:.0%} errors"
    return f"{origin.n} {'simulated texts' if origin.source == 'simulated text' else 'labelled cases'}{risk}"


def _thresholds(policy: Policy) -> Iterator[str]:
    t, auroc = policy.thresholds, policy.origin.auroc

    def known(name: str) -> str:
        value = auroc.get(name)
        return "" if value is None else f" (AUROC for errors {value:.2f})"

    if t.out_of_class is not None:
        yield f"  review  if the probability of none of these is at least {t.out_of_class:g}"
    if t.typicality is not None:
        yield f"  review  if typicality is below {t.typicality:g}"
    if t.alarm:
        yield "  review  if independent views support the answer less than is usual for a correct one"
    if t.epistemic_bits is not None:
        yield f"  review  if epistemic uncertainty exceeds {t.epistemic_bits:g} bits{known('epistemic_bits')}"
    elif "epistemic_bits" in auroc:
        yield f"  epistemic bits are not used: they do not tell errors here{known('epistemic_bits')}"
    if policy.utility is not None:
        return
    if t.must_not_miss is not None:
        yield f"  test    if a must-not-miss label that does not lead keeps at least {t.must_not_miss:g}"
    if t.confident is not None:
        yield f"  test    if the leading label has less than {t.confident:g}"
    if policy.refuted:
        yield "  test    always: too many confident answers to the bank's own descriptions were wrong"
    elif t.entropy_bits is not None:
        yield f"  test    if entropy exceeds {t.entropy_bits:g} bits{known('entropy_bits')}"
    if t.aleatoric_bits is not None:
        yield f"  test    if aleatoric uncertainty exceeds {t.aleatoric_bits:g} bits{known('aleatoric_bits')}"
