"""The panels with their cases and banks, as far as they are at hand.

The oral benchmark ships. Symptom-to-Diagnosis and the case reports come from the folder $SIMDX_DATA
(`sd` and `pmc`, each with `cases.jsonl` and `ood.jsonl`). Banks written by models are the folders
`{panel}-{model}` in $SIMDX_BANKS, else in `results/banks`; an ending says that the model ran in another way:
`-t0.4` a temperature, `-q8_0` other weights, `-n1000` a larger pool by the same model, `-s1` another draw with
the same settings. Such banks stand for no simulator of their own. What is not there is left out with a note.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np

from simdx.bank.files import MANIFEST_FILE, packaged_bank, read_bank
from simdx.datasets import Dataset, open_data
from simdx.datasets.dataset import read_cases
from simdx.errors import BadInput
from simdx.panels import load_source
from simdx.panels.load import PanelSource
from simdx.types import Bank, Int

# The folder of $SIMDX_DATA that holds each panel's cases.
_FOLDERS = {"symptom-to-diagnosis": "sd", "case-reports": "pmc"}
REFERENCE = "reference"  # the panel's packaged bank: both of its files
PARTS = ("bank_a", "bank_b")  # the two files of a packaged bank, each alone
Way = Literal["temperature", "pool", "weights", "draw"]
# What the end of a bank's name says of how its model ran.
_WAYS: dict[Way, str] = {"temperature": r"t\d+(?:\.\d+)?", "pool": r"n\d+", "draw": r"s\d+",
                         "weights": r"q\d\w*|b?f(?:16|32)|awq|int\d"}  # fmt: skip
_VARIANT = re.compile(r"-(?:" + "|".join(f"(?P<{kind}>{way})" for kind, way in _WAYS.items()) + r")$")


@dataclass(frozen=True, slots=True)
class Cases:
    """A panel's labelled cases with their positions in its labels, and its out-of-class cases."""

    source: PanelSource
    dataset: Dataset
    outside: Dataset | None
    label_index: Int

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.panel.names

    @property
    def n(self) -> int:
        return len(self.dataset.cases)

    def part(self, outside: bool) -> Dataset:
        found = self.outside if outside else self.dataset
        assert found is not None
        return found


def read_panel(panel: str, size: int | None, outside_size: int | None, data: Path | None) -> Cases:
    """BadInput with the reason where the data is not at hand; `data` is by default the folder $SIMDX_DATA."""
    source = load_source(panel)
    names = source.panel.names
    if panel in _FOLDERS:
        named = data or os.environ.get("SIMDX_DATA")
        folder = Path(named or ".") / _FOLDERS[panel]
        if not named or not (folder / "cases.jsonl").is_file():
            raise BadInput(f"the cases of {panel} are not at hand and may not ship: name their folder in SIMDX_DATA")
        whole = read_cases(folder / "cases.jsonl", labels=names, name=panel)
        apart = folder / "ood.jsonl"
        outside = read_cases(apart, labelled=False, name=f"{panel}-ood") if apart.is_file() else None
    else:
        benchmark = open_data(panel, labels=names)
        whole, outside = benchmark.cases, benchmark.ood
    dataset = subset(whole, size, 0)
    outside = None if outside is None else subset(outside, outside_size, 0)
    return Cases(source, dataset, outside, dataset.label_index(names))


def subset(dataset: Dataset, size: int | None, seed: int) -> Dataset:
    """`size` cases at random, in their order. Subsets of one seed are nested."""
    if size is None or size >= len(dataset.cases):
        return dataset
    rng = np.random.default_rng([seed, int(dataset.hash[:8], 16)])
    return dataset.subset(np.sort(rng.permutation(len(dataset.cases))[:size]).tolist())


def folder_named(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default)


class Variant(NamedTuple):
    """A bank by a model run in another way: `smollm2-t0.4` is by smollm2, in the way t0.4, a temperature."""

    model: str
    way: str
    kind: Way


def written_by_models(panel: str, folder: Path) -> tuple[str, ...]:
    """Models with a finished bank of that panel, as they run by default."""
    return tuple(name for name in _finished_banks(panel, folder) if _VARIANT.search(name) is None)


def written_by_variants(panel: str, folder: Path) -> dict[str, Variant]:
    """Finished banks of that panel by a model run in another way, under their names."""
    endings = {name: _VARIANT.search(name) for name in _finished_banks(panel, folder)}
    return {
        name: Variant(name[: ending.start()], ending[0][1:], cast(Way, ending.lastgroup))
        for name, ending in endings.items()
        if ending is not None
    }


def _finished_banks(panel: str, folder: Path) -> list[str]:
    found = folder.glob(f"{panel}-*/{MANIFEST_FILE}")
    return sorted(path.parent.name.removeprefix(f"{panel}-") for path in found)


def open_bank(cases: Cases, name: str, folder: Path) -> Bank:
    """A bank by its name in a `Spec`; all have the packaged background, so that only the labels' differ."""
    source = cases.source
    if name == REFERENCE:
        return packaged_bank(source)
    if name in PARTS:
        if len(source.banks) < len(PARTS):
            raise BadInput(f"panel '{source.panel.name}' has no second bank")
        one = replace(source, banks=(source.banks[PARTS.index(name)],), against=())
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
    return bank.subset(kept, name=f"{bank.name}:{per_label} per label")
