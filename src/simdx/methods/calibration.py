"""Calibration: from scores to probabilities, on held-out simulated text or on labelled cases.

rehearsed   A fifth of every label's texts, and of the background's kinds, is held out in turn and answered
            by a fit to the rest: as written, and as typed in haste. A second writer's texts are added if
            there are any. The answers give the regression's share relative to the kernel, moved a little
            towards one half; the sharpness of least log loss, moved a little towards that of other panels;
            the threshold of none of these at which texts of the labels lose a stated share of their
            probability; and pairs of labels that the bank itself does not separate. The uncertainty of the
            sharpness (`spread`) is the error left when each of fifteen panels was answered with the level of
            the others (results/experts)
labelled    From eight cases on. Sharpness, the weight of the second expert, a shift for each label, a
            residual and the threshold maximise the posterior density under a prior around the rehearsed
            values, as wide as panels differ: a few cases change them little, many cases change them much.
            The residual is a Gaussian process whose covariance is the cosine of two texts: it moves a text
            like a labelled one towards that label. The labels' frequencies among the cases are not learned,
            because the prior states them with each question. The remaining uncertainty of the sharpness
            stays as its spread. The reported calibration error, from twenty cases on, is cross-fitted: each
            fifth of the cases is answered by a fit to the others. Cases of the labels alone raise the
            threshold; cases of none of these keep it down, and have their own residual
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from simdx.abc.logs import expit, log_softmax
from simdx.disk import CannotWrite
from simdx.errors import BadInput
from simdx.methods import calibration_record as record
from simdx.methods.calibration_record import Calibration, Confused, condition_log_odds, scale_of
from simdx.methods.experts import LogLikelihoods, Pool, joined
from simdx.methods.fitted import Progress, with_none
from simdx.methods.outside import BackgroundModel, Novelty, kinds_of
from simdx.methods.panel_data import RECIPE_VERSION, Observations, PanelData, world_identity
from simdx.methods.world import World, sentence_scale, strangers, world_log_odds, world_scale
from simdx.methods.world import held_out as held_out_of
from simdx.types import NONE_OF_THESE, Case, Float, Int, Mask, case_key, content_hash

FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutScores:
    """Scores of texts that the fit was made without."""

    likelihood: Float  # (n, K) log-likelihoods of the first expert, not sharpened
    label_index: Int  # (n,)
    features: Float | None  # (n, features) of another condition of the panel's own background
    world: Float | None = None  # (n, features) of one of the library
    novelty: Float | None = None  # (n,) log odds of another kind of text; not rehearsed
    texts: tuple[str, ...] = ()  # the texts scored, if the library was compared
    second: Float | None = None  # (n, K) log-likelihoods of the second expert
    kernel: Float | None = None  # (n, K) log-likelihoods of the first expert's kernel alone
    direction: Float | None = None  # (n, d) of the texts around the bank's mean

    def at(self, rows: Int | Mask) -> HeldOutScores:
        names = ("features", "world", "novelty", "second", "kernel", "direction")
        some = {name: part[rows] for name in names if (part := getattr(self, name)) is not None}
        texts = tuple(np.array(self.texts, dtype=object)[rows]) if self.texts else ()
        likelihood, label = self.likelihood[rows], self.label_index[rows]
        return replace(self, likelihood=likelihood, label_index=label, texts=texts, **some)

    @property
    def said(self) -> LogLikelihoods:
        return LogLikelihoods(self.likelihood, self.second, self.kernel, self.direction)

    def log_odds(self, under: Calibration) -> Float | None:
        """(n,) of none of these."""
        weighed = []
        if under.outside is not None and self.features is not None:
            weighed.append(condition_log_odds(self.features, under.outside))
        if under.world is not None and self.world is not None:
            weighed.append(world_log_odds(self.world, self.texts, under.world))
        if not weighed:
            return None
        weighed += [] if self.novelty is None else [self.novelty]
        weights = under.residual_weights
        learned = 0.0 if weights is None or self.direction is None else self.direction @ weights[-1]
        return reduce(np.logaddexp, weighed) + learned

    def outside(self, under: Calibration) -> Float | None:
        """(n,) probabilities of none of these."""
        found = self.log_odds(under)
        return None if found is None else expit(found)

    def among_labels(self, under: Calibration) -> Float:
        """(n, K) answers among the labels under the uniform prior."""
        return np.exp(self.said.under(under))

    def posterior(self, under: Calibration) -> Float:
        """(n, K + 1) posteriors with none of these last; (n, K) if none of these is not estimated."""
        return with_none(self.among_labels(under), self.outside(under))


def held_out(
    labels: Pool, background: BackgroundModel | None, cases: Observations, label_index: Int | None = None
) -> HeldOutScores:
    """Scores of texts under a fit; without `label_index` the texts belong to no label."""
    truth = np.zeros(len(cases.texts), dtype=np.int64) if label_index is None else label_index
    features = None if background is None else background.features(cases)
    said = labels.log_likelihoods(cases)
    return HeldOutScores(
        said.first, truth, features, second=said.second, kernel=said.kernel, direction=said.direction
    )


def scores_of(data: PanelData, cases: Observations, label_index: Int | None = None) -> HeldOutScores:
    """Scores of cases under a fit to the whole bank."""
    found = held_out(Pool.fit(data), BackgroundModel.fit(data), cases, label_index)
    if (world := World.fit(data)) is not None:
        found = replace(found, world=world.features(world.compared(cases)), texts=cases.texts)
    novelty = None if found.features is None and found.world is None else Novelty.fit(data)
    return found if novelty is None else replace(found, novelty=novelty.log_odds(cases))


def log_loss(posterior: Float, truth: Int) -> float:
    own = posterior[np.arange(len(posterior)), truth]
    return float(-np.log(np.maximum(own, 1e-12)).mean())


# --------------------------------------------------------------------------- rehearsed

FEWEST = 10  # texts that a rehearsal needs
MOST = 1_200  # texts; of a larger bank an even part is rehearsed
OF_LIBRARY = ":library"  # name of a bank whose texts are the library's own
FLATTEST, STEEPEST = 0.3, 4.0  # bounds of the sharpness
OWN_SHARE = 0.7  # weight of the rehearsed log sharpness, and of the log odds of the rehearsed share
FURTHEST_SHARE = 4.0  # bound of the log odds of the regression's share
CONFUSED = 0.2  # two labels overlap if this share of their texts is given to the other label
MISTYPED = 0.15  # share of the longer words that are mistyped in haste
DROPPED = 0.3  # share of words that are dropped in haste


@dataclass(frozen=True, slots=True)
class SecondWriter:
    """Texts that differ from the bank's as real texts do: in another style or by another simulator."""

    texts: tuple[str, ...]
    label_index: Int
    outside: tuple[str, ...] = ()


def calibrated(data: PanelData, bandwidth: float | None = None) -> PanelData:
    """The data with a calibration: its own, a stored one, or a rehearsal made now."""
    if data.calibration is not None:
        return data
    address = address_for(data, bandwidth)
    found = record.look_up(address, data.folder)
    if found is None:
        found = rehearse(data, bandwidth)
        if found.basis != "transferred":
            with suppress(CannotWrite):  # a rehearsal can be made again
                record.keep(address, found)
    return replace(data, calibration=found)


def address_for(data: PanelData, bandwidth: float | None = None) -> str:
    bank = replace(data.bank, none_prior=None)  # this prior does not change the calibration
    world = world_identity(data.panel)
    return record.address_of(bank.identity, data.embedder.id, RECIPE_VERSION, bandwidth, world + data.reading)


def can_rehearse(data: PanelData) -> bool:
    counts = np.bincount(data.bank.label_index, minlength=len(data.panel.names))
    return bool(counts.min() >= 2) and len(data.bank.texts) >= FEWEST


def rehearse(
    data: PanelData,
    bandwidth: float | None = None,
    writer: SecondWriter | None = None,
    progress: Progress | None = None,
    weight: float = record.SECOND_WEIGHT,
) -> Calibration:
    """The calibration of a bank by itself; that of other panels if it has too few texts to hold out.

    `weight`: of the second expert, if there is one.
    """
    data = thinned(replace(data, real=None))
    if not can_rehearse(data):
        if data.embedded.background is None:
            return Calibration(sharpness=record.UNOPPOSED_SHARPNESS)  # too few texts for the library
        return Calibration(outside=record.TRANSFERRED_OUTSIDE)
    scores, of_library = rehearsal(data, bandwidth, writer, progress), data.bank.name.endswith(OF_LIBRARY)
    return with_world(data, calibrate(data.panel.names, *scores, weight, of_library))


def rehearsal(
    data: PanelData,
    bandwidth: float | None = None,
    writer: SecondWriter | None = None,
    progress: Progress | None = None,
) -> tuple[list[HeldOutScores], HeldOutScores | None]:
    """Scores of held-out texts: of the labels (as written, in haste, by another writer), and of others."""
    bank, embedded = data.bank, data.embedded
    written, hasty, beyond = [], [], []
    for done, (part, held, unknown) in enumerate(folds_of(data)):
        fits, truth = (Pool.fit(part, bandwidth), BackgroundModel.fit(part)), bank.label_index[held]
        texts = tuple(bank.texts[i] for i in held)
        typed = tuple(in_haste(text) for text in texts)
        written.append(held_out(*fits, Observations(texts, embedded.vectors[held]), truth))
        hasty.append(held_out(*fits, data.observe(typed), truth))
        if fits[1] is not None and len(unknown) and embedded.background is not None:
            others = tuple(bank.background[i] for i in unknown)
            beyond.append(held_out(*fits, Observations(others, embedded.background[unknown])))
        if progress is not None:
            progress(done + 1, FOLDS)
    inside = [_joined(written), _joined(hasty)]
    if writer is not None:
        fits = Pool.fit(data, bandwidth), BackgroundModel.fit(data)
        inside.append(held_out(*fits, data.observe(writer.texts), writer.label_index))
        if fits[1] is not None and writer.outside:
            beyond.append(held_out(*fits, data.observe(writer.outside)))
    return inside, _joined(beyond) if beyond else None


def with_world(data: PanelData, found: Calibration) -> Calibration:
    """The calibration with the library's scale, from labels' texts held out."""
    world = World.fit(data)
    asked = None if world is None else strangers(world)
    scale = None if world is None else world_scale(world, asked and asked[1])
    if world is None or scale is None:
        return found
    found = replace(found, world=scale, unexplained=sentence_scale(world))
    if found.auroc is not None or asked is None:
        return found
    # A panel without its own background is rehearsed against texts of the library.
    seen, compared = asked
    known = found.rehearsed_sharpness
    if known is not None and data.bank.name.endswith(OF_LIBRARY):  # other panels keep the limit
        found = replace(found, sharpness=round(_drawn(known, pooled=found.weight > 0), 4))
    others = replace(held_out(Pool.fit(data), None, seen), world=world.features(compared), texts=seen.texts)
    inside = np.concatenate([part.world.features(part.compared) for part in held_out_of(world)])
    return _told_apart(found, expit(condition_log_odds(inside, scale)), others)


def _told_apart(found: Calibration, among: Float | None, others: HeldOutScores | None) -> Calibration:
    """Adds the AUROC of none of these between texts of the labels and others, and the probability below which
    all but a few of the others stay."""
    from simdx.metrics.scores import ood_auroc

    none = None if others is None else others.outside(found)
    if among is None or others is None or none is None:
        return found
    wrong = others.posterior(found)[:, : others.likelihood.shape[1]].max(axis=1)
    return replace(
        found,
        auroc=ood_auroc(among, none).value,
        found_outside=float(none.mean()),
        accept_from=round(float(np.quantile(wrong, 1 - record.UNKNOWN_ACCEPTED)), 6),
    )


def _drawn(rehearsed: float, *, pooled: bool) -> float:
    """A bank's rehearsed sharpness, moved towards that of other panels."""
    level = record.POOLED_SHARPNESS if pooled else record.SHARPNESS
    return float(np.exp(OWN_SHARE * np.log(rehearsed) + (1 - OWN_SHARE) * np.log(level)))


def calibrate(
    names: Sequence[str],
    inside: Sequence[HeldOutScores],
    beyond: HeldOutScores | None,
    weight: float = record.SECOND_WEIGHT,
    of_library: bool = False,
) -> Calibration:
    """The calibration from held-out scores, those of texts as written first.

    A bank of library texts keeps equal shares: these texts differ on purpose, so a held-out one says too
    little about real texts.
    """
    from simdx.metrics.calibration import ece

    own = inside[0]
    outside = None
    if own.features is not None:
        outside = scale_of(own.features, None if beyond is None else beyond.features)

    weight = 0.0 if own.second is None else weight
    pooled = weight > 0

    def loss(sharpness: float, share: float) -> float:
        tried = Calibration(sharpness=sharpness, weight=weight, share=share)
        return float(np.mean([log_loss(h.among_labels(tried), h.label_index) for h in inside]))

    share = 0.5 if own.kernel is None or of_library else _share(loss)
    rehearsed = least_loss(lambda sharpness: loss(sharpness, share))
    sharpness = _drawn(rehearsed, pooled=pooled)
    if outside is None:
        sharpness = min(sharpness, record.UNOPPOSED_POOLED if pooled else record.UNOPPOSED_SHARPNESS)
    found = Calibration(
        "rehearsed", sharpness, record.SPREAD, weight, share, round(rehearsed, 4), outside=outside,
        n=len(own.label_index), writers=len(inside),
    )  # fmt: skip
    found = _told_apart(found, own.outside(found), beyond)
    posterior = own.posterior(found)
    given = posterior.argmax(axis=1)
    return replace(
        found,
        sharpness=round(sharpness, 4),
        accuracy=float((given == own.label_index).mean()),
        ece=ece(posterior, own.label_index).value,
        confused=confusions(given, own.label_index, names),
    )


def _share(loss: Callable[[float, float], float]) -> float:
    """The regression's share of least loss at its best sharpness, moved a little towards one half.

    The regression fails if texts of a label have few words in common, as in short comments; the bank's texts
    show this.
    """
    from scipy.optimize import minimize

    bounds = [(np.log(FLATTEST), np.log(STEEPEST)), (-FURTHEST_SHARE, FURTHEST_SHARE)]
    found = minimize(lambda v: loss(float(np.exp(v[0])), float(expit(v[1]))), np.zeros(2), bounds=bounds)
    return round(float(expit(OWN_SHARE * found.x[1])), 4)


def least_loss(loss: Callable[[float], float]) -> float:
    from scipy.optimize import minimize_scalar

    low, high = np.log(FLATTEST), np.log(STEEPEST)
    found = minimize_scalar(lambda log_s: loss(float(np.exp(log_s))), bounds=(low, high), method="bounded")
    return float(np.exp(found.x))


def confusions(given: Int, truth: Int, names: Sequence[str]) -> tuple[Confused, ...]:
    """Pairs of labels whose texts are often given to each other, the worst first."""
    table = np.zeros((len(names), len(names) + 1))  # the last column: answered none of these
    np.add.at(table, (truth, given), 1)
    table = table[:, :-1]
    each = np.maximum(table.sum(axis=1), 1)
    share = (table + table.T) / (each[:, None] + each)
    pairs = np.argwhere(np.triu(share >= CONFUSED, 1))
    found = (Confused(names[a], names[b], round(float(share[a, b]), 3)) for a, b in pairs)
    return tuple(sorted(found, key=lambda c: -c.share))


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


def folds_of(data: PanelData) -> Iterator[tuple[PanelData, Int, Int]]:
    """The data without a fold, the texts left out, and those of the background."""
    bank, background = data.bank, data.embedded.background
    own, other = dealt(bank.texts, bank.label_index), dealt((), np.zeros(0, dtype=int))
    if background is not None and bank.background:
        kind = kinds_of(np.asarray(background, dtype=float))
        one_group = np.zeros(len(bank.background), dtype=int)
        other = kind % FOLDS if kind.max() + 1 >= FOLDS else dealt(bank.background, one_group)
    for f in range(FOLDS):
        kept = np.flatnonzero(own != f)
        seen = {bank.texts[i] for i in kept}
        held = np.array([i for i in np.flatnonzero(own == f) if bank.texts[i] not in seen], dtype=np.int64)
        if held.size:
            yield data.subset(kept, np.flatnonzero(other != f)), held, np.flatnonzero(other == f)


def thinned(data: PanelData) -> PanelData:
    """The data, with only an even part of every label's texts if there are very many."""
    bank, n_labels = data.bank, len(data.panel.names)
    if len(bank.texts) <= MOST:
        return data
    order = np.array(sorted(range(len(bank.texts)), key=lambda i: content_hash(bank.texts[i])))
    each = max(2, MOST // n_labels)
    kept = [order[bank.label_index[order] == k][:each] for k in range(n_labels)]
    return data.subset(np.sort(np.concatenate(kept)), np.arange(len(bank.background)))


def dealt(texts: Sequence[str], group: Int) -> Int:
    """A fold for every text, from its content: equal texts share a fold, each group is divided separately.

    The only text of a group is in no fold (-1), so that every fit holds a text of every group.
    """
    fold = np.full(len(texts), -1)
    for g in np.unique(group):
        rows = np.flatnonzero(group == g).tolist()
        place = {text: i for i, text in enumerate(sorted({texts[i] for i in rows}, key=content_hash))}
        if len(place) > 1:
            fold[rows] = [place[texts[i]] % FOLDS for i in rows]
    return fold


def _joined(found: Sequence[HeldOutScores]) -> HeldOutScores:
    features = [h.features for h in found if h.features is not None]
    said = joined([h.said for h in found])
    return HeldOutScores(
        said.first,
        np.concatenate([h.label_index for h in found]),
        np.concatenate(features) if len(features) == len(found) else None,
        second=said.second,
        kernel=said.kernel,
        direction=said.direction,
    )


# --------------------------------------------------------------------------- labelled

FEWEST_CASES = 8  # labelled rows, including those of none of these
FEWEST_INSIDE = 4  # rows with one of the panel's labels
TELLING_CASES = 20  # the calibration error is stated from this number on
# Spreads of the prior over panels, which is normal except for the threshold; that of log sharpness is the
# calibration's `spread`. They were chosen by log loss with 12 and 50 labelled cases over the panels of
# results/experts, each label counting the same. Only the residual's (among 0, .7, 1 and 1.5) was chosen
# leaving one panel out.
UNKNOWN_SPREAD = 1.0  # of log sharpness, without a rehearsal
WEIGHT_SPREAD = 0.5  # of the logarithm of the second expert's weight
SHIFT_SPREAD = 0.25  # of each label's log odds
RESIDUAL_SPREAD = 1.5  # of the log odds of one text; the cosine of two texts is their correlation
# Scale of the threshold's Cauchy prior, in standard deviations of the features: with labelled outside cases,
# and without any, when nothing shows what a higher threshold would miss. Half of all panels are nearer than
# this to the rehearsed threshold, but on some the rehearsal is off by one or two.
THRESHOLD_SCALE, THRESHOLD_SCALE_INSIDE = 0.25, 0.08
FURTHEST = 2.0  # bound of every parameter except the residual
SLIGHTLY = 1e-4  # step of the threshold for a numerical slope


def calibrated_on(data: PanelData, cases: Sequence[Case]) -> PanelData:
    """The data, calibrated on labelled cases."""
    for i, case in enumerate(cases):
        if case.label not in (*data.panel.names, NONE_OF_THESE):
            raise BadInput(f"calibration case {i + 1} has no label of panel '{data.panel.name}'")
    refuse_few(cases)
    rehearsed = calibrated(data)
    return replace(rehearsed, calibration=measured_on(rehearsed, cases))


def measured_on(
    data: PanelData, cases: Sequence[Case], beside: Callable[[Sequence[Case]], PanelData] | None = None
) -> Calibration:
    """The data's calibration, updated with labelled cases, including cases labelled none of these.

    `beside`: returns the data with given cases beside its bank. Each fifth of the cases is then answered by a
    fit with the other four fifths, because a fit's own cases show nothing about new ones.
    """
    assert data.calibration is not None
    names = (*data.panel.names, NONE_OF_THESE)
    label = np.array([names.index(str(case.label)) for case in cases], dtype=np.int64)
    order: Int = np.arange(len(cases))
    if beside is None:
        asked = scores_of(data, data.observe([case.text for case in cases]), label)
    else:
        fold = dealt([case.text for case in cases], label)  # −1: the only case of its label, held out alone
        parts = []
        for f in np.unique(fold):
            held = np.flatnonzero(fold == f)
            others = [case for case, own in zip(cases, fold, strict=True) if own != f]
            part = beside(others) if others else data
            parts.append(scores_of(part, part.observe([cases[int(i)].text for i in held]), label[held]))
        order = np.concatenate([np.flatnonzero(fold == f) for f in np.unique(fold)])
        asked = _joined(parts)
    inside = label[order] < len(names) - 1
    beyond = asked.at(~inside) if (~inside).any() else None
    return calibrate_on(asked.at(inside), data.calibration, beyond)


def calibrate_on(
    cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None = None, seed: int = 0
) -> Calibration:
    """The calibration `base`, updated with labelled cases and with outside cases (`beyond`)."""
    from simdx.metrics.calibration import debiased_ece, ece

    rng = np.random.default_rng(seed)
    posterior, truth = crossfitted(cases, base, beyond, rng)
    right = posterior.argmax(axis=1) == truth
    found = replace(
        fit_on(cases, base, beyond), basis="measured", n=len(truth), writers=0, accuracy=float(right.mean())
    )
    if found.n < TELLING_CASES:
        return replace(found, ece=None, ece_interval=None)
    _, low, high = debiased_ece(posterior, truth, rng)
    most = max(high, _most_off(float(posterior.max(axis=1).mean()), int(right.sum()), found.n))
    return replace(found, ece=ece(posterior, truth).value, ece_interval=(low, most))


def _most_off(sure: float, right: int, n: int) -> float:
    """The largest difference of mean confidence and share of right answers (95 %, Clopper and Pearson).

    The binned error cannot be less. Its interval is too narrow if few cases were all answered correctly.
    """
    from scipy.stats import beta

    low = float(beta.ppf(0.025, right, n - right + 1)) if right else 0.0
    high = float(beta.ppf(0.975, right + 1, n - right)) if right < n else 1.0
    return max(sure - low, high - sure)


def crossfitted(
    cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None, rng: np.random.Generator
) -> tuple[Float, Int]:
    """Answers to the cases, each fifth from a fit to the others, and their true outcomes. If none of these is
    estimated, the outside cases follow at the end."""
    n, n_labels = cases.likelihood.shape
    fold = _folds(cases.texts or range(n), rng)
    weighed = beyond is not None and cases.log_odds(base) is not None and beyond.log_odds(base) is not None
    apart = _folds(() if beyond is None else beyond.texts or range(len(beyond.label_index)), rng)
    rows, parts = [], []
    for f in range(FOLDS):
        kept = None if beyond is None or (apart == f).all() else beyond.at(apart != f)
        known = fit_on(cases.at(fold != f), base, kept)
        rows.append(np.flatnonzero(fold == f))
        parts.append(cases.at(fold == f).posterior(known))
        if weighed and beyond is not None:
            rows.append(n + np.flatnonzero(apart == f))
            parts.append(beyond.at(apart == f).posterior(known))
    order = np.concatenate(rows)
    outcome = np.concatenate([cases.label_index, np.full(len(apart), n_labels)])
    return np.concatenate(parts)[np.argsort(order)], outcome[np.sort(order)]


def _folds(cases: Sequence[object], rng: np.random.Generator) -> Int:
    """The fold of each case; equal cases share one, so that none is answered by a fit to itself."""
    distinct = {case: i for i, case in enumerate(dict.fromkeys(cases))}
    fold: Int = rng.permutation(len(distinct)) % FOLDS
    return fold[[distinct[case] for case in cases]]


def refuse_few(cases: Sequence[Case]) -> None:
    n, inside = len(cases), sum(case.label != NONE_OF_THESE for case in cases)
    if n < FEWEST_CASES:
        raise BadInput(
            f"{n} labelled cases are too few (at least {FEWEST_CASES}): the calibration is unchanged"
        )
    if inside < FEWEST_INSIDE:
        raise BadInput(
            f"{inside} of the {n} labelled cases have a label of the panel: give at least {FEWEST_INSIDE}"
        )


def fit_on(cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None = None) -> Calibration:
    """The calibration of largest posterior density. A case's probability has two factors without a common
    parameter: that it has some label, and which label it has."""
    return _none_of_these(cases, _among_labels(cases, base), beyond)


def _among_labels(cases: HeldOutScores, base: Calibration) -> Calibration:
    """Fits sharpness, weight of the second expert, shifts and residual.

    The curvature at the optimum gives the remaining spread of the sharpness.
    """
    n, n_labels = cases.likelihood.shape
    own = np.arange(n), cases.label_index
    known = base.spread or UNKNOWN_SPREAD
    along, back = _along(cases.direction, n)
    many = (1, 1, n_labels, n_labels * along.shape[1])
    spread = np.repeat([known, WEIGHT_SPREAD, SHIFT_SPREAD, RESIDUAL_SPREAD], many)
    # This offset keeps the labels' frequencies out of the fit: the user's prior states them.
    often = np.log(np.bincount(cases.label_index, minlength=n_labels) + 1.0)
    first = replace(cases.said, second=None).pooled(base)
    second = np.zeros_like(first) if cases.second is None else cases.second

    def loss(v: Float) -> tuple[float, Float]:
        sharpness, weight = base.sharpness * np.exp(v[0]), base.weight * np.exp(v[1])
        shift, residual = v[2 : 2 + n_labels], v[2 + n_labels :].reshape(n_labels, -1)
        score = first + weight * second
        said = log_softmax(sharpness * score + shift + along @ residual.T + often, axis=1)
        wrong = np.exp(said)
        wrong[own] -= 1
        slope = np.concatenate([
            [sharpness * (wrong * score).sum(), sharpness * weight * (wrong * second).sum()],
            wrong.sum(axis=0), (wrong.T @ along).ravel(),
        ])  # fmt: skip
        return float(0.5 * ((v / spread) ** 2).sum() - said[own].sum()), slope + v / spread**2

    v = _least(loss, len(spread), bounded=2 + n_labels)
    step = np.zeros(len(v))
    step[0] = 0.05
    curvature = (loss(v + step)[0] - 2 * loss(v)[0] + loss(v - step)[0]) / step[0] ** 2
    shift, residual = v[2 : 2 + n_labels], v[2 + n_labels :].reshape(n_labels, -1) @ back
    return replace(
        base,
        sharpness=round(float(base.sharpness * np.exp(v[0])), 4),
        spread=round(float(min(known, max(curvature, 1e-6) ** -0.5)), 4),
        weight=round(float(base.weight * np.exp(v[1])), 4),
        shift=_rounded(shift - shift.mean()),
        residual=(*map(_rounded, residual), (0.0,) * residual.shape[1]) if residual.size else (),
    )


def _none_of_these(cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None) -> Calibration:
    """Fits the threshold, with one step for both scales because a few cases cannot separate them, and, with
    outside cases, the residual of none of these."""

    def moved(step: float) -> Calibration:
        own, world = (s and replace(s, threshold=s.threshold + step) for s in (base.outside, base.world))
        return replace(base, outside=own, world=world, residual=())

    def odds(step: float) -> Float | None:
        parts = [part.log_odds(moved(step)) for part in (cases, beyond) if part is not None]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    if odds(0.0) is None:
        return base
    n = len(cases.label_index)
    is_none = np.arange(n + (0 if beyond is None else len(beyond.label_index))) >= n
    directions = [] if beyond is None else [cases.direction, beyond.direction]
    told = [d for d in directions if d is not None]
    learns = bool(base.residual) and len(told) == 2
    along, back = _along(np.concatenate(told) if learns else None, len(is_none))
    scale = THRESHOLD_SCALE_INSIDE if beyond is None else THRESHOLD_SCALE

    def loss(v: Float) -> tuple[float, Float]:
        found, ahead, behind = odds(float(v[0])), odds(float(v[0]) + SLIGHTLY), odds(float(v[0]) - SLIGHTLY)
        assert found is not None
        assert ahead is not None
        assert behind is not None
        step, learned = v[0], v[1:] / RESIDUAL_SPREAD
        found = found + along @ v[1:]
        wrong = expit(found) - is_none
        said = np.logaddexp(0.0, np.where(is_none, -found, found)).sum()
        prior = np.log1p((step / scale) ** 2) + 0.5 * (learned**2).sum()
        by_step = (wrong * (ahead - behind)).sum() / (2 * SLIGHTLY) + 2 * step / (scale**2 + step**2)
        return float(said + prior), np.concatenate([[by_step], wrong @ along + learned / RESIDUAL_SPREAD])

    v = _least(loss, 1 + along.shape[1], bounded=1)
    learned = v[1:] @ back
    residual = (*base.residual[:-1], _rounded(learned)) if learned.size else base.residual
    return replace(moved(float(v[0])), residual=residual)


def _along(direction: Float | None, n: int) -> tuple[Float, Float]:
    """(n, r) coordinates of cases in the r directions that they span, and (r, d) those directions."""
    if direction is None:
        return np.zeros((n, 0)), np.zeros((0, 0))
    u, length, back = np.linalg.svd(direction, full_matrices=False)
    kept = length > 1e-8
    return u[:, kept] * length[kept], back[kept]


def _least(loss: Callable[[Float], tuple[float, Float]], n: int, bounded: int) -> Float:
    """The minimum of a loss with gradient; the first `bounded` of n numbers stay within ±FURTHEST."""
    from scipy.optimize import minimize

    bounds = [(-FURTHEST, FURTHEST)] * bounded + [(None, None)] * (n - bounded)
    return np.asarray(minimize(loss, np.zeros(n), jac=True, method="L-BFGS-B", bounds=bounds).x)


def _rounded(values: Float) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
