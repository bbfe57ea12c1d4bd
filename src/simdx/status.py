"""How far a panel has come: bank, background, calibration, descriptions, and the weakest of them.

Each link says in words how it stands and, where it is not good, the one command that mends it.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank.files import packaged_bank, read_bank
from simdx.bank.plan import NEXT
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.methods.calibration import address_for
from simdx.methods.calibration_record import Calibration, look_up, thin
from simdx.panels import PACKAGED, load_source
from simdx.types import Bank, Panel

STATES = ("missing", "weak", "fair", "good")  # from worst to best
LEAST_A_LABEL = 20  # texts of the label with the fewest, below which a bank is weak
GOOD_A_LABEL = 50
LEAST_BACKGROUND = 20
TOLD_APART = 0.75  # AUROC of other conditions, below which none of these is hardly told


@dataclass(frozen=True, slots=True)
class ChainLink:
    name: str
    state: str
    says: str
    mend: str | None  # the command that makes it better; None where nothing is left to do


@dataclass(frozen=True, slots=True)
class Status:
    panel: str
    links: tuple[ChainLink, ...]

    @property
    def weakest(self) -> ChainLink | None:
        """The link to mend next; None where all are good."""
        worst = min(self.links, key=lambda link: STATES.index(link.state))
        return None if worst.state == "good" else worst

    def to_json(self) -> dict[str, Any]:
        weakest = self.weakest
        links = [asdict(link) for link in self.links]
        return {"panel": self.panel, "links": links, "weakest": None if weakest is None else weakest.name}

    def lines(self) -> Iterator[str]:
        for link in self.links:
            yield f"{link.name:<12} {link.state:<8} {link.says}"
        weakest = self.weakest
        if weakest is None:
            yield "every link is good"
        else:
            yield f"weakest link: the {weakest.name} ({weakest.says}). Next: {weakest.mend}"


def status_of(
    name: str, bank: Path | None = None, *, embedder: str | None = None, allow_remote: bool = False
) -> Status:
    """Read from what lies on disk; nothing is asked, fitted or rehearsed."""
    source = load_source(name)
    panel = source.panel
    where = name if name in PACKAGED else shlex.quote(str(name))
    folder = source.folder / "bank" if bank is None else bank
    build = f"simdx bank build --panel {where} --per-label {GOOD_A_LABEL} --out {shlex.quote(str(folder))}"
    chosen = read_bank(bank, panel) if bank is not None else packaged_bank(source) if source.banks else None
    if chosen is None:
        missing = ChainLink("bank", "missing", "no description has been simulated", build)
        return Status(panel.name, (missing, _descriptions(panel, where)))
    model = get_embedder(embedder or panel.embedder, allow_remote=allow_remote)
    found = look_up(address_for(PanelData.prepare(panel, chosen, model)), source.folder)
    options = "" if bank is None else f" --bank {shlex.quote(str(bank))}"
    calibrate = f"simdx panel calibrate {where}{options}"
    background = _background(chosen, found, f"{build} --background {2 * LEAST_BACKGROUND}")
    links = (
        _bank(chosen, build, found),
        background,
        _calibration(found, calibrate),
        _descriptions(panel, where),
    )
    return Status(panel.name, links)


def _bank(bank: Bank, build: str, found: Calibration | None) -> ChainLink:
    counts = np.bincount(bank.label_index, minlength=len(bank.labels))
    least = int(counts.min())
    says = f"{len(bank.texts)} simulated texts, at least {least} a label"
    wrong = thin(bank, labelled=found is not None and (found.checked > 0 or found.basis == "measured"))
    if any("copies" in reason for reason in wrong):  # more of them would be more of the same
        return ChainLink("bank", "weak", f"{says}; {wrong[-1]}", f"{build}-2 --simulator {NEXT}")
    state = "weak" if least < LEAST_A_LABEL or wrong else "fair" if least < GOOD_A_LABEL else "good"
    return ChainLink("bank", state, says, None if state == "good" else build)


def _background(bank: Bank, found: Calibration | None, build: str) -> ChainLink:
    n = len(bank.background)
    if n == 0:
        return ChainLink("background", "missing", "nothing tells none of these", build)
    auroc = None if found is None else found.auroc
    told = "" if auroc is None else f", told from labels with AUROC {auroc:.2f}"
    says = f"{n} texts of other conditions{told}"
    weak = n < LEAST_BACKGROUND or (auroc is not None and auroc < TOLD_APART)
    return ChainLink("background", *(("weak", says, build) if weak else ("good", says, None)))


def _calibration(found: Calibration | None, calibrate: str) -> ChainLink:
    name, data = "calibration", f"{calibrate} --data cases.csv  (20 to 100 labelled cases)"
    if found is None:
        return ChainLink(name, "missing", "never rehearsed", calibrate)
    said = found.sentence().removeprefix("calibration ")
    if failures := found.failures():
        return ChainLink(name, "weak", f"{said}; {failures[0]}", data)
    if found.basis == "transferred":
        return ChainLink(name, "weak", said, calibrate)
    if found.basis == "measured" or found.checked:
        return ChainLink(name, "good", said, None)
    return ChainLink(name, "fair", said, data)


def _descriptions(panel: Panel, where: str) -> ChainLink:
    silent: Sequence[str] = [label.name for label in panel.labels if not label.description]
    if silent:
        says = f"no description of {', '.join(silent)[:80]}"
        return ChainLink("descriptions", "fair", says, f"edit {where}: a line under 'description:' for each")
    return ChainLink("descriptions", "good", "every label has one", None)
