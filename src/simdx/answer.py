"""One answer, whole: what `classify --json` prints, what the service documents, what Python returns.

One typed model; JSON, OpenAPI, the page and the terminal are all read from it. A capability that is not there
is null, never missing.

The sentences about an answer are the same for every reader: the terminal, the page, the HTML report, the
card. A decision is one of `ACTIONS`, a probability is `percent`, the alarm's views are "other readings of the
text", D-SMC beside another method is "the second comparison". The alarm weighs *how much* the readings say,
not how many there are: it can be raised while all of them put the answer first, only weakly, and stay silent
while none does. So the sentence counts who puts what first, and says how many correct answers are as weakly
supported; it never says that readings agree or contradict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from simdx.types import NONE_OF_THESE, Float, SecondOrder, Trace

_BITS = ("total_bits", "aleatoric_bits", "epistemic_bits")
_STEPS = ("tolerance", "acceptance", "simulations", "ess", "entropy_bits")  # of a trace
NEXT_TO_NOTHING = 0.005  # bits
ACTIONS = {"accept": "Accept", "likely": "Likely", "test": "Test further", "review": "Send to review"}
GENERAL_ACTIONS = {**ACTIONS, "test": "Check further"}  # of a panel that is not about illness
NO_PROMISE = "supported by labelled cases, no error rate guaranteed"


def leading(label: str, posterior: Mapping[str, float]) -> str:
    """The outcome that leads, with its probability."""
    return f"{label}, {percent(posterior[label])}"


def action_words(action: str, clinical: bool = True) -> str:
    """The decision's name. A panel that is not about illness orders no tests."""
    return (ACTIONS if clinical else GENERAL_ACTIONS)[action]


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
        else f"D-SMC, a second and less precise method, is not the answer: it gives {said}{ceiling}."
    )
    if total_bits < NEXT_TO_NOTHING:
        return f"{whose} It leaves almost no uncertainty."
    share = min(1.0, max(0.0, aleatoric_bits / total_bits))
    return (
        f"{whose} Of its {total_bits:.2f} bits of uncertainty, {percent(share)} is ambiguity of the case "
        f"(aleatoric: more information helps), and {percent(1 - share)} is doubt about the probabilities "
        "themselves (epistemic: review helps)."
    )


def drawn_around(among_labels: Mapping[str, float], mean: Mapping[str, float]) -> bool:
    """Is the second order the answer's own, so that it may be drawn around it?"""
    return all(isclose(mean[name], p, abs_tol=1e-6) for name, p in among_labels.items())


def preferences(label: str, preferred: Sequence[str]) -> str:
    """Who puts what first: `preferred` is the label each reading puts first."""
    total = len(preferred)
    votes = Counter(preferred)
    mine = votes.pop(label, 0)
    if total == 1:
        return f"the one other reading of the text puts '{preferred[0]}' first"
    every, no = ("both", "neither of the 2") if total == 2 else (f"all {total}", f"none of the {total}")
    who = every if mine == total else f"{mine} of {total}" if mine else no
    own = f"{who} other readings of the text {'puts' if mine <= 1 else 'put'} '{label}' first"
    return ", ".join([own, *(f"{n} '{name}'" for name, n in votes.most_common(2))])


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


def outside_words(none_leads: bool, lead: float, nearest: Sequence[tuple[str, float, bool]]) -> str | None:
    """What none of these may be: the nearest condition where none of these leads, and emergencies that come
    near the leading label. `lead` is that label's probability, `nearest` has (condition, probability,
    emergency), the most probable first."""
    least = max(LEAST_NEAR, min(NEAR, lead / 2))
    named = [(name, p) for name, p, emergency in nearest if emergency and p >= least][:MOST_NEAR]
    if not none_leads:
        said = [f"{name} (emergency), {percent(p)}" for name, p in named]
        return f"also possible: {', '.join(said)}" if said else None
    if not nearest:
        return None
    first, _, urgent = nearest[0]
    others = [f"{name} (emergency)" for name, _ in named if name != first]
    also = f"; also near: {', '.join(others)}" if others else ""
    return f"none of these; nearest: {first}{' (emergency)' * urgent}{also}"


# --------------------------------------------------------------------------- the model


class Part(BaseModel):
    # Every field is always there, null where there is nothing to say: the schema must promise it.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)


class Evidence(Part):
    """A simulated text that carried the answer, and its share of it where the method is a kernel."""

    label: str
    text: str
    distance: float
    share: float | None = None


class ViewAnswer(Part):
    """What an independent view prefers, and the probability it gives the answer's own label."""

    view: str
    label: str
    probability: float


class AlarmAnswer(Part):
    """Do independent views of the case contradict the answer? `score` is log odds against its label."""

    score: float
    flag: bool
    p_value: float
    views: tuple[ViewAnswer, ...] = ()


class FlipAnswer(Part):
    """If the prior of the present label were `prior` (others in proportion), the answer would be `label`."""

    label: str
    prior: float


class SentenceEffect(Part):
    """A part of the case and what the leading outcome's probability owes to it."""

    text: str
    effect: float


class SentencePair(Part):
    """A sentence of the case and one that says much the same in text number `evidence`, with shared words."""

    case: str
    evidence: int
    sentence: str
    words: tuple[str, ...]


class MissingFinding(Part):
    """A finding to ask about, in the bank's words, and the label it speaks for.

    `entropy_bits` is the entropy now, `expected_bits` the entropy expected once the finding is known.
    """

    finding: str
    speaks_for: str
    entropy_bits: float
    expected_bits: float


class SecondOrderAnswer(Part):
    """The simplex posterior's own summary. Entropies in bits."""

    mean: dict[str, float]
    total_bits: float
    aleatoric_bits: float
    epistemic_bits: float
    alpha0: float | None
    cap: float | None = None

    @classmethod
    def of(cls, names: Sequence[str], second: SecondOrder, case: int) -> SecondOrderAnswer:
        bits = {name: float(getattr(second, name)[case]) for name in _BITS}
        return cls(
            mean=by_name(names, second.mean[case]), **bits, alpha0=float(second.alpha0[case]), cap=second.cap
        )


class NearCondition(Part):
    """A condition of the library that is no label of the panel, and its share of the whole posterior.

    Of a panel that is not about illness it is an everyday topic.
    """

    condition: str
    probability: float
    emergency: bool


class OutsideAnswer(Part):
    """Which conditions none of these most probably is, the most probable first."""

    nearest: tuple[NearCondition, ...]


class RedFlagAnswer(Part):
    """A finding that points to what must not be missed, and that the leading label does not explain."""

    sentence: str
    finding: str
    condition: str

    @property
    def words(self) -> str:
        return f"{self.finding}, a red flag of {self.condition}"


class TextSpan(Part):
    """Characters of the case that do not count as the patient's present findings, and why."""

    start: int
    end: int
    assertion: Literal["negated", "possible", "hypothetical", "past", "family", "normal"]


class DecisionAnswer(Part):
    """What to do with the answer, and why, in plain words; `reason` is all `reasons` in one line.

    `promise` is the rate of errors that accepted answers keep to, where labelled cases have shown one.
    """

    action: Literal["accept", "likely", "test", "review"]
    reason: str
    reasons: tuple[str, ...] = ()
    promise: str | None = None


class CalibrationAnswer(Part):
    """What the probabilities rest on: cases of the user's own, rehearsed simulated text, or other panels."""

    basis: Literal["measured", "rehearsed", "transferred"]
    sentence: str
    n: int  # cases measured, or texts rehearsed
    writers: int  # kinds of writing that were rehearsed
    ece: float | None
    ece_interval: tuple[float, float] | None


class SamplerAnswer(Part):
    """How a sampler ended ("complete", "acceptance", "floor", "budget", "nothing accepted"), step by step."""

    outcome: str
    populations: int  # that ran; the last one is the answer
    steps: tuple[dict[str, float], ...]

    @classmethod
    def of(cls, trace: Trace, case: int) -> SamplerAnswer:
        """What each of the case's own populations (or rounds of fresh simulations) did."""
        own = int(trace.populations[case])
        steps = tuple(
            {"population": t + 1, **{name: getattr(trace, name)[t, case].item() for name in _STEPS}}
            for t in range(own)
        )
        return cls(outcome=trace.outcome[case], populations=own, steps=steps)

    @property
    def cut_short(self) -> str | None:
        """What to tell the reader where the sampler stopped early."""
        if self.outcome == "budget":
            return (
                f"stopped early: the budget was used up at step {self.populations}; "
                "raise --budget to continue"
            )
        if self.outcome == "nothing accepted":
            return "nothing came within the tolerance: the answer is the prior"
        return None


class Provenance(Part):
    """Everything needed to say where an answer came from, and to get it again."""

    bank: str
    fit: str | None = None  # hash of all that was fitted to the bank; null where a fit is not kept
    embedder: str
    reading: str = "plain"  # how denied findings counted (`simdx.reading.as_read`)
    prior: dict[str, float]
    alpha0: float
    kernel: Literal["soft", "hard"] | None  # null for a method that has none
    tolerance: float | None
    seed: int
    version: str
    remote: bool = False
    policy: str = ""
    notes: tuple[str, ...] = ()
    live: dict[str, Any] | None = None  # what fresh simulations cost, for the live engine
    sampler: SamplerAnswer | None = None  # null for closed forms


class Answer(Part):
    """A posterior over the panel's labels with its uncertainty, its reasons and its origin.

    A method that estimates none of these has it as an outcome: the last key of `posterior`, which sums to one
    with it, and a possible `label`; `out_of_class` is its probability. `among_labels` is the posterior given
    that the case has one of the labels. `simdx classify --json` prints exactly this.
    """

    panel: str
    method: str
    engine: str
    label: str
    posterior: dict[str, float]
    among_labels: dict[str, float]
    entropy_bits: float
    second_order: SecondOrderAnswer | None
    typicality: float | None
    out_of_class: float | None
    alarm: AlarmAnswer | None = None
    conformal_set: tuple[str, ...] | None = None
    effective_simulations: float | None
    decision: DecisionAnswer
    voices: dict[str, dict[str, float]] | None = None  # each voice's own posterior, where several were pooled
    calibration: CalibrationAnswer | None = None  # null: this method's calibration was never measured
    evidence: tuple[Evidence, ...]
    sentences: tuple[SentenceEffect, ...] | None = None
    outside: OutsideAnswer | None = None  # null: no library stands against the panel
    unexplained: tuple[str, ...] = ()  # sentences that the leading label does not explain
    red_flags: tuple[RedFlagAnswer, ...] = ()  # what marks such a sentence, where a red flag does
    spans: tuple[TextSpan, ...] = ()  # what was read as denied, normal, past, possible or of somebody else
    flip: FlipAnswer | None = None
    missing_finding: MissingFinding | None = None
    provenance: Provenance
    clinical: bool = Field(default=True, exclude=True)  # is the panel about illness? Chooses words alone

    @property
    def leading(self) -> str:
        """The leading outcome with its probability."""
        return leading(self.label, self.posterior)

    @property
    def leading_label(self) -> str:
        """The most probable label, none of these apart: the alarm and D-SMC speak of it."""
        return max(self.among_labels, key=lambda label: self.among_labels[label])

    @property
    def headline(self) -> str:
        """The decision in a line; a case sent to review is not announced as the label it may well not be."""
        said = action_words(self.decision.action, self.clinical)
        return said if self.decision.action == "review" else f"{said}: {self.leading}"

    @property
    def second_order_is_its_own(self) -> bool:
        """Does the second order belong to the posterior shown, and not to D-SMC beside it?"""
        second = self.second_order
        return second is not None and drawn_around(self.among_labels, second.mean)

    @property
    def uncertainty_words(self) -> str | None:
        """The split of uncertainty, in words that fit beside the posterior; None without a second order."""
        second = self.second_order
        if second is None:
            return None
        its = second.mean, second.total_bits, second.aleatoric_bits, second.cap
        return simplex_words(self.leading_label, self.among_labels, *its)

    @property
    def alarm_words(self) -> str | None:
        """What the alarm found and what the views prefer; None where there is no alarm."""
        if self.alarm is None:
            return None
        preferred = [view.label for view in self.alarm.views]
        return alarm_words(self.leading_label, preferred, self.alarm.p_value, self.alarm.flag)

    @property
    def outside_words(self) -> str | None:
        """The condition nearest to none of these, and emergencies to think of; None: nothing to name."""
        if self.outside is None:
            return None
        lead = max(p for label, p in self.posterior.items() if label != NONE_OF_THESE)
        near = [(n.condition, n.probability, n.emergency) for n in self.outside.nearest]
        return outside_words((self.out_of_class or 0.0) > lead, lead, near)

    def why_unexplained(self, sentence: str) -> str:
        """Of a sentence that the leading label does not explain: that it is so, and the red flags in it."""
        flags = [flag.words for flag in self.red_flags if flag.sentence == sentence]
        return f"not explained by {self.leading_label}" + (f" ({'; '.join(flags)})" if flags else "")

    def quoted(self, text: str, part: str) -> list[tuple[str, bool]]:
        """A part of the text in pieces, each with whether it is denied."""
        at, done = text.find(part), 0
        if at < 0:  # put together of sentences that the text separates otherwise
            return [(part, False)]
        pieces: list[tuple[str, bool]] = []
        for span in self.spans:
            start, end = max(span.start - at, done), min(span.end - at, len(part))
            if span.assertion == "negated" and start < end:
                pieces += [(part[done:start], False), (part[start:end], True)]
                done = end
        return [piece for piece in (*pieces, (part[done:], False)) if piece[0]]

    def to_json(self) -> dict[str, Any]:
        """The contract's object, of plain JSON types."""
        return self.model_dump(mode="json")


def by_name(names: Sequence[str], values: Float) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))
