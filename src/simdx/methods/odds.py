"""Calibration of the background: from its raw log odds to a probability of another condition.

What the raw log odds mean differs from panel to panel. So a panel may carry its own calibration
(`background_odds`), fitted by cross-fitting on simulated text:

own writers      outside: the background's conditions, a fifth left out at a time. Inside: the texts that do
                 not stand against the background, answered by those that do; where all stand, a fifth of
                 every label's texts is left out instead
another writer   where given: another simulator's texts of the labels and of other conditions
slope, offset    the posterior mode at even odds, with a normal prior around the shipped values (`SPREAD`), so
                 that a few texts, or perfectly separated ones, do not move them far. Every writer, and each
                 side of a writer, has the same weight
prior            the largest of `PRIORS` for which no writer's cases inside gain more than `MOST_BITS`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import rankdata

from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.background import Opposition, standing_against
from simdx.methods.material import Material, Observations
from simdx.methods.outside import SHIPPED_ODDS
from simdx.methods.recipe import AmongLabels
from simdx.types import BackgroundOdds, Bank, Float, Int, case_key, content_hash, entropy_bits

PRIORS = (0.1, 0.05, 0.02, 0.01)  # tried in this order; the last is the shipped one
MOST_BITS = 0.1  # mean entropy that none of these may add to answers inside
SPREAD = (0.5, 1.0)  # of log slope and offset around the shipped ones: about that of the packaged panels
FLATTEST, STEEPEST = 0.01, 20.0  # slopes: beyond them the score is ignored, or a step
FOLDS = 5  # a fifth left out: the usual trade of bias for time
FEWEST = 10  # texts on either side
LEAST_AUROC = 0.6  # below it there is nothing to make odds of


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """One writer's texts, asked of fits that do not hold them: raw log odds, and the answers inside."""

    writer: str
    inside: Float  # (n,)
    outside: Float  # (m,)
    posterior: Float  # (n, K) of the texts inside
    distinct: int | None = None  # texts on the smaller side, where some were asked about several times

    @property
    def texts(self) -> int:
        return min(len(self.inside), len(self.outside)) if self.distinct is None else self.distinct

    @property
    def auroc(self) -> float:
        """How well the raw log odds tell outside from inside."""
        n, m = len(self.inside), len(self.outside)
        ranks = rankdata(np.concatenate([self.inside, self.outside]))
        return float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))


@dataclass(frozen=True, slots=True)
class FittedOdds:
    odds: BackgroundOdds
    rise_bits: dict[float, float]  # of the writer whose answers rise most, by prior

    @property
    def costs_little(self) -> bool:
        """Whether any prior kept the rise within its limit; the least is given where none did."""
        return self.rise_bits[self.odds.prior] <= MOST_BITS


def held_out_own(material: Material, conditions: Sequence[str]) -> HeldOut:
    """`conditions[i]` is what background text i describes: texts of one condition are left out together.

    The answers inside are those of the recipe on what is fitted here, which with two banks is one of them.
    """
    bank, background = material.bank, _background(material)
    if len(conditions) != len(bank.background):
        raise ValueError(f"{len(conditions)} conditions for {len(bank.background)} texts of the background")
    splits = list(_splits(bank, conditions))
    inside = {bank.texts[i] for _, held, _, _ in splits for i in held}
    outside = {bank.background[i] for _, _, _, unknown in splits for i in unknown}
    if len(inside) < FEWEST or len(outside) < 2 * FEWEST:
        raise BadInput(
            f"too little to calibrate on: it takes {FEWEST} texts of labels and {2 * FEWEST} of other "
            "conditions that can be left out; texts that repeat, and a single condition, cannot"
        )
    asked = [
        _ask(
            "own",
            _part(material, fitted, known),
            _seen([bank.texts[i] for i in held], material.embedded.vectors[held]),
            _seen([bank.background[i] for i in unknown], background[unknown]),
        )
        for fitted, held, known, unknown in splits
    ]
    return HeldOut(
        "own",
        np.concatenate([r.inside for r in asked]),
        np.concatenate([r.outside for r in asked]),
        np.concatenate([r.posterior for r in asked]),
        distinct=min(len(inside), len(outside)),
    )


def held_out_other(material: Material, inside: Observations, outside: Observations) -> HeldOut:
    """Another writer's texts of the labels and of other conditions, asked of the whole material."""
    if min(len(inside.texts), len(outside.texts)) < FEWEST:
        raise BadInput(
            f"another writer needs {FEWEST} texts of the labels and {FEWEST} of other conditions at least, "
            f"not {len(inside.texts)} and {len(outside.texts)}"
        )
    own = {*material.bank.texts, *material.bank.background} & {*inside.texts, *outside.texts}
    if own:
        raise BadInput(
            f"{len(own)} of another writer's texts are the panel's own: give texts it does not hold"
        )
    return _ask("another", material, inside, outside)


def fit_odds(held_out: Sequence[HeldOut]) -> FittedOdds:
    """Slope, offset and prior from any number of writers, each weighing the same."""
    for r in held_out:
        if r.auroc < LEAST_AUROC:
            raise BadInput(
                f"the background's log odds do not tell texts apart (by {r.writer} writer, AUROC "
                f"{r.auroc:.2f}): no odds can be fitted; if texts were given, are they on the right side?"
            )
    texts = sum(r.texts for r in held_out)

    def loss(v: Float) -> float:
        slope, offset = np.exp(v[0]), v[1]
        total = 0.0
        for r in held_out:
            total += np.logaddexp(0, slope * r.inside + offset).mean()
            total += np.logaddexp(0, -(slope * r.outside + offset)).mean()
        away = (v - start) / SPREAD
        return float(total / len(held_out) + 0.5 * (away**2).sum() / texts)

    start = np.array([np.log(SHIPPED_ODDS.slope), SHIPPED_ODDS.offset])
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    slope = round(min(max(float(np.exp(found[0])), FLATTEST), STEEPEST), 2)
    offset = round(float(found[1]), 2)
    rises = {
        prior: max(rise_of(r, BackgroundOdds(slope, offset, prior)) for r in held_out) for prior in PRIORS
    }
    prior = next((p for p in PRIORS if rises[p] <= MOST_BITS), PRIORS[-1])
    return FittedOdds(BackgroundOdds(slope, offset, prior), rises)


def rise_of(held_out: HeldOut, odds: BackgroundOdds) -> float:
    """Mean bits that answers to texts inside gain by being drawn towards an even prior."""
    share = expit(odds.slope * held_out.inside + odds.offset + logit(odds.prior))[:, None]
    drawn = (1 - share) * held_out.posterior + share / held_out.posterior.shape[1]
    return float((entropy_bits(drawn) - entropy_bits(held_out.posterior)).mean())


def _splits(bank: Bank, conditions: Sequence[str]) -> Iterator[tuple[Int, Int, Int, Int]]:
    """Rows to fit, rows to ask about, and the same of the background; no text is on both sides."""
    standing = standing_against(bank)
    aside = np.setdiff1d(np.arange(len(bank.texts)), standing)
    own, other = (
        _dealt(bank.texts, bank.label_index),
        _dealt(conditions, np.zeros(len(conditions), dtype=int)),
    )
    for f in range(FOLDS):
        apart = len(aside) >= FEWEST
        fitted: Int = standing if apart else np.flatnonzero(own != f)
        held: Int = aside if apart else np.flatnonzero(own == f)
        known, unknown = np.flatnonzero(other != f), np.flatnonzero(other == f)
        seen = {*(bank.texts[i] for i in fitted), *(bank.background[i] for i in known)}
        held = held[[bank.texts[i] not in seen for i in held]]
        unknown = unknown[[bank.background[i] not in seen for i in unknown]]
        if len(held) and len(unknown) and len(known):
            yield fitted, held, known, unknown


def _dealt(keys: Sequence[str], group: Int) -> Int:
    """A fold for every row: groups apart, equal keys together, dealt by what they say, not where they stand.

    The only key of a group is in no fold (-1), so that every fit holds something of every group.
    """
    fold = np.full(len(keys), -1)
    for g in np.unique(group):
        rows = np.flatnonzero(group == g).tolist()
        place = {key: i for i, key in enumerate(sorted({keys[i] for i in rows}, key=content_hash))}
        if len(place) > 1:
            fold[rows] = [place[keys[i]] % FOLDS for i in rows]
    return fold


def _background(material: Material) -> Float:
    if material.embedded.background is None:
        raise BadInput(f"the bank of panel '{material.panel.name}' has no background to calibrate")
    return material.embedded.background


def _part(material: Material, rows: Int, others: Int) -> Material:
    bank, embedded = material.bank, material.embedded
    return Material(
        material.panel,
        replace(bank.subset(rows), background=tuple(bank.background[i] for i in others)),
        replace(
            embedded,
            vectors=embedded.vectors[rows],
            label_index=embedded.label_index[rows],
            background=_background(material)[others],
        ),
        material.embedder,
    )


def _seen(texts: Sequence[str], vectors: Float) -> Observations:
    return Observations(tuple(texts), vectors, tuple(case_key(text) for text in texts))


def _ask(writer: str, material: Material, inside: Observations, outside: Observations) -> HeldOut:
    opposition = Opposition.fit(material)
    if opposition is None:
        raise BadInput(f"the bank of panel '{material.panel.name}' has no background to calibrate")
    every = np.ones(len(material.panel.names), dtype=bool)
    answers = AmongLabels(material)(inside, Prior.uniform(len(every))).probabilities
    return HeldOut(writer, opposition.log_odds(inside, every), opposition.log_odds(outside, every), answers)
