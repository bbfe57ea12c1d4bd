"""One cell: load what it names, and the spec that measures it."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank, read_bank
from simdx.baselines.supervised import supervised_ceiling, temperature_scaled
from simdx.datasets import Dataset, open_data
from simdx.egress import is_remote
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.experiments.config import ExperimentConfig
from simdx.experiments.grid import Cell
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods.fitted import RECIPE_VERSION, recipe_of
from simdx.metrics.headline import evaluate_probabilities
from simdx.panels import load_source
from simdx.panels.load import PanelSource
from simdx.runs import Progress, Result, Spec, Store
from simdx.types import Bank, Float, Int, Mask

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Setting:
    """What all cells of a run share: the config, where paths start, where results go, and what may leave."""

    config: ExperimentConfig
    base: Path
    out: Path
    allow_remote: bool = False  # never from the config, which is a file of others

    @property
    def store(self) -> Store:
        return Store(self.out)

    @property
    def replies(self) -> Path:
        return self.out / "replies"


@dataclass(frozen=True, slots=True)
class Loaded:
    source: PanelSource
    bank: Bank
    dataset: Dataset
    of: int

    @property
    def hashes(self) -> dict[str, str]:
        return {"data": self.dataset.hash, "bank": self.bank.identity, "panel": self.source.panel.hash}


def spec_of(cell: Cell, setting: Setting, progress: Progress | None = None) -> Spec[Loaded]:
    config = setting.config
    chosen = {"cell": cell.spec(), "resamples": config.resamples, "subset_seed": config.subset_seed}
    if (edition := recipe_of(cell.method.method)) != RECIPE_VERSION:  # the others' records stand
        chosen["recipe"] = edition
    return Spec(config.name, cell.slug, chosen, lambda loaded: measure_cell(cell, setting, loaded, progress))


def load(cell: Cell, setting: Setting) -> Loaded:
    source = panel_of(cell, setting)
    names = source.panel.names
    whole = open_data(_path(cell.panel.data, setting.base), labels=names).cases
    whole.label_index(names)
    dataset = subset(whole, cell.panel.subset, setting.config.subset_seed)
    return Loaded(source, _bank(cell, setting, source), dataset, len(whole.cases))


def panel_of(cell: Cell, setting: Setting) -> PanelSource:
    return load_source(_path(cell.panel.panel, setting.base))


def measure_cell(cell: Cell, setting: Setting, loaded: Loaded, progress: Progress | None) -> Result:
    began = time.perf_counter()
    panel, dataset, config = loaded.source.panel, loaded.dataset, setting.config
    y = dataset.label_index(panel.names)
    embedder = get_embedder(cell.embedder or panel.embedder, allow_remote=setting.allow_remote)
    data = PanelData.prepare(panel, loaded.bank, embedder)
    ready = time.perf_counter()
    asking = simulator_id = sampler = None
    remote = is_remote(embedder)
    if cell.method.method == "supervised":
        vectors = data.observe(dataset.texts).vectors
        p = supervised_ceiling(vectors, y, len(panel.names), dataset.texts, seed=cell.seed)
        carried = np.full(len(y), np.nan)
    else:
        fitted = fit_method(data, settings_of(cell, setting))
        fitted.progress = progress
        remote = fitted.remote
        prior = Prior.from_probabilities(panel.names, cell.method.prior or {})
        table = fitted.answer(data.observe(dataset.texts), prior)
        p, carried = table.posterior_in_class, table.effective_simulations
        simulator_id = None if cell.simulator is None else cell.simulator.name
        if cell.asks:
            asking = dict(table.usage or {})
            simulator_id = asking.pop("simulator")
        if table.trace is not None:
            sampler = {
                "outcomes": dict(Counter(table.trace.outcome)),
                "populations": float(table.trace.populations.mean()),
            }
    finished = time.perf_counter()
    rng = np.random.default_rng([cell.seed, int(dataset.hash[:8], 16)])

    def scores(p: Float, y: Int) -> dict[str, Any]:
        return evaluate_probabilities(p, y, resamples=config.resamples, rng=rng)

    figures = {
        "models": {"simulator": simulator_id, "embedder": embedder.id, "bank": loaded.bank.name},
        "remote": remote,
        "data": {
            "name": dataset.name,
            "n": len(y),
            "of": loaded.of,
            "subset_seed": config.subset_seed if len(y) < loaded.of else None,
            "notice": dataset.notice,
        },
        "labels": list(panel.names),
        "metrics": scores(p, y),
        "answered": _answered(carried > 0, p, y, scores) if cell.asks else None,
        "asking": asking,
        "sampler": sampler,
        "calibrated": _calibrated(cell, p, dataset, panel.names, y, scores),
    }
    cost = {"prepare_seconds": round(ready - began, 3), "infer_seconds": round(finished - ready, 3)}
    rows = {  # never a text
        "id": [case.id for case in dataset.cases],
        "label": [case.label for case in dataset.cases],
        "posterior": p.round(_DIGITS).tolist(),
        "carried_by": [None if np.isnan(c) else round(float(c), 3) for c in np.asarray(carried, float)],
    }
    return Result(figures, rows, cost)


def subset(dataset: Dataset, size: int | None, seed: int) -> Dataset:
    """`size` cases at random, in their original order: the same cases for every method and model.

    Subsets are nested: a larger one holds every smaller one of the same seed, so a run can be enlarged later
    without losing what was asked.
    """
    if size is None or size >= len(dataset.cases):
        return dataset
    rng = np.random.default_rng([seed, int(dataset.hash[:8], 16)])
    chosen = np.sort(rng.permutation(len(dataset.cases))[:size])
    return dataset.subset(chosen.tolist())


def settings_of(cell: Cell, setting: Setting) -> Settings:
    return Settings.named_alike(
        cell.method,
        simulator=None if cell.simulator is None else cell.simulator.name,
        allow_remote=setting.allow_remote,
        replies=str(setting.replies),
        seed=cell.seed,
    )


def _answered(kept: Mask, p: Float, y: Int, scores: Any) -> dict[str, Any]:
    """The cases with at least one readable reply, alone; the metrics above score the others at the prior.

    `accuracy_strict` counts an unanswered case as wrong, since a tie broken by the label order is no answer.
    """
    right = (p.argmax(axis=1) == y) & kept
    some = kept.any() and not kept.all()
    return {
        "n": int(kept.sum()),
        "accuracy_strict": float(right.mean()) if len(y) else None,
        "metrics": scores(p[kept], y[kept]) if some else None,
    }


def _calibrated(
    cell: Cell, p: Float, dataset: Dataset, names: tuple[str, ...], y: Int, scores: Any
) -> dict[str, Any] | None:
    if cell.method.calibration is None:
        return None
    scaled = temperature_scaled(p, dataset, names, share=cell.method.calibration, seed=cell.seed)
    kept = scaled.kept
    return {
        "temperature": scaled.temperature.value,
        "at_bound": scaled.temperature.at_bound,
        "fitted_on": scaled.temperature.n,
        "metrics": scores(scaled.probabilities, y[kept]),
        "uncalibrated_on_the_same_cases": evaluate_probabilities(p[kept], y[kept]),
    }


def bank_path(cell: Cell, base: Path, panel: str) -> Path | None:
    """Where a cell's bank lies; None for the panel's own."""
    if cell.bank.path is None:
        return None
    simulator = "" if cell.simulator is None else cell.simulator.name
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in simulator)
    return Path(_path(cell.bank.path.format(panel=panel, simulator=safe), base))


def _bank(cell: Cell, setting: Setting, source: PanelSource) -> Bank:
    path = bank_path(cell, setting.base, source.panel.name)
    if path is None:
        return packaged_bank(source)
    if not path.exists():
        # The path as the file writes it: a record is no place for the layout of one machine.
        raise BadInput(f"there is no bank at {cell.bank.path}: build it with 'simdx bank build'")
    return read_bank(path, source.panel)


def _path(name: str, base: Path) -> str:
    """Environment variables filled in; a relative path that exists beside the config means that one."""
    full = os.path.expandvars(os.path.expanduser(name))
    beside = base / full
    return str(beside) if not Path(full).is_absolute() and beside.exists() else full
