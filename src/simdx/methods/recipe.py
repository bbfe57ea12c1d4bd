"""The shipped recipe (`--method auto`): one for every panel, and no label of any case behind it.

labels         learned summary and self-consistent kernel, pooled (`among`)
none of these  the background and novelty (`outside`)
second order   D-SMC in closed form on the same bank (`smc`)

Bandwidth, penalty and shares are the same for every panel, chosen on simulated text (docs/recipe.md).
How sure an answer is, and where none of these begins, is found for each bank (`calibration`, `rehearsal`).
"""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.typicality import Typicality
from simdx.disk import CannotWrite
from simdx.errors import BadInput
from simdx.methods import compiled
from simdx.methods.background import BANDWIDTH as OUTSIDE_BANDWIDTH
from simdx.methods.comparison import BANDWIDTH as LABELS_BANDWIDTH
from simdx.methods.comparison import LabelPosterior
from simdx.methods.crossfit import CrossFitted
from simdx.methods.data import Observations, PanelData, named, part
from simdx.methods.fitted import AnswerTable, EvidenceWeights, Fitted, Inferred, Settings, joined
from simdx.methods.outside import Outside, fit_outside
from simdx.methods.rehearsal import calibrated
from simdx.methods.smc import SimplexPosterior
from simdx.types import Float, Posterior, SecondOrder

CHUNK = 512  # cases compared at a time: bounded memory, and products that stay near the processor


class Recipe(Fitted):
    """The recipe fitted to a bank, with real cases beside it where there are some."""

    kernel = "soft"
    proportional = True
    compiles = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        data = calibrated(data, settings.bandwidth)
        super().__init__(data)
        self.calibration = data.calibration
        labels, outside = self._compiled(data, settings)
        self.labels = CrossFitted(data, lambda part: LabelPosterior(part, settings.bandwidth), labels)
        self.outside = fit_outside(data, outside)
        usual = settings.bandwidth is None and data.real is None and data.lexicon.own is not None
        if usual and data.compiled is None and data.address is not None:
            with suppress(CannotWrite):  # a fit can be made again
                compiled.keep(data.address, self.arrays())
        self.none_of_these = self.outside is not None
        self.simplex: SimplexPosterior = SimplexPosterior(
            data, replace(settings, kernel=None, tolerance=None)
        )

    @staticmethod
    def _compiled(data: PanelData, settings: Settings) -> tuple[LabelPosterior | None, Outside | None]:
        """Both parts from a compiled panel; None where there is none, or one of another kind is wanted."""
        arrays, found = data.compiled, data.calibration
        if arrays is None or settings.bandwidth is not None or data.real is not None:
            return None, None
        own = compiled.comparison_from(part(arrays, "labels"), data, LABELS_BANDWIDTH)
        labels = LabelPosterior(data, None, own)
        others, novelty = part(arrays, "outside"), part(arrays, "novelty")
        if not others or found is None or found.outside is None:
            return labels, None
        return labels, Outside(
            compiled.opposition_from(others, data, OUTSIDE_BANDWIDTH),
            compiled.novelty_from(novelty, data) if novelty else None,
            found.outside,
            data.bank.none_prior,
        )

    def arrays(self) -> dict[str, Float]:
        """All of it that depends on panel, bank and embedder alone, to be kept (`compiled`)."""
        out = compiled.panel_arrays(self.data)
        out |= named("labels", compiled.comparison_arrays(self.labels.whole.comparison))
        out["typicality"] = self.typicality.reference
        if self.outside is not None:
            whole = self.outside.whole
            out |= named("outside", compiled.comparison_arrays(whole.opposition.comparison))
            if whole.novelty is not None:
                scale = np.array([whole.novelty.own, whole.novelty.span])
                out |= {"novelty.reference": whole.novelty.typicality.reference, "novelty.scale": scale}
        return out

    @cached_property
    def typicality(self) -> Typicality:
        arrays = self.data.compiled
        if arrays is None:
            return Typicality.fit(self.space.bank)
        return Typicality.known(self.space.bank, arrays["typicality"])

    def answer(self, observations: Observations, prior: Prior) -> AnswerTable:
        n = len(observations.texts)
        if n <= CHUNK:
            return super().answer(observations, prior)
        chunks = (np.arange(start, min(n, start + CHUNK)) for start in range(0, n, CHUNK))
        return joined([super(Recipe, self).answer(observations.at(rows), prior) for rows in chunks])

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        parts = [(rows, labels(part, prior)) for rows, part, labels in self.labels.parts(observations)]
        back = np.argsort(np.concatenate([rows for rows, _ in parts]))
        first, *others = (found for _, found in parts)
        return Inferred(first.combined(lambda *columns: np.concatenate(columns)[back], *others))

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        if self.outside is None:
            return None
        return self.outside.join(observations, lambda outside, part: outside(part, prior))

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return self.simplex(observations, prior).second_order

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        whole = self.labels.whole
        space = whole.comparison.space
        carried = self.labels.join(
            observations, lambda labels, part: np.stack(labels.carried(part, prior), axis=1)
        )
        return EvidenceWeights(
            space.label_index[whole.simulated], space.rows[whole.simulated], carried[:, 0], carried[:, 1]
        )


def fit_recipe(data: PanelData, settings: Settings) -> Fitted:
    if settings.engine != "exact":
        raise BadInput("--method auto is the exact engine: choose --method m-smc or d-smc for another engine")
    if settings.kernel == "hard":
        raise BadInput("--method auto has a soft kernel: choose --method m-smc for the hard one")
    return Recipe(data, settings)
