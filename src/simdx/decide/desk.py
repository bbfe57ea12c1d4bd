"""The desk: everything between a posterior and a decision, for one fitted method.

It takes a batch of answers, with the policy and the alarm that were tuned on simulated text (`thresholds`),
and adds alarm, conformal set, sentences, flip, missing finding and decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from simdx.abc.prior import Prior
from simdx.answer import (
    AlarmAnswer,
    DecisionAnswer,
    FlipAnswer,
    MissingFinding,
    OutsideAnswer,
    RedFlagAnswer,
    SentenceEffect,
    ViewAnswer,
)
from simdx.decide import explain as why
from simdx.decide.alarm import Alarms, outvoted
from simdx.decide.beyond import beyond_of
from simdx.decide.decision import Facts, decide, excluded
from simdx.decide.policy import OTHER, UNTESTED, AcceptEvidence, Policy, too_few
from simdx.decide.thresholds import TunedThresholds
from simdx.embedders.base import embed_cached
from simdx.errors import BadInput
from simdx.methods.calibration_record import copied
from simdx.methods.fitted import AnswerTable
from simdx.methods.panel_data import Observations
from simdx.reading import is_english, says_something, stated_now, states_own
from simdx.types import NONE_OF_THESE, Float, Int, Mask


class DecisionParts(NamedTuple):
    """What the desk adds to one answer, under the names in `Answer`. None: not requested, or not known."""

    decision: DecisionAnswer
    alarm: AlarmAnswer
    conformal_set: tuple[str, ...] | None
    sentences: tuple[SentenceEffect, ...] | None
    flip: FlipAnswer | None
    missing_finding: MissingFinding | None
    outside: OutsideAnswer | None
    unexplained: tuple[str, ...]
    red_flags: tuple[RedFlagAnswer, ...]
    notes: tuple[str, ...]


ENOUGH = 50  # texts that show a bank's language


class Desk(TunedThresholds):
    @cached_property
    def _english(self) -> bool:
        """Is most of the bank in English? Other languages are not recognised."""
        some = self._data.bank.texts[:ENOUGH]
        return 2 * sum(map(is_english, some)) > len(some)

    @property
    def _cheap(self) -> bool:
        return self._fitted.speed != "slow" and not self._fitted.remote

    @cached_property
    def _clauses(self) -> why.Clauses:
        embedder = self._data.embedder
        return why.Clauses.of(self._data.bank, self.telling, lambda t: embed_cached(embedder, t))

    @cached_property
    def refuted(self) -> tuple[str, ...]:
        """Reasons against accepting any answer from this bank."""
        found, bank = self._fitted.calibration, self._data.bank
        if found is None:
            return copied(bank)
        return (*found.refuted(), *(() if found.checked_on_cases else copied(bank)))

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """What is missing for this panel to accept an answer."""
        found, beside = self._fitted.calibration, self._files.policy
        if self._settings.closed:
            return ("none of these was left out (closed), so another condition would not be noticed",)
        if self.evidence is not None:
            said = list(self.evidence.shortcomings())
        else:
            made = self.policy.evidence or (None if beside is None else beside.evidence)
            said = [UNTESTED if made is None else OTHER]
        if (found is None or found.world is None) and self._medical:
            said.append("the library is not compared with the text: the panel file needs 'world: true'")
        return tuple(said)

    def _lacks(self, none: float | None) -> tuple[str, ...]:
        """What is missing for this answer to be accepted; what the panel lacks comes first."""
        beyond = None if self.missing or self.evidence is None else self.evidence.beyond(none)
        return self.missing if beyond is None else (beyond,)

    @property
    def _medical(self) -> bool:
        """Does any label mean a disease? Then a text can be about any other disease."""
        labels = self._data.panel.labels
        if any(label.icd10 for label in labels):
            return True
        from simdx.library import meant_by  # most panels need not load it

        named = (meant_by(label.name) for label in labels)
        return any(match is not None and match.condition.medical for match in named)

    def alarms(self, observations: Observations, table: AnswerTable) -> tuple[Alarms, Float]:
        """The alarm on each answer, with the posteriors (V, N, K) of the views and of a pool's voices."""
        found, opinions = self.alarm.judge(observations, table.of_labels, table.prior.probabilities)
        if table.voices is None:
            return found, opinions
        # If most voices of a pool prefer another label, one voice alone decides the answer: raise the alarm.
        most = outvoted(table.voices, table.of_labels.argmax(axis=1))
        return replace(found, flag=found.flag | most), np.concatenate([opinions, [*table.voices.values()]])

    def decide(
        self,
        observations: Observations,
        table: AnswerTable,
        *,
        explain: bool = True,
        ask: bool = False,
        note: str | None = None,
    ) -> list[DecisionParts]:
        """These parts for N answers; `explain` adds sentences and flip, `ask` the missing finding, `note` a
        note on how the answers were made."""
        if not observations.texts:
            return []
        panel, prior, of_labels = self._data.panel, table.prior.probabilities, table.of_labels
        names, texts, second = panel.names, observations.texts, table.second_order
        alarms, opinions = self.alarms(observations, table)
        sets, withheld = self._sets(observations, table)
        few = too_few(self.policy)
        said = (None if few is None else f"default thresholds are used: {few}", note)
        notes = (*withheld, *(one for one in said if one is not None))
        sentences = None
        if explain and self._cheap:
            sentences = why.sentence_effects(
                texts, table.posterior, prior,
                lambda some, whole: self._answered(self._data.observe(some, whole), prior).posterior,
            )  # fmt: skip
            if panel.is_clinical:  # denied, normal or relatives' findings are no support
                sentences = [
                    tuple(e for e in effects if e.effect <= 0 or states_own(e.text)) for effects in sentences
                ]
        heard = [view.name for view in self.alarm.views] + [f"voice: {name}" for name in table.voices or ()]
        preferred = opinions.argmax(axis=2).T.tolist()  # by case and view, as is
        agreed = opinions[:, np.arange(len(of_labels)), of_labels.argmax(axis=1)].T.tolist()
        beyond = beyond_of(self._fitted, observations, table)
        none = [None] * len(texts) if table.out_of_class is None else table.out_of_class.tolist()
        # One list for each fact; unknown facts are left out below.
        known: dict[str, Any] = {
            "posterior": of_labels, "out_of_class": none, "even": self._even(observations, prior),
            "entropy_bits": table.entropy_bits.tolist(), "typicality": table.typicality.tolist(),
            "aleatoric_bits": second and second.aleatoric_bits.tolist(),
            "epistemic_bits": second and second.epistemic_bits.tolist(),
            "effective_simulations": table.effective_simulations.tolist(),
            "alarm": alarms.flag.tolist(), "alarm_p": alarms.p_value.tolist(),
            "preferred": [tuple(names[label] for label in labels) for labels in preferred],
            "conformal_set": sets, "missing": list(map(self._lacks, none)),
            "unexplained": [one.unexplained for one in beyond], "rival": [one.rival for one in beyond],
            "red_flags": [tuple(flag.words for flag in one.red_flags) for one in beyond], "text": texts,
            "foreign": [self._english and not is_english(text) for text in texts],
            "silent": [panel.is_clinical and not says_something(stated_now(text)) for text in texts],
        }  # fmt: skip
        columns = {name: column for name, column in known.items() if column is not None}
        promise, out = self._promise(prior), []
        every = [
            Facts(**{k: v[i] for k, v in columns.items()}, refuted=self.refuted, prior=prior)
            for i in range(len(texts))
        ]
        decisions = [decide(panel, facts, self.policy, promise) for facts in every]
        for i, instead in self._stated(texts, decisions, of_labels, prior).items():
            every[i] = replace(every[i], stated=instead)
            decisions[i] = decide(panel, every[i], self.policy, promise)
        for i, (text, facts) in enumerate(zip(texts, every, strict=True)):
            views = tuple(
                ViewAnswer(view=view, label=names[label], probability=p)
                for view, label, p in zip(heard, preferred[i], agreed[i], strict=True)
            )
            score, p_value = float(alarms.score[i]), float(alarms.p_value[i])
            out.append(
                DecisionParts(
                    decision=decisions[i],
                    alarm=AlarmAnswer(score=score, flag=bool(facts.alarm), p_value=p_value, views=views),
                    conformal_set=facts.conformal_set,
                    sentences=None if sentences is None else sentences[i],
                    flip=self._flip(observations, i, table) if explain else None,
                    missing_finding=self._missing(text, table.posterior[i], prior) if ask else None,
                    outside=beyond[i].outside,
                    unexplained=facts.unexplained,
                    red_flags=beyond[i].red_flags,
                    notes=notes,
                )
            )
        return out

    def _stated(
        self, texts: Sequence[str], decisions: Sequence[DecisionAnswer], of_labels: Float, prior: Float
    ) -> dict[int, tuple[str, float]]:
        """If removing findings that are denied, past, normal or another person's changes an answer that
        passes every other check: the label that then leads, with its probability among the labels."""
        if not (self._cheap and self._data.panel.is_clinical):
            return {}
        passed = [i for i, one in enumerate(decisions) if one.action in ("accept", "likely")]
        now = {i: said for i in passed if (said := stated_now(texts[i])) != texts[i]}
        if not now:
            return {}
        seen = self._data.observe([*now.values()], [texts[i] for i in now])
        among = self._answered(seen, prior).among_labels
        names, lead = self._data.panel.names, among.argmax(axis=1).tolist()
        return {
            i: (names[k], float(p[k]))
            for i, k, p in zip(now, lead, among, strict=True)
            if k != of_labels[i].argmax() or p[k] < (self.policy.thresholds.confident or 0.0)
        }

    def under(self, policy: Policy) -> Desk:
        """The same desk under another policy, with the same alarm."""
        other = Desk(self._fitted, self._settings, self._files, policy=policy, own_bank=self._own_bank)
        other.__dict__["alarm"] = self.alarm if policy is self.policy else self.fresh_alarm
        return other

    def tried(self, observations: Observations, table: AnswerTable) -> Float:
        """Which answers pass every check, not counting what the panel lacks; for `none_limit`."""
        parts = self.decide(observations, table, explain=False)
        passed = np.array([one.decision.action in ("accept", "likely") for one in parts], dtype=bool)
        return np.where(passed, -np.inf if table.out_of_class is None else table.out_of_class, np.inf)

    def tuned_on(self, cases: Observations, truth: Int, outside: Observations | None, **how: Any) -> Policy:
        """A policy from labelled cases (`how`: as `tune_on_labelled`); outside cases add evidence."""
        from simdx.decide.tune import FOLDS, folds_in_turn, tune_on_labelled

        answers, panel = self._answered(cases, self._uniform), self._data.panel

        def tuned(rows: Int) -> Policy:
            known = answers.at(rows), truth[rows]
            return tune_on_labelled(panel, *known, self.fresh_alarm, self.fingerprint, **how)

        policy = tuned(np.arange(len(truth)))
        if outside is None:
            return policy
        inside = np.full(len(truth), np.inf)
        fold = folds_in_turn(truth, FOLDS)  # a label's only case is in no fold: it is not accepted
        for f in np.unique(fold[fold >= 0]).tolist():  # each case by a policy tuned without it
            held = np.flatnonzero(fold == f)
            other = self.under(tuned(np.flatnonzero(fold != f)))
            inside[held] = other.tried(cases.at(held), answers.at(held))
        wrong = answers.posterior.argmax(axis=1) != truth
        found = self._evidence(policy, inside, wrong, outside, "labelled cases of the user's own")
        return replace(policy, evidence=found)

    def tried_on(self, cases: Observations, truth: Int, outside: Observations) -> AcceptEvidence:
        """What labelled cases show about accepting under this policy, which was tuned without them."""
        answers = self._answered(cases, self._uniform)
        wrong = answers.posterior.argmax(axis=1) != truth
        return self._evidence(self.policy, self.tried(cases, answers), wrong, outside, "packaged record")

    def _evidence(
        self, policy: Policy, inside: Float, wrong: Mask, outside: Observations, source: str
    ) -> AcceptEvidence:
        beyond = self.under(policy).tried(outside, self._answered(outside, self._uniform))
        return AcceptEvidence.counted(inside, wrong, beyond, self.evidence_key(policy), source)

    @cached_property
    def _uniform(self) -> Float:
        k = len(self._data.panel.names)
        return np.full(k, 1 / k)

    def _answered(self, observations: Observations, prior: Float) -> AnswerTable:
        return self._fitted.answer(observations, Prior(prior, float(len(prior))))

    def _even(self, observations: Observations, prior: Float) -> Float | None:
        """(N, K) posteriors under an even prior, if the given prior excludes labels."""
        if excluded(prior).any() and self._cheap:
            with suppress(
                BadInput
            ):  # an amortised network that was trained for one prior has no other answer
                return self._answered(observations, self._uniform).of_labels
        return None

    def _promise(self, prior: Float) -> str | None:
        """The error rate shown on labelled cases for accepted answers: same bank and method, even prior."""
        risk = self.policy.risk
        held = risk is not None and risk.entropy_bits is not None and self.policy.fits(self.fingerprint)
        if risk is None or not held or not np.allclose(prior, self._uniform):
            return None
        return (
            f"at most {risk.target:.0%} of accepted answers are wrong, shown on {risk.n} labelled cases "
            f"with {risk.confidence:.0%} confidence"
        )

    def _sets(
        self, observations: Observations, table: AnswerTable
    ) -> tuple[list[tuple[str, ...]] | None, tuple[str, ...]]:
        stored, prior = self.policy.conformal, table.prior.probabilities
        if stored is None:
            return None, ()
        if not self.policy.fits(self.fingerprint):
            tuned_for = "another bank, embedder or method, prior of none of these or other real cases"
            return None, (f"the policy was tuned for {tuned_for}: no conformal set",)
        from simdx.metrics.conformal import ConformalThresholds

        names, scores = self._data.panel.names, stored.scores
        largest = tuple(np.inf if stored.largest[n] is None else float(stored.largest[n] or 0) for n in names)
        known = () if scores is None else tuple(scores[n] for n in names)
        limits = ConformalThresholds(stored.kind, stored.level, largest, stored.n, known)
        of_labels = table.of_labels
        if not np.allclose(prior, self._uniform):
            # The scores stay those calibrated under the uniform prior; only the labels' shares change.
            moved = limits.under(prior) if self._cheap else None
            if moved is None:
                return None, ("the policy was calibrated under the uniform prior: no conformal set",)
            limits, of_labels = moved, self._answered(observations, self._uniform).of_labels
        inside = limits.sets(of_labels)
        return [tuple(n for n, held in zip(names, row, strict=True) if held) for row in inside], ()

    def _flip(self, observations: Observations, i: int, table: AnswerTable) -> FlipAnswer | None:
        names, leading = self._data.panel.names, int(table.posterior[i].argmax())
        if not self._cheap or leading == len(names):  # none of these does not depend on a label's prior
            return None
        prior = table.prior.probabilities
        if self._fitted.proportional:
            outside = 0.0 if table.out_of_class is None else float(table.out_of_class[i])
            found = why.exact_flip(table.among_labels[i], outside, prior, leading)
        else:
            one = observations.at(np.array([i]))
            try:
                found = why.searched_flip(prior, leading, lambda pi: self._answered(one, pi).posterior[0])
            except BadInput:  # an amortised network that was trained for one prior has no other answer
                return None
        return None if found is None else FlipAnswer(label=(*names, NONE_OF_THESE)[found[0]], prior=found[1])

    def _missing(self, text: str, posterior: Float, prior: Float) -> MissingFinding | None:
        names = self._data.panel.names
        if not self._cheap or posterior[len(names) :].sum() >= 0.5:  # the panel's findings do not describe it
            return None

        def answer(texts: list[str]) -> Float:
            return self._answered(self._data.observe(texts, [text] * len(texts)), prior).posterior

        return why.missing_finding(text, posterior, names, self._clauses, self.telling, answer)

    @cached_property
    def telling(self) -> why.Telling:
        return why.Telling.of(self._data.bank)
