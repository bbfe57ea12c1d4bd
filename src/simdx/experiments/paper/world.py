"""The panels with their cases and banks, as far as they are at hand.

The oral benchmark ships. Symptom-to-Diagnosis and the case reports come from the folder $SIMDX_DATA
(`sd` and `pmc`, each with `cases.jsonl` and `ood.jsonl`). Banks written by models are the folders
`{panel}-{model}` in $SIMDX_BANKS, else in `results/banks`. What is not there is left out with a note.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simdx.bank.files import MANIFEST_FILE, packaged_bank, read_bank
from simdx.datasets import Dataset, open_data
from simdx.datasets.files import read_cases
from simdx.errors import BadInput
from simdx.experiments.cells import subset
from simdx.experiments.paper.spec import REFERENCE
from simdx.panels import load_source
from simdx.panels.load import PACKAGED, PanelSource
from simdx.types import Bank, Int

# The paper's name of each panel's data set, and the folder of $SIMDX_DATA that holds ours.
PAPER_NAMES = {
    "oral-lesions": "OLB-300",
    "symptom-to-diagnosis": "SD",
    "case-reports": "MultiCaRe",
}
_FOLDERS = {"symptom-to-diagnosis": "sd", "case-reports": "pmc"}
PARTS = ("bank_a", "bank_b")  # the two files of a packaged bank, each alone
# A decoding temperature (t0.4) or other weights of the same model (q8_0, f16) at the end of a bank's name.
_VARIANT = re.compile(r"-(t\d+(?:\.\d+)?|q\d\w*|b?f(?:16|32)|awq|int\d)$")


@dataclass(frozen=True, slots=True)
class Cases:
    """A panel's labelled cases with their positions in its labels, and its out-of-class cases."""

    source: PanelSource
    dataset: Dataset
    outside: Dataset | None
    label_index: Int
    of: int  # how many labelled cases there are in all

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.panel.names

    @property
    def n(self) -> int:
        return len(self.dataset.cases)


def read_panel(panel: str, size: int | None, outside_size: int | None, data: Path | None) -> Cases:
    """BadInput with the reason where the data is not at hand."""
    source = load_source(panel)
    names = source.panel.names
    if panel in _FOLDERS:
        folder = None if data is None else data / _FOLDERS[panel]
        if folder is None or not (folder / "cases.jsonl").is_file():
            raise BadInput(
                f"the cases of {panel} are not at hand and may not ship: name their folder in SIMDX_DATA"
            )
        whole = read_cases(folder / "cases.jsonl", labels=names, name=panel)
        apart = folder / "ood.jsonl"
        outside = read_cases(apart, labelled=False, name=f"{panel}-ood") if apart.is_file() else None
    else:
        benchmark = open_data(panel, labels=names)
        whole, outside = benchmark.cases, benchmark.ood
    dataset = subset(whole, size, 0)
    outside = None if outside is None else subset(outside, outside_size, 0)
    return Cases(source, dataset, outside, dataset.label_index(names), len(whole.cases))


def data_folder() -> Path | None:
    named = os.environ.get("SIMDX_DATA")
    return Path(named) if named else None


def banks_folder() -> Path:
    return Path(os.environ.get("SIMDX_BANKS") or Path("results") / "banks")


def asking_folder() -> Path:
    return Path(os.environ.get("SIMDX_ASKING") or Path("results") / "baselines")


def written_by_models(panel: str, folder: Path) -> tuple[str, ...]:
    """Models with a finished bank of that panel, as they run by default."""
    return tuple(name for name in _finished_banks(panel, folder) if _VARIANT.search(name) is None)


def written_by_variants(panel: str, folder: Path) -> dict[str, tuple[str, str]]:
    """Banks by a model run in another way: name → (model, way), as `smollm2-t0.4` or `smollm2-q8_0`."""
    found = {}
    for name in _finished_banks(panel, folder):
        way = _VARIANT.search(name)
        if way is not None:
            found[name] = (name[: way.start()], way.group(1))
    return found


def _finished_banks(panel: str, folder: Path) -> list[str]:
    found = folder.glob(f"{panel}-*/{MANIFEST_FILE}") if folder.is_dir() else ()
    return sorted(path.parent.name.removeprefix(f"{panel}-") for path in found)


def open_bank(cases: Cases, name: str, folder: Path) -> Bank:
    """A bank by its name in a `Spec`; all have the packaged background, so that only the labels' differ."""
    source = cases.source
    if name == REFERENCE:
        return packaged_bank(source)
    if name in PARTS:
        if len(source.banks) < len(PARTS):
            raise BadInput(f"panel '{source.panel.name}' has no second bank")
        one = replace(source, banks=(source.banks[PARTS.index(name)],))
        return packaged_bank(one)
    path = folder / f"{source.panel.name}-{name}"
    if not path.exists():
        raise BadInput(f"there is no bank of {source.panel.name} by {name}: build it with 'simdx bank build'")
    return read_bank(path, source.panel)


def pool(bank: Bank, per_label: int, seed: int) -> Bank:
    """That many simulations of each label at random (all, where there are fewer); nested for one seed."""
    rng = np.random.default_rng([seed, int(bank.hash[:8], 16)])
    order = rng.permutation(len(bank.texts))
    kept: list[int] = []
    for label in range(len(bank.labels)):
        kept += order[bank.label_index[order] == label][:per_label].tolist()
    kept.sort()
    return replace(
        bank,
        texts=tuple(bank.texts[i] for i in kept),
        label_index=bank.label_index[kept],
        name=f"{bank.name}:{per_label} per label",
    )


__all__ = [
    "PACKAGED",
    "PAPER_NAMES",
    "PARTS",
    "Cases",
    "asking_folder",
    "banks_folder",
    "data_folder",
    "open_bank",
    "pool",
    "read_panel",
    "written_by_models",
    "written_by_variants",
]
