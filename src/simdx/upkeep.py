"""A panel's upkeep: `panel calibrate` finds its calibration and keeps it, `panel status` says how it stands.

The status is of four links: bank, background, calibration, descriptions. Each says in words how it stands
and, where it is not good, the one command that mends it; the weakest is to be mended next.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simdx.bank.files import bank_for, read_manifest
from simdx.datasets import read_cases
from simdx.disk import CannotWrite
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import PanelData
from simdx.methods.calibration import FOLDS, SecondWriter, address_for, measured_on, refuse_few, rehearse
from simdx.methods.calibration_record import FILE, Calibration, keep, look_up, thin
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
            raise BadInput(f"{known} of the cases in {data.name} are texts of the bank: give real cases")
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
        raise BadInput(f"{len(own)} of another writer's texts are in the panel's bank: give other texts")
    labels = np.array([panel.names.index(str(case.label)) for case in given.cases])
    return SecondWriter(tuple(given.texts), labels, tuple(others))


# --------------------------------------------------------------------------- how it stands

STATES = ("missing", "weak", "fair", "good")  # from worst to best
LEAST_A_LABEL = 20  # texts of the label with the fewest, below which a bank is weak
GOOD_A_LABEL = 50
LEAST_BACKGROUND = 20
TOLD_APART = 0.75  # share of the bank's own texts, or AUROC of other conditions, that are told apart
LEAST_USABLE = 0.5  # share of a model's texts that could be used


class ChainLink(NamedTuple):
    name: str
    state: str
    says: str
    mend: str | None  # the command that makes it better; None where nothing is left to do


def _told(panel: str, links: Sequence[ChainLink], label_some: str | None = None) -> dict[str, Any]:
    """`label_some`: the command that measures; None where labelled cases have been looked at."""
    worst = min(links, key=lambda link: STATES.index(link.state))
    weakest, mend = (None, None) if worst.state == "good" else (worst.name, worst.mend)
    return {
        "panel": panel, "links": [link._asdict() for link in links], "weakest": weakest,
        "next": [command for command in dict.fromkeys((mend, label_some)) if command],
    }  # fmt: skip


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    for link in found["links"]:
        yield f"{link['name']:<12} {link['state']:<8} {link['says']}"
    following = list(found["next"])
    if found["weakest"] is not None:
        yield f"weakest: the {found['weakest']}. To improve it: {following.pop(0)}"
    if following:
        yield f"next: label a dozen of your own texts: {following[0]}"
    elif found["weakest"] is None:
        yield "everything is in place"


def status_of(
    name: str, bank: Path | None = None, *, embedder: str | None = None, allow_remote: bool = False
) -> dict[str, Any]:
    """Read from what lies on disk; nothing is asked, fitted or rehearsed."""
    source = load_source(name)
    where = name if name in PACKAGED else shlex.quote(str(name))
    ask = f"simdx bank ask --panel {where}"
    options = "" if bank is None else f" --bank {shlex.quote(str(bank))}"
    calibrate = f"simdx panel calibrate {where}{options}"
    label_some = f"{calibrate} --ask texts.txt"
    try:
        panel, chosen, _ = bank_for(name, bank)
    except BadInput:
        if source.banks or bank is not None:
            raise
        from simdx.library import named_twice

        twice = next(named_twice(source.panel.names), None)
        says = f"none yet, and {twice or 'the library does not know every label'}"
        links = (ChainLink("bank", "missing", says, ask), _descriptions(source.panel, where))
        return _told(source.panel.name, links)
    model = get_embedder(embedder or panel.embedder, allow_remote=allow_remote)
    found = look_up(address_for(PanelData.prepare(panel, chosen, model)), source.folder)
    measured = found is not None and (found.basis == "measured" or found.checked > 0)
    from_library = bank is None and not source.banks
    every = (
        _bank(chosen, ask, found, made_by(bank or (source.banks[0].parent if source.banks else None))),
        _background(chosen, found, ask, world=panel.world),
        _calibration(found, calibrate, label_some),
        _descriptions(panel, where, from_library),
    )
    return _told(panel.name, every, None if measured else label_some)


def made_by(folder: Path | None) -> Mapping[str, Any]:
    """The manifest of a bank folder; nothing where there is none."""
    try:
        return {} if folder is None else read_manifest(folder)
    except BadInput:
        return {}


def weaknesses(bank: Bank, made: Mapping[str, Any], found: Calibration | None) -> list[str]:
    """Why a bank should not be trusted far: `bank build` and `panel status` both say this.

    `made` is the bank's manifest. What labelled cases found is about the cases and not about the bank.
    """
    said = []
    answers, measured = made.get("answers"), found is not None and found.basis == "measured"
    if (made.get("settings") or {}).get("voice") == "short":
        said.append("a very small model wrote it, and answers from such a bank are wrong far more often")
    share = (len(bank.texts) + len(bank.background)) / answers if answers else 1.0
    if share < LEAST_USABLE:
        said.append(f"only {share:.0%} of the texts could be used")
    if found is not None and not measured and found.accuracy is not None and found.accuracy < TOLD_APART:
        said.append(f"only {found.accuracy:.0%} of its own texts, held out, were classified correctly")
    if found is not None and found.auroc is not None and found.auroc < TOLD_APART:
        said.append(f"unrelated texts are poorly recognised (AUROC {found.auroc:.2f})")
    return [*said, *thin(bank, labelled=found is not None and (found.checked > 0 or measured))]


def _bank(bank: Bank, ask: str, found: Calibration | None, made: Mapping[str, Any]) -> ChainLink:
    least = int(np.bincount(bank.label_index, minlength=len(bank.labels)).min())
    says = f"{len(bank.texts)} simulated texts, at least {least} a label"
    if wrong := weaknesses(bank, made, found):
        return ChainLink("bank", "weak", f"{says}; {wrong[0]}", ask)
    state = "weak" if least < LEAST_A_LABEL else "fair" if least < GOOD_A_LABEL else "good"
    return ChainLink("bank", state, says, None if state == "good" else ask)


def _background(bank: Bank, found: Calibration | None, ask: str, *, world: bool) -> ChainLink:
    name, n = "background", len(bank.background)
    if n == 0 and not world:
        return ChainLink(name, "missing", "no background texts, so none of these cannot be estimated", ask)
    auroc = None if found is None else found.auroc
    told = "" if auroc is None else f"; held-out unrelated texts are recognised (AUROC {auroc:.2f})"
    few = 0 < n < LEAST_BACKGROUND
    wanted = f" (at least {LEAST_BACKGROUND} are needed)" * few + " and the rest of the library" * (
        few and world
    )
    says = f"{n} background texts{wanted}{told}" if n else f"the rest of the library{told}"
    if (few and not world) or (auroc is not None and auroc < TOLD_APART):
        return ChainLink(name, "weak", says, ask)
    return ChainLink(name, "fair", says, ask) if few else ChainLink(name, "good", says, None)


def _calibration(found: Calibration | None, calibrate: str, label_some: str) -> ChainLink:
    name = "calibration"
    if found is None:
        return ChainLink(name, "missing", "not calibrated yet", calibrate)
    said = found.sentence()
    if failures := found.failures():
        return ChainLink(name, "weak", f"{said}; {failures[0]}", label_some)
    if found.basis == "transferred":
        return ChainLink(name, "weak", said, calibrate)
    if found.basis == "measured" or found.checked:
        return ChainLink(name, "good", said, None)
    return ChainLink(name, "fair", said, label_some)


def _descriptions(panel: Panel, where: str, from_library: bool = False) -> ChainLink:
    silent: Sequence[str] = [label.name for label in panel.labels if not label.description]
    if silent and not from_library:
        few = f"{', '.join(silent[:3])}{' and others' if len(silent) > 3 else ''}"
        says = f"{len(silent)} of {len(panel.names)} labels have none: {few}"
        return ChainLink("descriptions", "fair", says, f"edit {where}: a line under 'description:' for each")
    says = "the library describes every label" if silent else "every label has one"
    return ChainLink("descriptions", "good", says, None)
