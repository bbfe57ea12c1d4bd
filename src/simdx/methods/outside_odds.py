"""From how far the background is ahead to a probability of another condition, fitted on simulated text.

How much a lead means differs from panel to panel: where the labels look like nothing else, a small one is
telling. So a panel may carry its own odds (`background_odds`), rehearsed on texts that no fit has seen:

own writers      cases inside are the texts that do not stand against the background, cases outside half of
                 its conditions, left out in turn. Where all texts stand, half of every label's are left out
another writer   where given: another simulator's texts of the labels and of other conditions
slope, offset    maximum likelihood at even odds; writers weigh the same, inside and outside do; a weak pull
                 towards the shipped values keeps texts that are told apart perfectly from setting them
prior            the largest of a few for which no writer's cases inside gain more than a tenth of a bit
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.background import Opposition, standing_against
from simdx.methods.base import Material, Observations
from simdx.methods.outside import SHIPPED_ODDS
from simdx.methods.recipe import Recipe
from simdx.types import BackgroundOdds, Bank, Float, Int, case_key, entropy_bits

PRIORS = (0.1, 0.05, 0.02, 0.01)
MOST_BITS = 0.1
PULL = 0.001
FEWEST = 10  # texts on either side of a rehearsal


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsed:
    """How far ahead the background was for one writer's texts, and what the answers to those inside were."""

    writer: str
    inside: Float  # (n,)
    outside: Float  # (m,)
    posterior: Float  # (n, K) of the texts inside


@dataclass(frozen=True, slots=True)
class FittedOdds:
    odds: BackgroundOdds
    rise_bits: dict[float, float]  # of the writer whose answers rise most, by prior


def rehearse_own(material: Material, conditions: Sequence[str]) -> Rehearsed:
    """`conditions[i]` is what background text i describes: texts of one condition are left out together."""
    bank, background = material.bank, _background(material)
    if len(conditions) != len(bank.background):
        raise ValueError(f"{len(conditions)} conditions for {len(bank.background)} texts of the background")
    inside, outside, posterior = [], [], []
    for fitted, held, known, unknown in _splits(bank, conditions):
        asked = _ask(
            "own",
            _part(material, fitted, known),
            _seen([bank.texts[i] for i in held], material.embedded.vectors[held]),
            _seen([bank.background[i] for i in unknown], background[unknown]),
        )
        inside.append(asked.inside)
        outside.append(asked.outside)
        posterior.append(asked.posterior)
    return Rehearsed("own", *(np.concatenate(parts) for parts in (inside, outside, posterior)))


def rehearse_other(material: Material, inside: Observations, outside: Observations) -> Rehearsed:
    """Another writer's texts of the labels and of other conditions, asked of the whole material."""
    if min(len(inside.texts), len(outside.texts)) < FEWEST:
        raise BadInput(
            f"another writer needs {FEWEST} texts of the labels and {FEWEST} of other conditions at least, "
            f"not {len(inside.texts)} and {len(outside.texts)}"
        )
    return _ask("another", material, inside, outside)


def fit_odds(rehearsals: Sequence[Rehearsed]) -> FittedOdds:
    """Slope, offset and prior from any number of rehearsals, each weighing the same."""

    def loss(v: Float) -> float:
        slope, offset = np.exp(v[0]), v[1]
        total = 0.0
        for r in rehearsals:
            total += np.logaddexp(0, slope * r.inside + offset).mean()
            total += np.logaddexp(0, -(slope * r.outside + offset)).mean()
        away = (v[0] - np.log(SHIPPED_ODDS.slope)) ** 2 + (offset - SHIPPED_ODDS.offset) ** 2
        return float(total / len(rehearsals) + PULL * away)

    start = np.array([np.log(SHIPPED_ODDS.slope), SHIPPED_ODDS.offset])
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    slope, offset = round(float(np.exp(found[0])), 2), round(float(found[1]), 2)
    rises = {
        prior: max(rise_of(r, BackgroundOdds(max(slope, 0.01), offset, prior)) for r in rehearsals)
        for prior in PRIORS
    }
    prior = next((p for p in PRIORS if rises[p] <= MOST_BITS), PRIORS[-1])
    return FittedOdds(BackgroundOdds(max(slope, 0.01), offset, prior), rises)


def rise_of(rehearsed: Rehearsed, odds: BackgroundOdds) -> float:
    """Mean bits that answers to texts inside gain by being drawn towards an even prior."""
    share = expit(odds.slope * rehearsed.inside + odds.offset + logit(odds.prior))[:, None]
    drawn = (1 - share) * rehearsed.posterior + share / rehearsed.posterior.shape[1]
    return float((entropy_bits(drawn) - entropy_bits(rehearsed.posterior)).mean())


def _splits(bank: Bank, conditions: Sequence[str]) -> Iterator[tuple[Int, Int, Int, Int]]:
    """Rows to fit, rows to ask about, and the same of the background."""
    standing = standing_against(bank)
    place = {condition: i for i, condition in enumerate(sorted(set(conditions)))}
    half = np.array([place[condition] % 2 for condition in conditions])
    own = np.zeros(len(bank.texts), dtype=np.int64)
    for label in range(len(bank.labels)):
        rows = np.flatnonzero(bank.label_index == label)
        own[rows] = np.arange(len(rows)) % 2
    aside = np.setdiff1d(np.arange(len(bank.texts)), standing)
    for h in range(2):
        fitted, held = (
            (standing, aside) if len(aside) else (np.flatnonzero(own == h), np.flatnonzero(own != h))
        )
        known, unknown = np.flatnonzero(half != h), np.flatnonzero(half == h)
        left = np.bincount(bank.label_index[fitted], minlength=len(bank.labels))
        if min(len(held), len(known), len(unknown)) < FEWEST or left.min() == 0:
            raise BadInput(
                f"too little to rehearse with: it takes {FEWEST} texts of labels beside those fitted, "
                f"{2 * FEWEST} of other conditions, and two of every label"
            )
        yield fitted, held, known, unknown


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


def _ask(writer: str, material: Material, inside: Observations, outside: Observations) -> Rehearsed:
    opposition = Opposition.fit(material)
    if opposition is None:
        raise BadInput(f"the bank of panel '{material.panel.name}' has no background to calibrate")
    every = np.ones(len(material.panel.names), dtype=bool)
    answers = Recipe(material)(inside, Prior.uniform(len(every)))[0].probabilities
    return Rehearsed(writer, opposition.ahead(inside, every), opposition.ahead(outside, every), answers)
