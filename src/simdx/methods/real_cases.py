"""Real cases beside a bank: labelled ones to compare with, or an archive without labels.

labelled  Cases enter both scores as weighted simulations. How many simulations one counts as was fixed on
          simulated text before any real case was used: with one bank as the simulator and the other as the
          real cases, every weight above one only made the answers less certain of the truth
          (results/real_cases). A case may also be known to be none of these: it joins the background,
          and where the bank has none it is left out, though it still calibrates
archive   Real text is not written as simulated text is. So the archive's mean, drawn a little towards the
          simulations', is taken out of real text in both representations (*centring*). The recipe, so
          centred, answers every text of the archive, which then stands beside the simulations of each label
          in proportion (*adoption*); no label adopts what none of these claims. None of these is estimated
          as if nothing had been adopted (`outside`). Once; repeating it only made answers too sure

Real cases stay out of the bank: the vocabulary, typicality, the second order, the alarm and the quoted
evidence are the simulations' alone (what a text of another kind is, labelled cases do help to say), and
nothing of a real case is written to disk. A text of the archive that is asked about is answered by a fit
without it (`CrossFitted`), though what was inferred of the other texts was inferred with it in the centre.
Constants were chosen on simulated text (docs/recipe.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import mean_of
from simdx.errors import BadInput
from simdx.methods.calibration import calibrated, calibrated_on, measured_on, refuse_few
from simdx.methods.fitted import Settings
from simdx.methods.outside import Outside
from simdx.methods.panel_data import FOLDS, Centre, Observations, PanelData, RealCases, check_text, fold_of
from simdx.methods.recipe import LabelPosterior
from simdx.types import NONE_OF_THESE, Case, Float, Int, content_hash, plain

TAKE_REAL = ("auto", "setfit-real")  # methods that labelled cases may be given to
WEIGHT = 1.0  # simulations that one real case counts as, labelled or of the archive
CLAIMED = 0.2  # probability of none of these from which on no label adopts a text of the archive
LEAST_SHARE = 0.05  # of a text's answer; less is not worth a row
MOST_ADOPTED = 2000  # texts; of a larger archive the others only centre
PULL = 10  # texts by which the archive's mean is drawn towards the simulations'


@dataclass(frozen=True, slots=True)
class Given:
    """Real cases that a user gives: labelled ones to compare with, an archive, or labelled ones that say how
    sure answers should be and no more."""

    labelled: Sequence[Case] = ()
    weight: float | None = None
    archive: Sequence[str] = ()
    archive_weight: float | None = None
    calibration: Sequence[Case] = ()

    def __post_init__(self) -> None:
        if isinstance(self.archive, str):
            raise BadInput("unlabelled cases are a list of texts, not one text")
        for i, text in enumerate(self.archive):
            check_text(text, f"unlabelled case {i + 1}")
        if self.archive_weight is not None and not len(self.archive):
            raise BadInput("a weight of unlabelled cases needs unlabelled cases")

    @property
    def identities(self) -> dict[str, str]:
        """What tells one set of real cases from another, and reveals none of it; as settings are named."""
        out = {}
        if self.labelled:
            out["real"] = _identity(self.weight, _hashes(self.labelled))
        if len(self.archive):
            out["archive"] = _identity(self.archive_weight, map(content_hash, self.archive))
        if self.calibration:
            if len(self.archive) or (self.labelled and list(self.labelled) != list(self.calibration)):
                raise BadInput("calibration cases cannot be combined with other real or unlabelled cases")
            out["real"] = "calibration " + _identity(self.weight, _hashes(self.calibration))
        return out

    def added_to(self, data: PanelData, settings: Settings) -> PanelData:
        check_settings(settings)
        if self.labelled and self.calibration:
            return calibrated_beside(data, self.labelled, self.weight)
        if self.labelled:
            data = with_real(data, self.labelled, self.weight)
        if len(self.archive):
            data = with_archive(data, self.archive, self.archive_weight, bandwidth=settings.bandwidth)
        if self.calibration:
            data = calibrated_on(data, self.calibration)
        return data


def _hashes(labelled: Sequence[Case]) -> Iterable[str]:
    return (content_hash(str(case.label), case.text) for case in labelled)


def _identity(weight: float | None, hashes: Iterable[str]) -> str:
    return content_hash(str(weight), *sorted(hashes))[:16]


def check_settings(settings: Settings) -> None:
    """Real cases, labelled or not, are for the shipped recipe; few-shot SetFit takes labelled ones."""
    if settings.method == "setfit-real" and settings.archive is None:
        return
    if settings.method != "auto":
        raise BadInput(f"real cases are for --method auto: {settings.method} does not use them")
    if settings.engine != "exact" or settings.kernel == "hard":
        raise BadInput("real cases need the exact engine and the soft kernel of --method auto")


# --------------------------------------------------------------------------- labelled


def with_real(data: PanelData, labelled: Sequence[Case], weight: float | None = None) -> PanelData:
    """The data with labelled real cases beside its bank."""
    weight = WEIGHT if weight is None else weight
    if not (np.isfinite(weight) and weight > 0):
        raise BadInput(f"a real case cannot count as {weight:g} simulations: give a number above 0")
    if not labelled:
        raise BadInput("no real cases were given: leave the option out or give a file with cases")
    names = data.panel.names
    position = {NONE_OF_THESE: len(names)} | {name: i for i, name in enumerate(names)}
    for i, case in enumerate(labelled):
        if case.label not in position:
            raise BadInput(f"real case {i + 1} has no label of panel '{data.panel.name}'")
        if not case.text.strip():
            raise BadInput(f"real case {i + 1} is empty")
    given = len(labelled)
    if data.embedded.background is None:  # there is nothing that those of none of the labels could join
        labelled = [case for case in labelled if case.label != NONE_OF_THESE]
    if not labelled:
        raise BadInput(
            "all real cases are none of these, and the bank has no background that they could join"
        )
    texts = tuple(case.text for case in labelled)
    index = np.array([position[str(case.label)] for case in labelled], dtype=np.int64)
    n = len(texts)
    vectors = data.observe(texts).vectors  # not from the cache: nothing of real cases is written
    apart = given - n
    return data.with_real(
        RealCases(texts, index, vectors, np.full(n, weight), np.full(n, -1), left_out=apart)
    )


def calibrated_beside(data: PanelData, labelled: Sequence[Case], weight: float | None = None) -> PanelData:
    """The data with labelled real cases beside its bank, and a calibration measured on the same cases.

    Each fifth of them is asked of a fit that holds the others (`measured_on`).
    """
    refuse_few(labelled)
    found = with_real(calibrated(data), labelled, weight)
    rehearsed = replace(found, real=None)

    def beside(some: Sequence[Case]) -> PanelData:
        joins = data.embedded.background is not None or any(case.label != NONE_OF_THESE for case in some)
        return with_real(rehearsed, some, weight) if joins else rehearsed

    by_them = measured_on(rehearsed, labelled, beside)
    return replace(found, calibration=by_them)


# --------------------------------------------------------------------------- archive


def with_archive(
    data: PanelData, texts: Sequence[str], weight: float | None = None, *, bandwidth: float | None = None
) -> PanelData:
    """The data with an archive beside its bank; a weight of 0 centres and teaches nothing else."""
    weight = WEIGHT if weight is None else weight
    if not (np.isfinite(weight) and weight >= 0):
        raise BadInput(f"an unlabelled case cannot count as {weight:g} simulations: give 0 or more")
    data = calibrated(data, bandwidth)
    before = data.real or _no_real(data)
    texts = distinct(texts, apart_from=before.texts)
    if not texts:
        raise BadInput("no unlabelled cases were given: leave the option out or give a file with cases")
    vectors = data.observe(texts).vectors  # not from the cache: nothing of real cases is written
    real = replace(before, centre=_centre(data, texts, vectors))
    centred = data.with_real(real)
    if weight == 0:
        return centred
    first = min(len(texts), MOST_ADOPTED)
    share = shares(centred, Observations(tuple(texts[:first]), vectors[:first]), bandwidth)
    text_of, label = np.nonzero(share > LEAST_SHARE)
    return data.with_real(
        RealCases(
            (*real.texts, *(texts[i] for i in text_of)),
            np.concatenate([real.label_index, label]),
            np.concatenate([real.vectors, vectors[text_of]]),
            np.concatenate([real.weight, weight * share[text_of, label]]),
            np.concatenate([real.fold, [fold_of(texts[i]) for i in text_of]]).astype(np.int64),
            real.centre,
            real.left_out,
        )
    )


def distinct(texts: Sequence[str], apart_from: Sequence[str] = ()) -> list[str]:
    """Every text once, in an order that is the texts' own and not the file's."""
    known = {plain(text) for text in apart_from}
    first: dict[str, str] = {}
    for text in sorted(texts):
        first.setdefault(plain(text), text)
    return sorted((t for words, t in first.items() if words and words not in known), key=content_hash)


def shares(data: PanelData, asked: Observations, bandwidth: float | None = None) -> Float:
    """(N, labels) of each text's answer.

    A text that none of these claims is given to no label: a label that adopted it would claim its like.
    """
    uniform = Prior.uniform(len(data.panel.names))
    inside = LabelPosterior(data, bandwidth)(asked, uniform).probabilities
    outside = Outside.fit(data)
    if outside is None:
        return inside
    none = outside(asked, uniform)
    return np.where(none < CLAIMED, 1 - none, 0.0)[:, None] * inside


def _centre(data: PanelData, texts: Sequence[str], vectors: Float) -> Centre:
    bank, lexicon = data.embedded, data.lexicon
    simulated = np.concatenate([bank.vectors, *([] if bank.background is None else [bank.background])])
    pulled_to = mean_of(simulated, bank.blocks)
    words_pulled_to = lexicon.rows([*data.bank.texts, *data.bank.background]).mean()
    words, fold = lexicon.rows(texts), np.array([fold_of(text) for text in texts])

    def of(rows: Int, folds: tuple[Centre, ...] = ()) -> Centre:
        if not rows.size:
            return Centre(pulled_to, words_pulled_to, frozenset())
        own = rows.size / (rows.size + PULL)
        return Centre(
            own * mean_of(vectors[rows], bank.blocks) + (1 - own) * pulled_to,
            own * words.at(rows).mean() + (1 - own) * words_pulled_to,
            frozenset(plain(texts[i]) for i in rows),
            folds,
        )

    return of(np.arange(len(texts)), tuple(of(np.flatnonzero(fold != f)) for f in range(FOLDS)))


def _no_real(data: PanelData) -> RealCases:
    """No real case at all, as rows to add to."""
    nothing = np.zeros(0, dtype=np.int64)
    return RealCases((), nothing, data.embedded.vectors[:0], np.zeros(0), nothing)
