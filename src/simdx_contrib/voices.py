"""`--method voices`: one local model heard three ways.

simulate    the recipe over the panel's bank
likelihood  the exact likelihood of the case under the model
ask         the model's probabilities of the option letters, in every order of the options

Each is made to speak at its own temperature (found on texts of the bank, whose labels are known). One model
stands behind all three, so their evidence is not added up: `pooled` is a log-linear pool whose weights sum
to one, and about as sure as its voices are where they agree. The prior enters once, by Bayes' rule. None of
these is the mean of the log odds that the recipe and the likelihood give it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, logit

from simdx.abc.prior import Prior
from simdx.baselines.asking import LETTERS, MOST_ROTATIONS, Logits
from simdx.methods.fitted import EvidenceWeights, Fitted, Inferred, Progress, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.methods.recipe import fit_recipe
from simdx.reading import is_checklist
from simdx.types import Float, Mask, Posterior, SecondOrder
from simdx_contrib.likelihood import VERSION, Likelihood, fit_likelihood, fit_temperature, posterior_under
from simdx_contrib.own_texts import Rehearsal


class Voices(Fitted):
    speed = "slow"
    proportional = True
    none_of_these = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self.simulate = fit_recipe(data, replace(settings, method="auto"))
        self.likelihood: Likelihood = fit_likelihood(data, settings)
        # A list of options has as many places as there are letters.
        asks = len(data.panel.names) <= len(LETTERS)
        self.ask = Logits(data, replace(settings, method="logits")) if asks else None
        self.remote = any(
            part.remote for part in (self.simulate, self.likelihood, self.ask) if part is not None
        )
        self.simplex = self.simulate.simplex

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        heard = self.heard(observations)
        checklist = np.array([is_checklist(text) for text in observations.texts])
        p = posterior_under(pooled(heard, checklist), prior)
        n = len(p)
        usage: dict[str, Any] = {
            "simulator": self.likelihood.scorer.id,
            "scores": n * len(self.likelihood.prompts.all),
        }
        voices = {name: posterior_under(log_likelihood, prior) for name, log_likelihood in heard.items()}
        return Inferred(Posterior(p, np.zeros(n), np.full(n, np.nan)), None, usage, voices)

    def heard(self, observations: Observations) -> dict[str, Float]:
        """Each voice's tempered log-likelihoods (N, K)."""
        uniform = Prior.uniform(len(self.data.panel.names))
        recipe = self.simulate.infer(observations, uniform).posterior.probabilities
        heard = {"simulate": _log(recipe), "likelihood": self.likelihood.tempered(observations.texts).labels}
        if self.ask is not None:
            asked = self.ask.infer(observations, uniform).posterior.probabilities
            heard["ask"] = _log(asked) / self.ask_temperature
        return heard

    @cached_property
    def ask_rehearsal(self) -> Rehearsal:
        """Letters of the bank's texts."""
        assert self.ask is not None
        bank, ask = self.data.bank, self.ask
        uniform = Prior.uniform(len(bank.labels))

        def asked(texts: list[str]) -> Iterator[tuple[int, Float]]:
            for i, text in enumerate(texts):
                yield i, ask.infer(self.data.observe([text]), uniform).posterior.probabilities[0]

        about = ("letters", VERSION, ask.simulator.id, *self.data.panel.names)
        return Rehearsal(bank, about, len(bank.labels), asked, self.likelihood.scorer.quick)

    def unprepared(self) -> int:
        letters = 0 if self.ask is None else len(self.ask_rehearsal.missing)
        return self.likelihood.unprepared() + letters

    def prepare(self, progress: Progress) -> None:
        self.likelihood.prepare(progress)
        if self.ask is not None:
            self.ask_rehearsal.numbers(progress)

    @cached_property
    def ask_temperature(self) -> float:
        """Found on the bank's texts as the likelihood's is; letters are less sure than they should be."""
        kept = self.ask_rehearsal
        return fit_temperature(_log(kept.numbers()), kept.truth)

    def out_of_class(self, observations: Observations, prior: Prior) -> Float:
        found = self.likelihood.log_odds_none(observations.texts, prior)
        by_recipe = self.simulate.out_of_class(observations, prior)
        if by_recipe is None:
            return expit(found)
        return expit((found + logit(np.clip(by_recipe, FLOOR, 1 - FLOOR))) / 2)

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return self.simulate.second_order(observations, prior, posterior)

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        """The recipe's nearest simulations; their shares are of its voice alone, so none is said."""
        return replace(self.simulate.evidence(observations, prior), share=None)

    def cost(self) -> str:
        orders = min(len(self.data.panel.names), MOST_ROTATIONS)
        asked = "" if self.ask is None else f"; it is asked in {orders} orders of the labels"
        return self.likelihood.cost() + asked

    def watch(self, told: Callable[[Any], None]) -> None:
        self.simulate.watch(told)


def _log(p: Float) -> Float:
    return np.log(np.maximum(p, FLOOR))


def fit_voices(data: PanelData, settings: Settings) -> Voices:
    return Voices(data, settings)


# --------------------------------------------------------------------------- the pool


FLOOR = 1e-6  # of a voice's probability: what one voice may say against a label
CHECKLIST = 0.5  # weight of a density on a list of questions and answers, which no prompt would write


def pooled(voices: Mapping[str, Float], checklist: Mask | None = None) -> Float:
    """(N, K) log-likelihoods, up to a constant per row, from tempered ones of each voice."""
    total: Float = np.zeros((1, 1))
    weights: Float = np.zeros((1, 1))
    for name, log_likelihood in voices.items():
        weight = np.ones((1, 1))
        if name == "likelihood" and checklist is not None:
            weight = np.where(checklist, CHECKLIST, 1.0)[:, None]
        total = total + weight * np.maximum(log_softmax(log_likelihood, axis=1), math.log(FLOOR))
        weights = weights + weight
    return total / weights
