"""The library beside a panel: conditions that no label means, each under its name.

A panel's own background holds only what its maker thought of. The library holds 431 conditions and 125
everyday topics. Labels and conditions are compared with a case in the same way (`simdx.library.likeness`),
so that a meningitis is not answered as dengue only because the panel has no better label:

    score     = log Σ_{conditions no label means} likelihood − log Σ_{possible labels} likelihood
    log odds  = slope · (score in units of the panel's own texts − threshold)   as in `calibration_record`

If a label does not explain a red flag of the text, its log-likelihood falls by −log EXPECTED: its patients
state such a red flag with a probability below EXPECTED. At the threshold held-out simulated texts of the
labels lose INSIDE_SHARE of their probability, and less if the library hardly separates them from the panel's
own background. If nearly all texts of the library, compared without their own condition, lie beyond the
threshold, it moves towards them. A list of questions and answers is not compared, because the library has no
such lists. A panel file switches the library off with `world: false`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import log
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simdx.abc.logs import log_softmax, logsumexp
from simdx.methods.calibration_record import (
    ENOUGH_OTHERS,
    OutsideScale,
    SentenceScale,
    condition_log_odds,
    scale_of,
)
from simdx.methods.panel_data import Observations, PanelData
from simdx.methods.speed import OneSlotCache
from simdx.reading import is_checklist, sentence_at, split_sentences
from simdx.types import Float, Int, Label, Mask

if TYPE_CHECKING:
    from simdx.library import Condition, Likeness, RedFlag

INSIDE_SHARE = 0.04  # mean probability that the library takes from held-out texts of the labels
MOST_FOUND = 0.95  # the threshold moves until at most this share of the library's texts lies beyond it
FOLDS = 5  # in which the labels' texts are held out
MOST_ASKED = 400  # about so many texts of the library are compared with a panel
MARKED = 0.1  # share of held-out simulated texts in which a sentence is marked
SENTENCE_DIRECTION = 10.0  # weight of a sentence's direction: half of a text's, since it is less reliable
# A label explains a red flag if this share of its simulated texts, and at least one text, states it. At most
# this share of the panel's simulated texts would be marked for their red flags.
EXPECTED = 0.02
ALARMING = log(100)  # a sentence that favours its label by a larger likelihood ratio is explained anyway


class Compared(NamedTuple):
    """Cases compared with labels and conditions."""

    labels: Float  # (N, K) log-likelihoods
    conditions: Float  # (N, C)


class Stated(NamedTuple):
    """A red flag that a text states."""

    sentence: str
    flag: RedFlag
    number: int  # of the flag
    strange: Mask  # (K,) labels that the sentence does not clearly favour


class Explained(NamedTuple):
    """Which red flags the bank explains."""

    by: Mask  # (K, flags) whether a label explains a red flag, by its conditions or its simulated texts
    least: int  # unexplained ones that a text must state to be marked


@dataclass(frozen=True, slots=True, eq=False)
class World:
    data: PanelData
    own: Likeness  # of the labels
    library: Likeness
    conditions: tuple[Condition, ...]
    outside: Mask  # (C,) conditions that no label means
    urgent: Mask  # (K, C) emergencies that a label could hide
    known: Explained | None = None  # of a compiled panel
    last: OneSlotCache = field(default_factory=OneSlotCache)  # a batch is compared several times
    flags: OneSlotCache = field(default_factory=OneSlotCache)

    @classmethod
    def fit(cls, data: PanelData) -> World | None:
        """None if the panel switches the library off, or if its embedder is the one of the tests."""
        if not data.panel.world or data.embedder.id.startswith("hashing"):
            return None
        from simdx import library  # loaded only by panels that use it

        every = library.conditions()
        taken = library.related_to(data.panel.labels)
        likeness, _ = library.library_likeness()
        outside = np.array([c.name not in taken for c in every])
        urgent = _urgent(data.panel.labels, every, outside)
        if kept := data.kept("world"):
            held = (
                kept["flags"].tobytes().decode() == library.red_flags_version() if "flags" in kept else False
            )
            known = Explained(kept["explained"] > 0, int(kept["least"][0])) if held else None
            return cls(data, library.Likeness.from_arrays(kept), likeness, every, outside, urgent, known)
        directions, said = _seen(data, data.bank.texts, data.embedded.vectors)
        own = library.Likeness.of(directions, said, data.bank.label_index, len(data.panel.names))
        return cls(data, own, likeness, every, outside, urgent)

    def arrays(self) -> dict[str, Float]:
        """The arrays that a compiled panel holds."""
        if not self.data.panel.is_clinical:
            return self.own.arrays()
        from simdx import library

        by, least = self.explained()
        version = np.frombuffer(library.red_flags_version().encode(), dtype=np.uint8)
        flags = {"explained": by.astype(np.uint8), "least": np.array([least]), "flags": version}
        return self.own.arrays() | flags

    def compared(self, observations: Observations) -> Compared:
        def compared() -> Compared:
            seen = _seen(self.data, observations.texts, observations.vectors)
            labels = self.own.scores(*seen) - self.surprise(observations.texts)
            return Compared(labels, self.library.scores(*seen))

        return self.last.get(observations.texts, compared)

    def surprise(self, texts: Sequence[str]) -> Float:
        """(N, K) the log-likelihood that each label loses for red flags that it does not explain: each
        label's own patients state such a red flag with a probability below EXPECTED."""
        cost = np.zeros((len(texts), len(self.data.panel.names)))
        if not self.data.panel.is_clinical:
            return cost
        for row, strange in zip(cost, self._strange(texts), strict=True):
            if strange:
                row -= log(EXPECTED) * self._unexplained(strange).sum(axis=0)
        return cost

    def features(self, compared: Compared, possible: Mask | None = None) -> Float:
        """(N, 1) the library against the possible labels; not calibrated."""
        return against(compared.conditions[:, self.outside], compared.labels, possible)

    def shares(self, compared: Compared) -> Float:
        """(N, C) probability of each condition, given that the case has one that no label means."""
        score = np.where(self.outside, compared.conditions, -np.inf)
        return np.exp(log_softmax(score, axis=1))

    def rivals(self, compared: Compared, label: Int) -> tuple[Int, Float]:
        """(N,) the likeliest emergency that each case's label (N,) could hide, and its log-likelihood minus
        the label's."""
        score = np.where(self.urgent[label], compared.conditions, -np.inf)
        return score.argmax(axis=1), score.max(axis=1) - compared.labels[np.arange(len(label)), label]

    def excess(self, sentences: Sequence[Sequence[str]], label: Int) -> list[Float]:
        """For each text's sentences, the log-likelihood ratio of the condition that fits best against the
        text's label (N,)."""
        from simdx import library

        lengths = [*map(len, sentences)]
        every = [one for some in sentences for one in some]
        seen = library.directions(library.embedded(every)), library.words(every)
        best = self.library.scores(*seen, SENTENCE_DIRECTION)[:, self.outside].max(axis=1)
        own = self.own.scores(*seen, SENTENCE_DIRECTION)[np.arange(len(every)), np.repeat(label, lengths)]
        return np.split(best - own, np.cumsum(lengths)[:-1])

    def red_flags(self, text: str, label: int, conditions: Float) -> list[tuple[str, str, str]]:
        """Each red flag that a text states and its label does not explain: the sentence, the finding, and the
        likeliest condition to which it points. `conditions`: log-likelihoods (C,). Empty if the panel's own
        texts often state as many."""
        from simdx import library

        (found,) = self._strange([text])
        if not found:
            return []
        strange = [one for one, open_ in zip(found, self._unexplained(found)[:, label], strict=True) if open_]

        def fits(name: str) -> float:
            return float(conditions[library.number_of(name)])

        meant = [max(one.flag.of, key=fits) for one in strange]
        return [(one.sentence, one.flag.name, of) for one, of in zip(strange, meant, strict=True)]

    def _strange(self, texts: Sequence[str]) -> list[list[Stated]]:
        """The red flags of each text in order, with the labels that their sentences do not clearly favour."""
        from simdx import library

        found: list[list[RedFlag]] = []
        said: list[str] = []
        for text in texts:
            flags = sorted(((start, flag) for start, _, flag in library.found_in(text)), key=itemgetter(0))
            found.append([flag for _, flag in flags])
            sentences = split_sentences(text) if flags else []
            said += [sentence_at(text, sentences, start) for start, _ in flags]
        if not said:
            return [[] for _ in texts]
        seen = library.directions(library.embedded(said)), library.words(said)
        own = self.own.scores(*seen, SENTENCE_DIRECTION)
        every = self.library.scores(*seen, SENTENCE_DIRECTION)
        rows = iter(zip(said, own, every, strict=True))
        place = {flag.name: i for i, flag in enumerate(library.red_flags())}

        def stated(flag: RedFlag) -> Stated:
            sentence, labels, conditions = next(rows)
            strange = labels - max(conditions[library.number_of(name)] for name in flag.of) < ALARMING
            return Stated(sentence, flag, place[flag.name], strange)

        return [[stated(flag) for flag in flags] for flags in found]

    def _unexplained(self, found: Sequence[Stated]) -> Mask:
        """(flags, K) whether a label leaves a red flag unexplained; never if the panel's own texts often have
        as many unexplained ones."""
        by, least = self.explained()
        strange = np.array([~by[:, one.number] & one.strange for one in found])
        return strange & (strange.sum(axis=0) >= least)

    def explained(self) -> Explained:
        return self.known or self.flags.get(self.data, self._explained)

    def _explained(self) -> Explained:
        from simdx import library

        own: list[list[bool]] = []
        counts: list[int] = []
        for k, label in enumerate(self.data.panel.labels):
            of = library.related_to([label])
            known = {flag.name for flag in library.red_flags() if not of.isdisjoint((*flag.of, *flag.also))}
            texts = [self.data.bank.texts[i] for i in np.flatnonzero(self.data.bank.label_index == k)]
            stated = self._strange(texts)
            times = Counter(one.flag.name for some in stated for one in some)
            least = max(1.0, EXPECTED * len(texts))
            own.append([one.name in known or times[one.name] >= least for one in library.red_flags()])
            counts += [  # as if each text were not in the bank
                sum(
                    one.strange[k] and one.flag.name not in known and times[one.flag.name] - 1 < least
                    for one in some
                )
                for some in stated
            ]
        shares = (np.mean(np.array(counts) >= n) for n in count(1))
        return Explained(np.array(own), next(n for n, share in enumerate(shares, 1) if share <= EXPECTED))


def _urgent(labels: Sequence[Label], every: Sequence[Condition], outside: Mask) -> Mask:
    """(K, C) emergencies that each label could hide.

    These are emergencies that no label means, and emergencies that are a kind of a label that is no emergency
    itself (septic arthritis is a kind of arthritis). A label hides no condition that one of its names means.
    """
    from simdx import library

    emergency = np.array([c.emergency for c in every])
    found = np.tile(emergency & outside, (len(labels), 1))
    if (emergency & ~outside).any():
        for row, label in zip(found, labels, strict=True):
            own = library.meant_by(label.name)
            if label.must_not_miss or (own is not None and own.condition.emergency):
                continue
            meant = {m.condition.name for name in label.aliases if (m := library.meant_by(name))}
            of_label = library.related_to([label]) - meant
            kinds = np.array([c.name in of_label for c in every])
            if not emergency[kinds].all():
                row |= kinds & emergency
    return found


def _seen(data: PanelData, texts: Sequence[str], vectors: Float) -> tuple[Float, list[set[str]]]:
    """Directions and words of texts; `vectors` are theirs from the panel's embedder."""
    from simdx import library

    has_own = data.embedder.id.startswith(library.EMBEDDER)
    raw = vectors[:, : data.embedder.blocks[0]] if has_own else library.embedded(texts)
    return library.directions(raw), library.words(texts)


def against(conditions: Float, labels: Float, possible: Mask | None = None) -> Float:
    every = np.ones(labels.shape[1], dtype=bool) if possible is None else possible
    return (logsumexp(conditions, axis=1) - logsumexp(labels[:, every], axis=1))[:, None]


def world_log_odds(
    features: Float, texts: Sequence[str], scale: OutsideScale, prior: float | None = None
) -> Float:
    """(N,) log odds of a condition of the library; −∞ for a list of questions and answers.

    They never exceed the likelihoods' own log odds: the threshold was found on simulated texts, and a shorter
    text holds less evidence for its label.
    """
    lists = np.array([is_checklist(text) for text in texts], dtype=bool)
    found = np.minimum(condition_log_odds(features, scale, prior), features[:, 0])
    return np.where(lists, -np.inf, found)


class HeldOut(NamedTuple):
    """Texts of the panel, compared with labels fitted without them."""

    rows: Int
    world: World
    compared: Compared


def held_out(world: World) -> Iterator[HeldOut]:
    """Holds out every text of the bank once."""
    from simdx import library

    bank, n_labels = world.data.bank, len(world.data.panel.names)
    directions, said = _seen(world.data, bank.texts, world.data.embedded.vectors)
    every, surprise = world.library.scores(directions, said), world.surprise(bank.texts)
    turn = np.zeros(len(bank.texts), dtype=np.int64)
    for label in range(n_labels):
        rows = np.flatnonzero(bank.label_index == label)
        turn[rows] = np.arange(len(rows)) % FOLDS
    for fold in range(FOLDS):
        held, kept = np.flatnonzero(turn == fold), np.flatnonzero(turn != fold)
        if not held.size or len(np.unique(bank.label_index[kept])) < n_labels:
            continue
        own = library.Likeness.of(directions[kept], [said[i] for i in kept], bank.label_index[kept], n_labels)
        labels = own.scores(directions[held], [said[i] for i in held]) - surprise[held]
        fold_world = replace(world, own=own, last=OneSlotCache())
        yield HeldOut(held, fold_world, Compared(labels, every[held]))


def sentence_scale(world: World) -> SentenceScale | None:
    """From the sentences of the bank's own texts, held out; None where no text can be held out."""
    found: list[Float] = []
    bank = world.data.bank
    for one in held_out(world):
        sentences = [split_sentences(bank.texts[row]) for row in one.rows.tolist()]
        found += one.world.excess(sentences, bank.label_index[one.rows])
    if not found:
        return None
    excess = np.concatenate(found)
    level = float(np.quantile(excess, 1 - MARKED))
    above = excess[excess > level]
    return SentenceScale(round(level, 4), round(float((above - level).mean()) if above.size else 0.0, 4))


def world_scale(world: World, strangers: Compared | None) -> OutsideScale | None:
    """From held-out texts of the labels and from `strangers`; None if no text can be held out."""
    found = [one.world.features(one.compared) for one in held_out(world)]
    if not found:
        return None
    own, others = np.concatenate(found), None if strangers is None else world.features(strangers)
    return scale_of(own, others, INSIDE_SHARE * trusted(world, own), MOST_FOUND)


def trusted(world: World, own: Float) -> float:
    """How far the library is trusted for a panel: 1 if it separates held-out texts of the labels from the
    panel's background without error, or if there is no background to test on; 0 if it cannot separate them.

    `own`: features (n, 1) of those texts. If labels are unlike every condition of the library, as emotions
    are, the library's log odds are mostly noise and would weaken those of the background.
    """
    from simdx.metrics.scores import ood_auroc

    bank, vectors = world.data.bank, world.data.embedded.background
    if vectors is None or len(bank.background) < ENOUGH_OTHERS:
        return 1.0
    others = world.features(world.compared(Observations(tuple(bank.background), vectors)))
    auroc = ood_auroc(own[:, 0], others[:, 0]).value
    return 1.0 if auroc is None else max(2 * auroc - 1, 0.0) ** 2


def strangers(world: World) -> tuple[Observations, Compared] | None:
    """Texts of conditions that no label means, compared as if the library did not hold their condition."""
    from simdx import library

    texts = [t for t in library.texts() if world.outside[library.number_of(t.condition)]]
    asked = texts[:: max(1, len(texts) // MOST_ASKED)]
    if not asked:
        return None
    seen = world.data.observe([t.text for t in asked])
    labels, conditions = world.compared(seen)
    conditions = conditions.copy()  # the cached array must not change
    conditions[np.arange(len(asked)), [library.number_of(t.condition) for t in asked]] = -np.inf
    return seen, Compared(labels, conditions)
