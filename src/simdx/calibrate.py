"""`simdx panel calibrate`: find a panel's calibration, keep it with the panel, say what it rests on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank.files import bank_for
from simdx.datasets import read_cases
from simdx.disk import CannotWrite
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import PanelData
from simdx.methods.calibration import (
    FOLDS,
    SecondWriter,
    address_for,
    measured_on,
    refuse_few,
    rehearse,
)
from simdx.methods.calibration_record import FILE, Calibration, keep
from simdx.methods.fitted import Progress
from simdx.panels import PACKAGED, load_source
from simdx.types import NONE_OF_THESE, Bank, Panel


@dataclass(frozen=True, slots=True)
class Found:
    panel: str
    embedder: str
    texts: int
    background: int
    calibration: Calibration
    unchecked: tuple[str, ...]  # why nothing will simply be accepted
    kept: Path | None

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        found |= {"never_accepts_because": found.pop("unchecked"), "kept": self.kept and str(self.kept)}
        return {**found, "sentence": self.calibration.sentence()}

    def lines(self) -> Iterator[str]:
        c = self.calibration
        yield f"{self.panel}, {self.embedder}, {self.texts} texts and {self.background} background texts"
        yield f"  {c.sentence()}"
        if c.accuracy is not None:
            whose = "of the cases" if c.basis == "measured" else "of the bank's own texts, held out,"
            yield f"  {c.accuracy:.0%} {whose} were classified correctly; sharpness {c.sharpness:.2f}"
        if c.auroc is not None:
            told = f"AUROC {c.auroc:.2f}, mean none of these {c.found_outside:.2f}"
            yield f"  held-out unrelated texts are recognised ({told})"
        for pair in c.confused:
            yield (
                f"  overlap: {pair.share:.0%} of the texts of '{pair.first}' and '{pair.second}' are "
                "confused; merge them, or describe what tells them apart and build their texts again"
            )
        for reason in self.unchecked:
            yield f"  Auto-accept is off: {reason}"
        if self.kept is not None:
            yield f"  saved in {self.kept}"


def calibrate_panel(
    name: str,
    *,
    bank: Path | None = None,
    data: Path | None = None,
    inside: Path | None = None,
    outside: Sequence[Path] = (),
    writer: Bank | None = None,
    embedder: str | None = None,
    allow_remote: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Found:
    """Rehearse a bank, move what was found by labelled cases where there are some, and keep it.

    `writer`: texts of the labels in another voice, as a bank.
    """
    if inside is None and outside:
        raise BadInput("--outside needs --inside, texts by the same writer")
    source = load_source(name)
    panel, chosen, _ = bank_for(name, bank)
    second = None if writer is None else SecondWriter(writer.texts, writer.label_index)
    if inside is not None:
        second = _second_writer(panel, inside, outside, set(chosen.texts))
    cases = None
    if data is not None:  # checked before anything long begins; those of none of the labels are named so
        cases = read_cases(data, labels=(*panel.names, NONE_OF_THESE))
        held = {*chosen.texts, *chosen.background}
        if known := sum(text in held for text in cases.texts):
            raise BadInput(f"{known} of the cases in {data.name} are texts of the bank: give real ones")
        refuse_few(cases.cases)
    model = get_embedder(embedder or panel.embedder, allow_remote=allow_remote)
    panel_data = PanelData.prepare(panel, chosen, model)
    announce(f"calibrating: {FOLDS} fits, {len(chosen.texts)} held-out texts; no language model is called")
    found = rehearse(panel_data, writer=second, progress=progress)
    if cases is not None:
        found = measured_on(replace(panel_data, calibration=found), cases.cases)
    address = address_for(panel_data)
    kept: Path | None = None if name in PACKAGED or bank is not None else source.folder / FILE
    try:
        keep(address, found, kept)
    except CannotWrite as problem:
        raise BadInput(f"the calibration cannot be saved: {problem}") from None
    texts, others = len(chosen.texts), len(chosen.background)
    return Found(panel.name, model.id, texts, others, found, found.failures_over(chosen), kept)


def _second_writer(panel: Panel, inside: Path, outside: Sequence[Path], held: set[str]) -> SecondWriter:
    given = read_cases(inside, labels=panel.names)
    others = [text for path in outside for text in read_cases(path, labelled=False).texts]
    if both := set(given.texts) & set(others):
        raise BadInput(
            f"{len(both)} of another writer's texts are both inside and outside: remove them from one"
        )
    if own := (set(given.texts) | set(others)) & held:
        raise BadInput(
            f"{len(own)} of another writer's texts are the panel's own: give texts it does not hold"
        )
    labels = np.array([panel.names.index(str(case.label)) for case in given.cases])
    return SecondWriter(tuple(given.texts), labels, tuple(others))
