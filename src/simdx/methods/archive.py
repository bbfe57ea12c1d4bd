"""An archive: unlabelled real cases teach by what the recipe itself infers about them.

centring   Real text is not written as simulated text is. The archive's mean, drawn a little towards the
           simulations', is taken out of real text in both representations instead of the simulations' mean.
adoption   So centred, the recipe answers every text of the archive: a posterior over the labels and none of
           these. The text then stands beside the simulations of each label, and of the background, with
           `WEIGHT` simulations shared out in proportion. Once; repeating it only made answers too sure.

No label is used, and none of it happens unless the user gives an archive. The constants were chosen on a
second simulator's texts (docs/recipe.md). A text of the archive that is asked about is answered by a fit
without it (`crossfit`), though what was inferred of the other texts was inferred with it in the centre.
Nothing of the archive is written to disk or quoted.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import mean_of
from simdx.embedders.base import embed_texts
from simdx.errors import BadInput
from simdx.methods.comparison import LabelPosterior
from simdx.methods.crossfit import FOLDS, fold_of
from simdx.methods.data import Centre, Observations, PanelData, RealCases
from simdx.methods.outside import Outside
from simdx.methods.rehearsal import calibrated
from simdx.types import Float, Int, content_hash, plain

WEIGHT = 1.0  # simulations that one text of the archive counts as
LEAST_SHARE = 0.05  # of a text's answer; less is not worth a row
MOST_ADOPTED = 2000  # texts; of a larger archive the others only centre
PULL = 10  # texts by which the archive's mean is drawn towards the simulations'


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
    # embed_texts, not its cached form: embeddings of real cases are never written
    vectors = embed_texts(data.embedder, texts)
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
    """(N, labels + 1) of each text's answer: the labels', and that of another condition.

    They sum to less than one by what speaks for another kind of text, of which there is nothing to learn.
    """
    uniform = Prior.uniform(len(data.panel.names))
    inside = LabelPosterior(data, bandwidth)(asked, uniform).probabilities
    outside = Outside.fit(data)
    if outside is None:
        return np.concatenate([inside, np.zeros((len(inside), 1))], axis=1)
    another, novel = outside.log_odds(asked, uniform)
    panel = -np.logaddexp(0.0, np.logaddexp(another, novel))  # log probability that it is one of the labels
    return np.concatenate([np.exp(panel)[:, None] * inside, np.exp(panel + another)[:, None]], axis=1)


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
