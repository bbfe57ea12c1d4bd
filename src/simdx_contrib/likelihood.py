"""`--method likelihood`: the exact likelihood of the simulator itself.

    p(label | case) ∝ prior · mean over the label's prompts of p_model(case | prompt) ^ (1 / T)

One forward pass per case and prompt; nothing is simulated and no bank is compared with. Long texts are read
in windows of 300 words, at most four, each after the prompt; a case's score is the mean of its windows', so
that length alone makes no answer surer.

*Temperature.* On the model's own samples from these prompts T = 1 is right by construction; of other texts a
model is surer than it should be. T is found on some texts of the panel's bank (least log loss, not below 1).
The errors of a text's words add up as a random walk, so for a text longer than the bank's T grows with the
square root of its length.

*None of these* is one more hypothesis: the neutral prompts, which speak of the register and of no label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logsumexp, softmax

from simdx.abc.prior import Prior
from simdx.baselines.interview import Reply, ReplyStore, replies_path, simulator_for
from simdx.egress import is_remote
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Inferred, Progress, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.types import Float, Int, Posterior, content_hash
from simdx_contrib.own_texts import Rehearsal
from simdx_contrib.prompts import PROMPTS_PER_LABEL, scoring_prompts
from simdx_contrib.scoring import Scorer, scorer_of

VERSION = "1"  # raise it when the meaning of a stored score changes
WINDOW_WORDS = 300
MOST_WINDOWS = 4
SPOKEN_WORDS = 100  # of the case whose cost is told
NONE_PRIOR = 0.02  # of none of these, where the user states none


@dataclass(frozen=True, slots=True)
class CaseScores:
    """What a model finds of N texts, in nats: under each label, under the neutral prompts."""

    labels: Float  # (N, K)
    neutral: Float  # (N,)

    def tempered(self, temperature: Float) -> CaseScores:
        """At a temperature for each text (N,)."""
        return CaseScores(self.labels / temperature[:, None], self.neutral / temperature)


def windows(text: str) -> list[str]:
    """A long text in pieces of some hundred words; the first four speak for it."""
    words = text.split()
    if len(words) <= WINDOW_WORDS:
        return [text.strip()]
    starts = range(0, min(len(words), WINDOW_WORDS * MOST_WINDOWS), WINDOW_WORDS)
    return [" ".join(words[at : at + WINDOW_WORDS]) for at in starts]


def length(text: str) -> float:
    """Words of a window, on average: what a text's score is a sum over."""
    return float(np.mean([len(window.split()) for window in windows(text)]))


def stretched(temperature: float, lengths: Float, usual: float) -> Float:
    """(N,) the temperature of each text, where the one given was found on texts of the usual length."""
    return temperature * np.sqrt(np.maximum(lengths / usual, 1.0))


def mixture(scores: Float, n_labels: int) -> CaseScores:
    """Scores (N, 3 K + 2) as the prompts stand: a label's is the mean probability over its prompts."""
    n = len(scores)
    own = scores[:, : n_labels * PROMPTS_PER_LABEL].reshape(n, n_labels, PROMPTS_PER_LABEL)
    neutral = scores[:, n_labels * PROMPTS_PER_LABEL :]
    return CaseScores(
        logsumexp(own, axis=2) - math.log(PROMPTS_PER_LABEL),
        logsumexp(neutral, axis=1) - math.log(neutral.shape[1]),
    )


def fit_temperature(log_likelihood: Float, truth: Int, least: float = 0.05, most: float = 20.0) -> float:
    """The temperature of least log loss on texts whose label is known because they were simulated."""

    def loss(log_t: float) -> float:
        return -float(
            log_softmax(log_likelihood / math.exp(log_t), axis=1)[np.arange(len(truth)), truth].mean()
        )

    found = minimize_scalar(loss, bounds=(math.log(least), math.log(most)), method="bounded")
    return math.exp(float(found.x))


class Likelihood(Fitted):
    """A panel's prompts and a model that scores texts under them."""

    speed = "slow"
    proportional = True
    none_of_these = True

    def __init__(self, data: PanelData, settings: Settings, scorer: Scorer) -> None:
        super().__init__(data)
        self.scorer = scorer
        self.prompts = scoring_prompts(data.panel)
        kept = settings.replies
        self.store = ReplyStore(None if kept is None else replies_path(kept, scorer.id))
        self.remote = self.remote or is_remote(scorer)
        self._none_prior = data.bank.none_prior if data.bank.none_prior is not None else NONE_PRIOR

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        p = posterior_under(self.tempered(observations.texts).labels, prior)
        n = len(p)
        usage = {
            "simulator": self.scorer.id,
            "scores": n * len(self.prompts.all),
            "temperature": round(self.temperature, 4),
        }
        return Inferred(Posterior(p, np.zeros(n), np.full(n, np.nan)), None, usage)

    def out_of_class(self, observations: Observations, prior: Prior) -> Float:
        """Probability of the neutral hypothesis beside the labels, at the same temperature."""
        return expit(self.log_odds_none(observations.texts, prior))

    def log_odds_none(self, texts: Sequence[str], prior: Prior) -> Float:
        found = self.tempered(texts)
        with np.errstate(divide="ignore"):
            inside = logsumexp(found.labels + np.log(prior.probabilities), axis=1)
        odds = math.log(self._none_prior) - math.log1p(-self._none_prior)
        return found.neutral - inside + odds

    def cost(self) -> str:
        """What answering takes, said before it starts; in seconds once a text was scored here."""
        kept, name = self.rehearsal, self.scorer.id.split("@")[0]
        said = f"{name} scores a case under {len(self.prompts.all)} prompts"
        if (each := kept.seconds_a_word) is not None:
            said += f", about {each * SPOKEN_WORDS:.0f} s for one of {SPOKEN_WORDS} words"
        if kept.missing:
            left = kept.seconds_left()
            takes = "" if left is None else f", about {left:.0f} s"
            said += f"; {len(kept.missing)} simulated texts first, once for this bank and model{takes}"
        faster = getattr(self.scorer, "faster", None)
        return said if faster is None else f"{said} (faster: --simulator {faster})"

    # ----------------------------------------------------------------- scores

    def tempered(self, texts: Sequence[str]) -> CaseScores:
        lengths = np.array([length(text) for text in texts])
        return self.scores(texts).tempered(stretched(self.temperature, lengths, self.usual_length))

    def scores(self, texts: Sequence[str]) -> CaseScores:
        """Of cases: kept by a hash of their content, on disk only where the user named a folder."""
        prompts = self.prompts.all
        keys = [content_hash("likelihood", VERSION, self.scorer.id, self.prompts.hash, t) for t in texts]
        missing = [i for i, key in enumerate(keys) if self.store.get(key) is None]
        cut = {i: windows(texts[i]) for i in missing}
        pieces = [(i, piece) for i in missing for piece in cut[i]]
        waiting = {i: len(cut[i]) for i in missing}
        sums = {i: np.zeros(len(prompts)) for i in missing}
        done = 0
        for at, row, _ in self.scorer.score(prompts, [piece for _, piece in pieces]) if pieces else ():
            i = pieces[at][0]
            sums[i] += row
            waiting[i] -= 1
            if waiting[i] == 0:
                mean = sums[i] / len(cut[i])
                self.store.keep(keys[i], Reply(tuple(float(v) for v in mean)))
                done += 1
                if self.progress is not None:
                    self.progress(done, len(missing))
        rows = [self.store.get(key) for key in keys]
        return mixture(np.array([r.scores for r in rows if r is not None]), len(self.data.panel.names))

    @cached_property
    def rehearsal(self) -> Rehearsal:
        """Of some of the bank's texts, under every prompt."""
        prompts = self.prompts.all
        about = ("likelihood", VERSION, self.scorer.id, self.prompts.hash)
        return Rehearsal(
            self.data.bank, about, len(prompts),
            lambda texts: ((i, row) for i, row, _ in self.scorer.score(prompts, texts)), self.scorer.quick,
        )  # fmt: skip

    def unprepared(self) -> int:
        return len(self.rehearsal.missing)

    def prepare(self, progress: Progress) -> None:
        self.rehearsal.numbers(progress)

    @cached_property
    def temperature(self) -> float:
        found = mixture(self.rehearsal.numbers(), len(self.data.panel.names))
        return max(1.0, fit_temperature(found.labels, self.rehearsal.truth))

    @cached_property
    def usual_length(self) -> float:
        """Of the bank's texts as the rehearsal reads them: one window of each."""
        return float(np.mean([min(len(text.split()), WINDOW_WORDS) for text in self.data.bank.texts]))


def posterior_under(log_likelihood: Float, prior: Prior) -> Float:
    """(N, K) prior times likelihood, normalised."""
    with np.errstate(divide="ignore"):
        return softmax(log_likelihood + np.log(prior.probabilities), axis=1)


def fit_likelihood(data: PanelData, settings: Settings) -> Likelihood:
    if settings.engine != "exact":
        raise BadInput(f"--method {settings.method} has one engine: leave --engine out")
    return Likelihood(data, settings, open_scorer(settings))


def open_scorer(settings: Settings) -> Scorer:
    """The model that `--simulator` names, loaded once for all voices; elsewhere only with permission."""
    simulator: Any = simulator_for(settings)
    return scorer_of(simulator, allow_remote=settings.allow_remote)
