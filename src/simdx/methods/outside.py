"""None of these: the probability that a case belongs to no label of the panel.

    log odds(none of these) = log(exp(another condition) + exp(the library) + exp(another kind of text))

another condition     the panel's own background explains the case better than the best possible label does
                      (`BackgroundModel`), with a threshold that is the panel's (`calibration`)
the library           so does a condition of the library that no label stands for (`world`)
another kind of text  a line of code, a complaint about a train: slope · novelty + offset (`Novelty`)

*Novelty.* The scores take the common direction of all simulated texts out, since every label shares it; what
is left hardly tells a case from a cooking recipe that mentions a tongue. Novelty looks at what was taken
out: the typicality distance in the *uncentred* space, from all simulations, the background's too. Its scale
is its own: 0 is as far as half of the simulations lie from the others, 1 as far as half of the packaged
everyday texts do.

*Background.* Other conditions are of many kinds. Told that they are one class, a regression looks for what
they have in common, which is little. So their simulations are grouped, and every kind stands as one more
label in both scores; the background is the mixture of its kinds, each weighed by its share of the texts. A
panel may name which of its banks speak for the labels here. Labelled cases, where there are any, always do.
Texts that labels adopted from an archive never do: here an archive only centres the cases.

Constants were chosen on simulated text alone (docs/recipe.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.resources import files

import numpy as np

from simdx.abc.logs import expit, log_softmax, logit, logsumexp
from simdx.abc.prior import Prior
from simdx.abc.space import Space, Typicality
from simdx.embedders.base import Embedder, embed_cached, embed_texts
from simdx.errors import BadInput
from simdx.methods.calibration_record import Calibration, condition_log_odds
from simdx.methods.experts import SecondExpert, first_block
from simdx.methods.panel_data import Observations, PanelData, gather, standing_against
from simdx.methods.scores import Comparison
from simdx.methods.speed import Arrays, named, part
from simdx.methods.world import World, world_log_odds
from simdx.types import Bank, EmbeddedBank, Float, Int, Mask

BACKGROUND_BANDWIDTH = 0.05  # of the kernel here; the answer among labels has its own
KINDS = 9
LEAST_TEXTS = 8  # of a kind, on average: a smaller background is divided into fewer
MOST_LINKED = 2000  # texts; a larger background is grouped by a part of it
# Simulations must lie this much nearer to each other than everyday texts do, or nothing is novel.
LEAST_SPAN = 0.15
# From novelty to log odds: maximum likelihood on texts of three writers against everyday ones, and a prior
# mass that was set.
NOVELTY_SLOPE, NOVELTY_OFFSET, NOVELTY_PRIOR = 20.2, -12.7, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    background: BackgroundModel | None  # the panel's own
    world: World | None
    novelty: Novelty | None
    calibration: Calibration
    prior: float | None  # mass of another condition, where it is stated

    @classmethod
    def fit(cls, data: PanelData) -> Outside | None:
        """None where nothing stands against the labels, or nothing is known about how it does."""
        found = data.calibration
        background = None if found is None or found.outside is None else BackgroundModel.fit(data)
        world = None if found is None or found.world is None else World.fit(data)
        if found is None or (background is None and world is None):
            return None
        return cls(background, world, Novelty.fit(data), found, data.bank.none_prior)

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        return named(outside=self.background, world=self.world, novelty=self.novelty)

    def log_odds(self, observations: Observations, prior: Prior) -> dict[str, Float]:
        """(N,) each against the labels: `background`, `world` and `novelty`, those that are weighed."""
        possible, found = prior.probabilities > 0, {}
        if self.background is not None and self.calibration.outside is not None:
            features = self.background.features(observations, possible)
            found["background"] = condition_log_odds(features, self.calibration.outside, self.prior)
        if self.world is not None and self.calibration.world is not None:
            features = self.world.features(self.world.compared(observations), possible)
            found["world"] = world_log_odds(features, observations.texts, self.calibration.world, self.prior)
        if self.novelty is not None:
            found["novelty"] = self.novelty.log_odds(observations)
        return found

    def __call__(self, observations: Observations, prior: Prior, learned: Float | float = 0.0) -> Float:
        """(N,) probabilities of none of these; `learned`: log odds that labelled cases add."""
        return expit(reduce(np.logaddexp, self.log_odds(observations, prior).values()) + learned)


def at_prior(bank: Bank, prior: float) -> Bank:
    """The bank with this prior probability of another condition."""
    if not (np.isfinite(prior) and 0 < prior < 1):
        raise BadInput(f"the prior of none of these is {prior:g}: give a probability between 0 and 1")
    if not bank.background:
        raise BadInput("none of these has no prior here: the bank has no background")
    return replace(bank, none_prior=float(prior))


# --------------------------------------------------------------------------- another condition


@dataclass(frozen=True, slots=True, eq=False)
class BackgroundModel:
    """The labels and the kinds of the background, compared with a case in the recipe's two ways."""

    comparison: Comparison  # the panel's labels, then the kinds
    log_share: Float  # (kinds,) of the background's texts
    second: SecondExpert | None = None  # of the same labels and kinds

    @classmethod
    def fit(
        cls, data: PanelData, bandwidth: float = BACKGROUND_BANDWIDTH, kinds: int = KINDS
    ) -> BackgroundModel | None:
        """None for a bank without background."""
        if kept := data.kept("outside"):
            return cls.from_arrays(kept, data)
        bank = data.embedded
        if bank.background is None or len(bank.background) == 0:
            return None
        if data.real is not None:  # adopted texts would count similar outside texts as labels'
            data = data.with_real(data.real.only(~data.real.inferred))
        rows = gather(data, standing_against(data.bank), background=True)
        comparison = Comparison.fit(
            data.lexicon, first_block(rows), bandwidth=bandwidth, self_consistent=False, regress_joint=True,
            split_last=lambda joint: kinds_of(joint, kinds, grouped=len(data.bank.background)),
        )  # fmt: skip
        share = np.bincount(comparison.label_index, weights=comparison.weight)[bank.n_labels :]
        finer = np.empty(len(rows.texts), dtype=np.int64)
        finer[comparison.space.rows] = comparison.label_index
        return cls(comparison, np.log(share / share.sum()), SecondExpert.fit(rows, finer))

    @classmethod
    def from_arrays(cls, arrays: Arrays, data: PanelData) -> BackgroundModel:
        """What `fit` made."""
        comparison = Comparison.from_arrays(arrays, data, BACKGROUND_BANDWIDTH)
        share = np.bincount(comparison.label_index)[data.embedded.n_labels :]
        second = SecondExpert.from_arrays(part(arrays, "second"), data.embedded.blocks)
        return cls(comparison, np.log(share / share.sum()), second)

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        return {**self.comparison.arrays(), **named(second=self.second)}

    @property
    def n_labels(self) -> int:
        return self.comparison.n_labels - len(self.log_share)

    def folded(self, score: Float) -> Float:
        """(N, labels + 1) the kinds' mixture in the place of the kinds."""
        k = self.n_labels
        mixture = logsumexp(score[:, k:] + self.log_share, axis=1, keepdims=True)
        return np.concatenate([score[:, :k], mixture], axis=1)

    def features(self, observations: Observations, possible: Mask | None = None) -> Float:
        """(N, 3) features of another condition, each larger the more it looks like one; not calibrated.
        A second expert brings two more.

        Log odds of the background against the best of the possible labels, by summary and kernel together and
        by a regression on the joint rows; and how little the summary has to say for any label (its energy),
        which also tells conditions that the background does not hold. The second expert's are its own log
        odds and energy.
        """
        every = np.ones(self.n_labels, dtype=bool) if possible is None else possible
        c = self.comparison
        assert c.joint is not None  # `fit` asked for it
        seen = c.observe(observations)
        evidence = c.regressed.scores(seen)
        summary, kernel = log_softmax(evidence, axis=1), c.kernel(c.near(seen))
        pooled = self.folded(summary + kernel)
        regressed = self.folded(log_softmax(c.joint.scores(seen), axis=1))
        leads = [s[:, -1] - s[:, :-1][:, every].max(axis=1) for s in (pooled, regressed)]
        energies = [-logsumexp(evidence[:, : self.n_labels][:, every], axis=1)]
        if self.second is not None:
            sensed = self.second.scores(observations)
            of_kinds = self.folded(log_softmax(sensed, axis=1))
            leads.append(of_kinds[:, -1] - of_kinds[:, :-1][:, every].max(axis=1))
            energies.append(-logsumexp(sensed[:, : self.n_labels][:, every], axis=1))
        return np.stack([*leads, *energies], axis=1)


def kinds_of(rows: Float, most: int = KINDS, grouped: int | None = None) -> Int:
    """(n,) the kind of each row, from 0: Ward's clusters.

    Only the first `grouped` rows make the kinds, and of many of those only a part; the others join the
    nearest one.
    """
    makers = rows[:grouped]
    kinds = min(most, len(makers) // LEAST_TEXTS)
    if kinds < 2:
        return np.zeros(len(rows), dtype=np.int64)
    # Spread along some direction and not along the file: neighbours in a file may be alike, or take turns.
    step = -(-len(makers) // MOST_LINKED)
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    linked = np.asarray(makers if step == 1 else makers[np.argsort(makers @ direction)[::step]], dtype=float)
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import, and an answer does not need it

    kind = fcluster(linkage(linked, "ward"), kinds, "maxclust") - 1
    if len(linked) < len(rows):
        means = np.stack([linked[kind == g].mean(axis=0) for g in range(kind.max() + 1)])
        nearest = (rows @ means.T - 0.5 * (means**2).sum(axis=1)).argmax(axis=1)
        # a row that made a kind keeps it
        kind = nearest if step > 1 else np.concatenate([kind, nearest[len(linked) :]])
    return np.unique(kind, return_inverse=True)[1].astype(np.int64)


# --------------------------------------------------------------------------- another kind of text


@cache
def everyday_texts() -> tuple[str, ...]:
    """Short texts about anything but illness, packaged."""
    lines = files("simdx.methods").joinpath("data", "everyday.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)["text"] for line in lines)


@dataclass(frozen=True, slots=True, eq=False)
class Novelty:
    """Typicality distances on a scale from the simulations' own (0) to everyday texts' (1)."""

    embedder: Embedder
    space: Space
    typicality: Typicality
    own: float
    span: float

    @classmethod
    def fit(cls, data: PanelData) -> Novelty | None:
        """None for a panel whose own texts are everyday ones: there nothing is novel in this sense."""
        space, kept = cls.space_of(data), data.kept("novelty")
        if kept:
            own, span = map(float, kept["scale"])
            return cls(data.embedder, space, Typicality.known(space.bank, kept["reference"]), own, span)
        typicality = Typicality.fit(space.bank)
        others = typicality.distance(space.transform(embed_cached(data.embedder, everyday_texts())))
        own = float(np.median(typicality.reference))
        span = float(np.median(others)) - own
        return None if span < LEAST_SPAN else cls(data.embedder, space, typicality, own, span)

    def arrays(self) -> dict[str, Float]:
        return {"reference": self.typicality.reference, "scale": np.array([self.own, self.span])}

    @staticmethod
    def space_of(data: PanelData) -> Space:
        """Every simulation, uncentred, and labelled cases."""
        bank, real = data.embedded, data.real
        parts = [bank.vectors]
        parts += [] if bank.background is None else [bank.background]
        # Not the archive's: whether they are cases at all is for this to say.
        labelled = bank.vectors[:0] if real is None else real.vectors[~real.inferred]
        parts += [labelled] if len(labelled) else []
        vectors = np.concatenate(parts)
        rows = EmbeddedBank(vectors, np.zeros(len(vectors), dtype=np.int64), 1, bank.blocks)
        return Space.fit(rows, centre=False)

    def of(self, observations: Observations) -> Float:
        """(N,) how far the cases are from every simulation.

        A text all in capitals is taken as written or in small letters, whichever is less novel: a note
        typed with the shift key down is not another kind of text.
        """
        found = self._scaled(observations.vectors)
        loud = np.array([i for i, text in enumerate(observations.texts) if text.isupper()], dtype=np.int64)
        if loud.size:
            quiet = embed_texts(self.embedder, [observations.texts[i].lower() for i in loud])
            found[loud] = np.minimum(found[loud], self._scaled(quiet))
        return found

    def log_odds(self, observations: Observations) -> Float:
        """(N,) of another kind of text."""
        return NOVELTY_SLOPE * self.of(observations) + NOVELTY_OFFSET + logit(NOVELTY_PRIOR)

    def _scaled(self, vectors: Float) -> Float:
        return (self.typicality.distance(self.space.transform(vectors)) - self.own) / self.span
