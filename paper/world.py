"""What there is to ask: panels with their cases and banks, methods under their names, and `Spec`, which asks for one.

The oral benchmark ships. Symptom-to-Diagnosis and the case reports come from the folder $SIMDX_DATA
(`sd` and `pmc`, each with `cases.jsonl` and `ood.jsonl`). Banks written by models are the folders
`{panel}-{model}` in $SIMDX_BANKS, else in `results/banks`; an ending says that the model ran in another way:
`-t0.4` a temperature, `-q8_0` other weights, `-n1000` a larger pool by the same model, `-s1` another draw with
the same settings. Such banks stand for no simulator of their own. What is not there is left out with a note.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from simdx.amortised.network import Inputs
from simdx.bank.files import MANIFEST_FILE, packaged_bank, read_bank
from simdx.datasets import Dataset, open_data
from simdx.datasets.dataset import read_cases
from simdx.errors import BadInput
from simdx.panels import load_source
from simdx.panels.load import PanelSource
from simdx.types import Bank, Int

# --------------------------------------------------------------------------- methods and their answers

Scale = Literal["smoke", "full"]
SECOND_ORDER = ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")
# To fit; per case to infer in one batch, embeddings given; and per case to embed.
TIMES = ("fit_seconds", "infer_seconds", "embed_seconds")
REFERENCE = "reference"  # the panel's packaged bank: both of its files
PARTS = ("bank_a", "bank_b")  # the two files of a packaged bank, each alone

# The methods compared, under the names the tables show. M-SMC and D-SMC are their closed-form limits (the
# sampler is beside them where it matters); the recipe is what `--method auto` ships. Ways of asking a model
# keep the paper's abbreviations.
M_SMC, D_SMC, ABI, RECIPE = "M-SMC", "D-SMC", "ABI", "recipe"
M_PARTICLES, D_PARTICLES, M_SOFT = "M-SMC (particles)", "D-SMC (particles)", "M-SMC (soft kernel)"
ASKING = ("ML", "EP", "PE", "EF")  # as the paper asks: one prompt in one order, eight prompts, samples at .2
ALL_ORDERS, WARM = "ML, all orders", "EF at 0.7"  # ours: averaged over rotations of the list; warmer samples
ASKED = (*ASKING, ALL_ORDERS, WARM)
_LINEUP: dict[str, dict[str, Any]] = {
    M_SMC: {"method": "m-smc"},
    M_PARTICLES: {"method": "m-smc", "engine": "particles"},
    M_SOFT: {"method": "m-smc", "kernel": "soft"},
    D_SMC: {"method": "d-smc"},
    D_PARTICLES: {"method": "d-smc", "engine": "particles"},
    ABI: {"method": "abi"},
    RECIPE: {"method": "auto"},
}

# Methods as `Spec` names them, in words.
METHODS = {
    "auto": "shipped recipe", "m-smc": M_SMC, "d-smc": D_SMC, "abi": ABI, "centroid": "centroid cosine",
    "tfidf": "TF-IDF cosine", "zero-shot": "label text alone", "bank-logistic": "logistic on the bank",
}  # fmt: skip


def theirs_name(name: str) -> str | None:
    """The paper's name of the same method; None for what only we have."""
    first = name.split(" (")[0]
    return first if first in (M_SMC, D_SMC, ABI, *ASKING) and name != M_SOFT else None


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything a scale takes. Smoke shows that every artefact works; full measures."""

    cases: int | None  # per panel; None: all of them
    outside: int | None  # out-of-class cases per panel
    resamples: int  # bootstrap, for intervals
    paired_resamples: int  # bootstrap of differences
    network_observations: int  # what an amortised network is trained on
    network_epochs: int
    asked_cases: int  # asked of a small model where no record of asking is at hand; 0: never


SIZES: dict[Scale, Size] = {
    "smoke": Size(40, 12, 100, 200, 1_500, 4, 2),
    "full": Size(None, None, 2_000, 10_000, 20_000, 40, 0),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One method on one panel's cases with one bank. None means the method's or the panel's own default.

    `bank` is `reference` (the packaged bank), `bank_a` or `bank_b` (its two files alone), or the name of the
    model that wrote one. `per_label` keeps that many simulations of each label, drawn by `pool_seed`; pools
    of one seed are nested. `objective`, `trained_as`, `inputs` and `prior_conditioned` matter for `abi` alone, whose
    network is trained on the bank, or as the paper trains: on the cases themselves, without their labels.
    """

    panel: str
    method: str
    bank: str = REFERENCE
    embedder: str | None = None
    engine: str = "exact"
    kernel: Literal["soft", "hard"] | None = None
    populations: int = 5
    particles: int | None = None
    bandwidth: float | None = None
    tolerance: float | None = None
    stop_acceptance: float | None = None
    stay: float | None = None
    prior: tuple[tuple[str, float], ...] = ()
    alpha0: float | None = None
    per_label: int | None = None
    pool_seed: int = 0
    objective: Literal["kl", "particles", "mean"] = "kl"
    trained_as: Literal["ours", "the paper"] = "ours"  # data, epochs, batch and rate of a network
    inputs: Inputs = "coordinates"
    prior_conditioned: bool = False
    seed: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """What its answers are known by; a network that reads coordinates says so by not saying."""
        return {k: v for k, v in asdict(self).items() if (k, v) != ("inputs", "coordinates")}

    @property
    def key(self) -> str:
        """What the stream of its intervals is drawn by."""
        return json.dumps(self.settings, sort_keys=True, ensure_ascii=False)


def spec_of(name: str, panel: str, bank: str = REFERENCE) -> Spec:
    return Spec(panel=panel, bank=bank, **_LINEUP[name])


# --------------------------------------------------------------------------- panels and cases

# The folder of $SIMDX_DATA that holds each panel's cases.
_FOLDERS = {"symptom-to-diagnosis": "sd", "case-reports": "pmc"}


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
    dataset = _subset(whole, size)
    return Cases(source, dataset, outside and _subset(outside, outside_size), dataset.label_index(names))


def _subset(dataset: Dataset, size: int | None) -> Dataset:
    """`size` cases at random, in their order; nested."""
    if size is None or size >= len(dataset.cases):
        return dataset
    rng = np.random.default_rng([0, int(dataset.hash[:8], 16)])
    return dataset.subset(np.sort(rng.permutation(len(dataset.cases))[:size]).tolist())


# --------------------------------------------------------------------------- banks

Way = Literal["temperature", "pool", "weights", "draw"]
# What the end of a bank's name says of how its model ran.
_VARIANT = re.compile(
    r"-(?:(?P<temperature>t\d+(?:\.\d+)?)|(?P<pool>n\d+)|(?P<draw>s\d+)|(?P<weights>q\d\w*|b?f(?:16|32)|awq|int\d))$"
)


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
        name: Variant(name[: ending.start()], ending[0][1:], ending.lastgroup)  # type: ignore[arg-type]
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
        return packaged_bank(replace(source, banks=(source.banks[PARTS.index(name)],), against=()))
    path = folder / f"{source.panel.name}-{name}"
    if not path.exists():
        raise BadInput(f"there is no bank of {source.panel.name} by {name}: build it with 'simdx bank build'")
    return read_bank(path, source.panel)


def pool(bank: Bank, per_label: int, seed: int) -> Bank:
    """That many simulations of each label at random (all, where there are fewer); nested for one seed."""
    order = np.random.default_rng([seed, int(bank.hash[:8], 16)]).permutation(len(bank.texts))
    kept = [order[bank.label_index[order] == label][:per_label] for label in range(len(bank.labels))]
    return bank.subset(np.sort(np.concatenate(kept)).tolist(), name=f"{bank.name}:{per_label} per label")
