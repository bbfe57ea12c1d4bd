"""A handful of real cases: labelled ones enter the comparison as weighted simulations.

How many simulations one case counts as, `WEIGHT`, was fixed on simulated text alone before any real case was
used: with one bank as the simulator and the other as the real cases, every weight above one only made the
answers less certain of the truth (results/real_cases). A few heavy rows are a noisier sample than many light
ones; a user who knows the simulator to be poor may give more. Kernel, summary, self-consistency and the
out-of-class hypothesis all take the weights; sharpness and bandwidth stay those of the shipped recipe.

A case may also be known to be none of these: it joins the background. Unlabelled cases are another matter
(`archive`). Real cases stay out of the bank: the vocabulary, typicality, the second-order answer, the alarm
and the quoted evidence are the simulations' alone (what a text of another kind is, labelled cases do help to
say), and nothing of a real case is written to disk.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simdx.embedders.base import embed_texts
from simdx.errors import BadInput
from simdx.methods.data import PanelData, RealCases, check_text
from simdx.methods.fitted import Settings
from simdx.types import NONE_OF_THESE, Case, content_hash

TAKE_REAL = ("auto", "setfit-real")  # methods that labelled cases may be given to
WEIGHT = 1.0  # simulations that one real labelled case counts as


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
        if position[str(case.label)] == len(names) and data.embedded.background is None:
            raise BadInput(f"real case {i + 1} is none of these, and the bank has no background to join")
    texts = tuple(case.text for case in labelled)
    index = np.array([position[str(case.label)] for case in labelled], dtype=np.int64)
    n = len(texts)
    # embed_texts, not its cached form: embeddings of real cases are never written
    vectors = embed_texts(data.embedder, texts)
    return data.with_real(RealCases(texts, index, vectors, np.full(n, weight), np.full(n, -1)))


@dataclass(frozen=True, slots=True)
class Given:
    """Real cases beside a bank: labelled ones to compare with, an archive without labels, or a handful that
    says how sure answers should be and no more."""

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
            raise BadInput("a weight of unlabelled cases was given, and no such case")

    @property
    def identities(self) -> dict[str, str]:
        """What tells one set of real cases from another, and reveals none of it; as settings are named."""
        out = {}
        if self.labelled:
            out["real"] = _identity(self.weight, _hashes(self.labelled))
        if len(self.archive):
            out["archive"] = _identity(self.archive_weight, map(content_hash, self.archive))
        if self.calibration:
            if out:
                raise BadInput("calibration cases stand alone: leave out the real cases to compare with")
            out["real"] = "calibration " + _identity(None, _hashes(self.calibration))
        return out

    def added_to(self, data: PanelData, settings: Settings) -> PanelData:
        check_settings(settings)
        if self.labelled:
            data = with_real(data, self.labelled, self.weight)
        if len(self.archive):
            from simdx.methods.archive import with_archive

            data = with_archive(data, self.archive, self.archive_weight, bandwidth=settings.bandwidth)
        if self.calibration:
            from simdx.methods.handful import calibrated_on

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
        raise BadInput(f"real cases are for --method auto: {settings.method} has no use for them")
    if settings.engine != "exact" or settings.kernel == "hard":
        raise BadInput("real cases need the exact engine and the soft kernel of --method auto")
