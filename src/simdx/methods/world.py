"""The rest of medicine beside a panel: texts of the library that no label speaks for.

A panel's own background holds what its maker thought of. The library holds 431 conditions and 125 everyday
topics. Texts of those that the labels do not stand for (`library.related_to`) are one more background, so
that a meningitis is not a dengue for want of something better:

    log odds(a condition of the library) = slope · (mean of three features − threshold)

with the features and the scale of `outside`, and a threshold of its own. Not all of the library stands there:
the texts nearest to the panel's own, whatever their register, and at least one of every condition. A list of
questions and answers is not weighed against it, because the library has no such lists. A panel whose texts
are unlike everything in the library has no world. A panel file asks for one with `world: true`; a panel that
has its texts from the library always has one.

The constants were chosen on held-out simulated text and on the labelled panels that results/world names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simdx.methods.background import BackgroundModel, condition_log_odds, scale_of
from simdx.methods.calibration_record import OutsideScale
from simdx.methods.panel_data import Observations, PanelData, embed_read
from simdx.methods.speed import Arrays, named, part
from simdx.reading import is_checklist
from simdx.types import EmbeddedBank, Float, Int, Mask

NEAREST = 900  # texts of the library, by nearness to the bank
NEIGHBOURS = 5  # of the bank, that nearness is the mean cosine with
LEAST_NEARNESS = 0.25  # the median bank text's cosine with its neighbours in the library
INSIDE_SHARE = 0.04  # mean probability that held-out simulated texts of the labels lose to the library


def world_of(data: PanelData) -> PanelData | None:
    """The panel's own texts against texts of the library, in place of its background; None: no world."""
    if data.compiled is not None:
        kept = part(data.compiled, "world")
        if not kept:
            return None
        chosen = kept["chosen"].astype(np.int64)
        return _against(data, chosen, kept["background"], kept)
    if not data.panel.world or data.embedder.id.startswith("hashing"):
        return None
    near = choose(data)
    if not len(near):
        return None
    from simdx import library

    texts = library.texts()
    return _against(data, near, embed_read(data.embedder, [texts[i].text for i in near], data.reading), None)


def _against(data: PanelData, chosen: Int, vectors: Float, compiled: Arrays | None) -> PanelData:
    from simdx import library

    texts = library.texts()
    bank = replace(data.bank, background=tuple(texts[i].text for i in chosen), none_prior=None)
    embedded = EmbeddedBank(
        data.embedded.vectors, bank.label_index, len(bank.labels), data.embedder.blocks, vectors
    )
    return PanelData(data.panel, bank, embedded, data.embedder, compiled=compiled, reading=data.reading)


def choose(data: PanelData) -> Int:
    """Numbers of the library's texts that stand beside the panel; none where all are far from it."""
    from simdx import library  # only panels that weigh it load it

    texts, taken = library.texts(), library.related_to(data.panel.labels)
    allowed = np.array([i for i, text in enumerate(texts) if text.condition not in taken], dtype=np.int64)
    vectors, own = library.vectors()[allowed], library.embedded(data.bank.texts)
    near = vectors @ own.T
    of_bank = np.sort(near, axis=0)[-NEIGHBOURS:].mean(axis=0)
    if float(np.median(of_bank)) < LEAST_NEARNESS:
        return allowed[:0]
    order = np.argsort(-np.sort(near, axis=1)[:, -NEIGHBOURS:].mean(axis=1), kind="stable")
    kept = set(order[:NEAREST].tolist())
    covered = {texts[allowed[i]].condition for i in kept}
    for i in order[NEAREST:].tolist():
        if (name := texts[allowed[i]].condition) not in covered:
            covered.add(name)
            kept.add(i)
    return allowed[np.sort(np.fromiter(kept, dtype=np.int64))]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The labels against the library, fitted."""

    data: PanelData  # of `world_of`
    model: BackgroundModel
    chosen: Int  # the library's texts behind the background's rows

    @classmethod
    def fit(cls, data: PanelData) -> World | None:
        beside = world_of(data)
        if beside is None:
            return None
        from simdx import library

        number = {text.text: i for i, text in enumerate(library.texts())}
        chosen = np.array([number[text] for text in beside.bank.background], dtype=np.int64)
        if beside.compiled is not None:
            return cls(beside, BackgroundModel.from_arrays(part(beside.compiled, "model"), beside), chosen)
        model = BackgroundModel.fit(beside)
        assert model is not None  # it has a background
        return cls(beside, model, chosen)

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        model = named("model", self.model.arrays())
        lexicon = named("lexicon", self.data.lexicon.arrays())
        background = self.data.embedded.background
        assert background is not None
        return {"chosen": self.chosen.astype(np.int32), "background": background, **model, **lexicon}

    def features(self, observations: Observations, possible: Mask | None = None) -> Float:
        return self.model.features(observations, possible)


def world_log_odds(
    features: Float, texts: Sequence[str], scale: OutsideScale, prior: float | None = None
) -> Float:
    """(N,) of a condition of the library; a list of questions and answers is not weighed."""
    lists = np.array([is_checklist(text) for text in texts], dtype=bool)
    return np.where(lists, -np.inf, condition_log_odds(features, scale, prior))


def world_scale(inside: Float) -> OutsideScale:
    """From features of held-out texts of the labels."""
    return scale_of(inside, None, INSIDE_SHARE)
