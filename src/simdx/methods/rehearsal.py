"""A rehearsal: how well does a bank answer texts it does not hold?

A fifth of every label's texts is left out at a time, and with it a fifth of the background's kinds, and both
are asked of a fit to the rest: as written, and as somebody in a hurry would type them. A second writer's
texts join where there are some. From the answers follow

sharpness       the one with the least log loss, drawn most of the way to that of other panels
none of these   the threshold at which texts of the labels lose a stated share of their probability
confusions      pairs of labels that the bank itself cannot tell apart

No real case is used. Real text differs from simulated text in more than haste, so the half that is left to
other panels is the part that a bank cannot know of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from simdx.abc.logs import expit, log_softmax, softmax
from simdx.abc.prior import Prior
from simdx.disk import CannotWrite
from simdx.embedders.base import embed_cached
from simdx.methods import calibration
from simdx.methods.background import BackgroundModel, kinds_of
from simdx.methods.calibration import Calibration
from simdx.methods.comparison import LabelPosterior
from simdx.methods.data import Observations, PanelData
from simdx.methods.fitted import RECIPE_VERSION
from simdx.methods.outside import Novelty
from simdx.types import Float, Int, Mask, case_key, content_hash

FOLDS = 5
FEWEST = 10  # texts that can be left out; below it nothing is rehearsed
MOST = 1_200  # texts; a larger bank is rehearsed by an even part of it
FLATTEST, STEEPEST = 0.3, 4.0  # sharpness that is looked for
OWN_SHARE = 0.25  # of the rehearsed sharpness in the calibrated one, on the log scale
MOST_FOUND = 0.8  # mean none of these of the held-out background that no threshold is set to exceed
ENOUGH_OTHERS = 30  # texts of it that can say so
CONFUSED = 0.2  # share of two labels' texts that are given to each other, above which they overlap
MISTYPED = 0.15  # of the longer words of a text typed in haste
DROPPED = 0.3  # of its words

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutScores:
    """Held-out texts of one kind of writing."""

    likelihood: Float  # (n, K) pooled log-likelihoods, not sharpened
    label_index: Int  # (n,)
    signs: Float | None  # (n, signs) of another condition
    novelty: Float | None = None  # (n,) log odds of another kind of text; not rehearsed

    def at(self, rows: Int | Mask) -> HeldOutScores:
        parts = (None if part is None else part[rows] for part in (self.signs, self.novelty))
        return HeldOutScores(self.likelihood[rows], self.label_index[rows], *parts)

    def outside(self, scale: calibration.OutsideScale | None) -> Float | None:
        """(n,) probabilities of none of these."""
        if scale is None or self.signs is None:
            return None
        another = scale.log_odds(self.signs)
        return expit(another if self.novelty is None else np.logaddexp(another, self.novelty))


@dataclass(frozen=True, slots=True)
class SecondWriter:
    """Texts that differ from the bank's as real ones will: another voice, another simulator."""

    texts: tuple[str, ...]
    label_index: Int
    outside: tuple[str, ...] = ()


def in_haste(text: str) -> str:
    """The text as somebody in a hurry types it: words missing, letters exchanged, no capitals."""
    rng = np.random.default_rng(case_key(text))
    words = []
    for word in text.lower().split():
        if rng.random() < DROPPED:
            continue
        if len(word) > 4 and rng.random() < MISTYPED:
            i = int(rng.integers(1, len(word) - 2))
            word = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        words.append(word)
    return " ".join(words) or text.lower()


def calibrated(data: PanelData, bandwidth: float | None = None) -> PanelData:
    """The data with its calibration: the one it has, one that was kept for it, or a rehearsal now."""
    if data.calibration is not None:
        return data
    address = address_for(data, bandwidth)
    found = calibration.look_up(address, data.folder)
    if found is None:
        found = rehearse(data, bandwidth)
        if found.basis != "transferred":
            with suppress(CannotWrite):  # a rehearsal can be made again
                calibration.keep(address, found)
    return replace(data, calibration=found)


def address_for(data: PanelData, bandwidth: float | None = None) -> str:
    bank = replace(data.bank, none_prior=None)  # it moves the log odds, not what they are made of
    return calibration.address_of(bank.identity, data.embedder.id, RECIPE_VERSION, bandwidth)


def can_rehearse(data: PanelData) -> bool:
    counts = np.bincount(data.bank.label_index, minlength=len(data.panel.names))
    return bool(counts.min() >= 2) and len(data.bank.texts) >= FEWEST


def rehearse(
    data: PanelData,
    bandwidth: float | None = None,
    writer: SecondWriter | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """The calibration of a bank by itself; that of other panels where there is too little to leave out."""
    data = thinned(replace(data, real=None))
    if not can_rehearse(data):
        if data.embedded.background is None:
            return Calibration(sharpness=calibration.UNOPPOSED_SHARPNESS)
        return Calibration(outside=calibration.TRANSFERRED_OUTSIDE)
    kinds: dict[str, list[HeldOutScores]] = {"as written": [], "in haste": []}
    beyond: list[HeldOutScores] = []
    for done, (part, held, unknown) in enumerate(parts(data)):
        labels, opposition = LabelPosterior(part, bandwidth), BackgroundModel.fit(part)
        texts = [data.bank.texts[i] for i in held]
        hasty = [in_haste(text) for text in texts]
        seen = {
            "as written": Observations(tuple(texts), data.embedded.vectors[held]),
            "in haste": Observations(tuple(hasty), embed_cached(data.embedder, hasty)),
        }
        for kind, cases in seen.items():
            kinds[kind].append(_answered(labels, opposition, cases, data.bank.label_index[held]))
        if opposition is not None and len(unknown):
            assert data.embedded.background is not None
            others = [data.bank.background[i] for i in unknown]
            seen_others = Observations(tuple(others), data.embedded.background[unknown])
            beyond.append(_answered(labels, opposition, seen_others, np.zeros(len(others), dtype=np.int64)))
        if progress is not None:
            progress(done + 1, FOLDS)
    answered = [_joined(found) for found in kinds.values()]
    if writer is not None:
        labels, opposition = LabelPosterior(data, bandwidth), BackgroundModel.fit(data)
        asked = data.observe(writer.texts)
        answered.append(_answered(labels, opposition, asked, writer.label_index))
        if opposition is not None and writer.outside:
            n_others = len(writer.outside)
            asked = data.observe(writer.outside)
            beyond.append(_answered(labels, opposition, asked, np.zeros(n_others, dtype=np.int64)))
    return calibrate(data, answered, _joined(beyond) if beyond else None)


def calibrate(
    data: PanelData, answered: Sequence[HeldOutScores], beyond: HeldOutScores | None
) -> Calibration:
    """From held-out answers, the bank's own writing first, to the numbers that make probabilities of them."""
    from simdx.metrics.calibration import ece
    from simdx.metrics.ood import ood_auroc

    own, names = answered[0], data.panel.names
    outside = None
    if own.signs is not None:
        outside = scale_of(own.signs, None if beyond is None else beyond.signs)
    found = [(a, a.outside(outside)) for a in answered]
    rehearsed = least_loss(lambda s: float(np.mean([_log_loss(s, a, p) for a, p in found])))
    sharpness = float(np.exp(OWN_SHARE * np.log(rehearsed) + (1 - OWN_SHARE) * np.log(calibration.SHARPNESS)))
    if outside is None:
        sharpness = min(sharpness, calibration.UNOPPOSED_SHARPNESS)
    uniform = np.full(len(names), 1 / len(names))
    posterior = calibration.drawn_to_prior(softmax(sharpness * own.likelihood, axis=1), found[0][1], uniform)
    auroc = found_outside = accept_from = None
    told = None if beyond is None else beyond.outside(outside)
    if beyond is not None and told is not None and found[0][1] is not None:
        auroc, found_outside = ood_auroc(found[0][1], told).value, float(told.mean())
        wrong = calibration.drawn_to_prior(softmax(sharpness * beyond.likelihood, axis=1), told, uniform)
        accept_from = round(float(np.quantile(wrong.max(axis=1), 1 - calibration.UNKNOWN_ACCEPTED)), 6)
    return Calibration(
        basis="rehearsed",
        sharpness=round(sharpness, 4),
        rehearsed_sharpness=round(rehearsed, 4),
        outside=outside,
        n=len(own.label_index),
        writers=len(answered),
        accuracy=float((posterior.argmax(axis=1) == own.label_index).mean()),
        ece=ece(posterior, own.label_index).value,
        auroc=auroc,
        found_outside=found_outside,
        accept_from=accept_from,
        confused=confusions(posterior.argmax(axis=1), own.label_index, names),
    )


def least_loss(loss: Callable[[float], float]) -> float:
    from scipy.optimize import minimize_scalar

    low, high = np.log(FLATTEST), np.log(STEEPEST)
    found = minimize_scalar(lambda log_s: loss(float(np.exp(log_s))), bounds=(low, high), method="bounded")
    return float(np.exp(found.x))


def scale_of(signs: Float, others: Float | None = None) -> calibration.OutsideScale:
    """Signs in units of held-out texts of the labels, and the threshold they mostly stay below.

    Where `others`, the held-out background's, nearly all lie above it, the texts of a weak simulator are too
    like one another, and real ones will lie between: the threshold moves up until it finds MOST_FOUND of the
    others, half of the way to them at most.
    """
    centre, spread = np.median(signs, axis=0), np.maximum(signs.std(axis=0), 1e-6)
    scale = calibration.OutsideScale(_rounded(centre), _rounded(spread), threshold=0.0)
    threshold = calibration.threshold_at(scale.score(signs), calibration.INSIDE_SHARE)
    if others is not None and len(others) >= ENOUGH_OTHERS:
        score = scale.score(others)
        half_way = (threshold + float(np.median(score))) / 2
        threshold = max(threshold, min(half_way, calibration.threshold_at(score, MOST_FOUND)))
    return replace(scale, threshold=round(threshold, 6))


def _rounded(values: Float) -> tuple[float, ...]:
    return tuple(round(float(v), 6) for v in values)


def confusions(given: Int, truth: Int, names: Sequence[str]) -> tuple[calibration.Confused, ...]:
    """Pairs of labels whose texts are often given to each other, the worst first."""
    table = np.zeros((len(names), len(names)))
    np.add.at(table, (truth, given), 1)
    each = np.maximum(table.sum(axis=1), 1)
    share = (table + table.T) / (each[:, None] + each)
    found = [
        calibration.Confused(names[a], names[b], round(float(share[a, b]), 3))
        for a, b in np.argwhere(np.triu(share >= CONFUSED, 1))
    ]
    return tuple(sorted(found, key=lambda c: -c.share))


def answered_by(data: PanelData, cases: Observations, label_index: Int) -> HeldOutScores:
    """Labelled cases as the whole bank answers them."""
    found = _answered(LabelPosterior(data), BackgroundModel.fit(data), cases, label_index)
    novelty = None if found.signs is None else Novelty.fit(data)
    return found if novelty is None else replace(found, novelty=novelty.log_odds(cases))


# --------------------------------------------------------------------------- what is left out


def parts(data: PanelData) -> Iterator[tuple[PanelData, Int, Int]]:
    """The data without a fold, the texts left out, and those of the background."""
    bank, embedded = data.bank, data.embedded
    own = dealt(bank.texts, bank.label_index)
    n_other = len(bank.background)
    other: Int = np.zeros(0, dtype=np.int64)
    if embedded.background is not None and n_other:
        kind = kinds_of(np.asarray(embedded.background, dtype=float))
        other = (
            kind % FOLDS if kind.max() + 1 >= FOLDS else dealt(bank.background, np.zeros(n_other, dtype=int))
        )
    for f in range(FOLDS):
        held, unknown = np.flatnonzero(own == f), np.flatnonzero(other == f)
        kept, known = np.flatnonzero(own != f), np.flatnonzero(other != f)
        seen = {bank.texts[i] for i in kept}
        held = held[[bank.texts[i] not in seen for i in held]] if held.size else held
        if held.size:
            yield part_of(data, kept, known), held, unknown


def part_of(data: PanelData, rows: Int, others: Int) -> PanelData:
    """Some texts of the bank and of its background."""
    bank, embedded = data.bank, data.embedded
    background = None if embedded.background is None or not others.size else embedded.background[others]
    kept = replace(bank.subset(rows), background=tuple(bank.background[i] for i in others))
    seen = replace(embedded.subset(rows), background=background)
    return PanelData(data.panel, kept, seen, data.embedder)


def thinned(data: PanelData) -> PanelData:
    """The data, or an even part of every label's texts where there are very many."""
    n, names = len(data.bank.texts), data.panel.names
    if n <= MOST:
        return data
    each = max(2, MOST // len(names))
    order = sorted(range(n), key=lambda i: content_hash(data.bank.texts[i]))
    kept, counts = [], np.zeros(len(names), dtype=int)
    for i in order:
        label = int(data.bank.label_index[i])
        if counts[label] < each:
            counts[label] += 1
            kept.append(i)
    return part_of(data, np.sort(kept), np.arange(len(data.bank.background)))


def dealt(texts: Sequence[str], group: Int) -> Int:
    """A fold for every text: groups apart, equal texts together, dealt by what they say.

    The only text of a group is in no fold (-1), so that every fit holds something of every group.
    """
    fold = np.full(len(texts), -1)
    for g in np.unique(group):
        rows = np.flatnonzero(group == g).tolist()
        place = {text: i for i, text in enumerate(sorted({texts[i] for i in rows}, key=content_hash))}
        if len(place) > 1:
            fold[rows] = [place[texts[i]] % FOLDS for i in rows]
    return fold


def _answered(
    labels: LabelPosterior, opposition: BackgroundModel | None, cases: Observations, label_index: Int
) -> HeldOutScores:
    return HeldOutScores(
        labels.log_likelihood(cases), label_index, None if opposition is None else opposition.signs(cases)
    )


def _joined(found: Sequence[HeldOutScores]) -> HeldOutScores:
    signs = [a.signs for a in found if a.signs is not None]
    return HeldOutScores(
        np.concatenate([a.likelihood for a in found]),
        np.concatenate([a.label_index for a in found]),
        np.concatenate(signs) if len(signs) == len(found) else None,
    )


def _log_loss(sharpness: float, answered: HeldOutScores, outside: Float | None) -> float:
    n_labels = answered.likelihood.shape[1]
    inside = np.exp(log_softmax(sharpness * answered.likelihood, axis=1))
    drawn = calibration.drawn_to_prior(inside, outside, Prior.uniform(n_labels).probabilities)
    return log_loss(drawn, answered.label_index)


def log_loss(posterior: Float, truth: Int) -> float:
    own = posterior[np.arange(len(posterior)), truth]
    return float(-np.log(np.maximum(own, 1e-12)).mean())
