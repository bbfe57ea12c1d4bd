"""Running one cell: load what it names, fit, infer, measure."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
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
from simdx.experiments.records import FORMAT, Record, versions
from simdx.fitting import fit_method
from simdx.methods import RECIPE_VERSION, Material, Settings
from simdx.metrics.headline import evaluate_probabilities
from simdx.panels import load_source
from simdx.panels.load import PanelSource
from simdx.types import Bank, Float, Int, Mask, content_hash

Progress = Callable[[int, int], None]
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Setting:
    """What all cells of a run share: the config, where paths start, where results go, and what may leave."""

    config: ExperimentConfig
    base: Path
    out: Path
    allow_remote: bool = False  # never from the config, which is a file of others

    @property
    def replies(self) -> Path:
        return self.out / "replies"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A cell's inputs; `identity` hashes everything that decides its numbers."""

    source: PanelSource
    bank: Bank
    dataset: Dataset
    of: int
    identity: str


def load(cell: Cell, setting: Setting) -> Loaded:
    source = panel_of(cell, setting)
    names = source.panel.names
    whole = open_data(_path(cell.panel.data, setting.base), labels=names).cases
    whole.label_index(names)
    dataset = subset(whole, cell.panel.subset, setting.config.subset_seed)
    bank = _bank(cell, setting, source)
    parts = (json.dumps(cell.spec(), sort_keys=True), dataset.hash, bank.identity, source.panel.hash)
    settings = f"{setting.config.resamples} {setting.config.subset_seed}"
    identity = content_hash("cell", f"recipe {RECIPE_VERSION}", settings, *parts)
    return Loaded(source, bank, dataset, len(whole.cases), identity)


def panel_of(cell: Cell, setting: Setting) -> PanelSource:
    return load_source(_path(cell.panel.panel, setting.base))


def run_cell(cell: Cell, setting: Setting, loaded: Loaded, progress: Progress | None = None) -> Record:
    """The record of a cell that worked; whatever goes wrong is raised."""
    # Durations by a clock that no one sets; the date of the start by the one people read.
    date, began = time.time(), time.perf_counter()
    panel, dataset = loaded.source.panel, loaded.dataset
    y = dataset.label_index(panel.names)
    embedder = get_embedder(cell.embedder or panel.embedder, allow_remote=setting.allow_remote)
    material = Material.prepare(panel, loaded.bank, embedder)
    prior = Prior.from_probabilities(panel.names, cell.method.prior or {})
    ready = time.perf_counter()
    asking = simulator_id = None
    remote = is_remote(embedder)
    if cell.method.method == "supervised":
        vectors = material.observe(dataset.texts).vectors
        p = supervised_ceiling(vectors, y, len(panel.names), dataset.texts, seed=cell.seed)
        carried = np.full(len(y), np.nan)
    else:
        fitted = fit_method(material, settings_of(cell, setting))
        fitted.progress = progress
        remote = fitted.remote
        table = fitted.answer(material.observe(dataset.texts), prior)
        p, carried = table.posterior_in_class, table.effective_simulations
        simulator_id = None if cell.simulator is None else cell.simulator.name
        if cell.asks:
            asking = dict(table.usage or {})
            simulator_id = asking.pop("simulator")
    finished = time.perf_counter()
    rng = np.random.default_rng([cell.seed, int(dataset.hash[:8], 16)])
    resamples = setting.config.resamples
    return {
        "format": FORMAT,
        "experiment": setting.config.name,
        "status": "done",
        "cell": cell.spec(),
        "identity": loaded.identity,
        "models": {"simulator": simulator_id, "embedder": embedder.id, "bank": loaded.bank.name},
        "remote": remote,
        "data": {
            "name": dataset.name,
            "n": len(y),
            "of": loaded.of,
            "subset_seed": setting.config.subset_seed if len(y) < loaded.of else None,
            "notice": dataset.notice,
        },
        "hashes": {"data": dataset.hash, "bank": loaded.bank.identity, "panel": panel.hash},
        "versions": versions(),
        "cost": {
            "prepare_seconds": round(ready - began, 3),
            "infer_seconds": round(finished - ready, 3),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
        },
        "labels": list(panel.names),
        "metrics": evaluate_probabilities(p, y, resamples=resamples, rng=rng),
        "answered": _answered(carried > 0, p, y, resamples, rng) if cell.asks else None,
        "asking": asking,
        "calibrated": _calibrated(cell, p, dataset, panel.names, y, resamples, rng),
        "rows": _rows(dataset, p, carried),
    }


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


def _answered(kept: Mask, p: Float, y: Int, resamples: int, rng: np.random.Generator) -> Record:
    """The cases with at least one readable reply, alone; the metrics above score the others at the prior.

    `accuracy_strict` counts an unanswered case as wrong, since a tie broken by the label order is no answer.
    """
    right = (p.argmax(axis=1) == y) & kept
    found: Record = {"n": int(kept.sum()), "accuracy_strict": float(right.mean()) if len(y) else None}
    if kept.all() or not kept.any():
        return {**found, "metrics": None}
    return {**found, "metrics": evaluate_probabilities(p[kept], y[kept], resamples=resamples, rng=rng)}


def _calibrated(
    cell: Cell,
    p: Float,
    dataset: Dataset,
    names: tuple[str, ...],
    y: Int,
    resamples: int,
    rng: np.random.Generator,
) -> Record | None:
    if cell.method.calibration is None:
        return None
    scaled = temperature_scaled(p, dataset, names, share=cell.method.calibration, seed=cell.seed)
    kept = scaled.kept
    return {
        "temperature": scaled.temperature.value,
        "at_bound": scaled.temperature.at_bound,
        "fitted_on": scaled.temperature.n,
        "metrics": evaluate_probabilities(scaled.probabilities, y[kept], resamples=resamples, rng=rng),
        "uncalibrated_on_the_same_cases": evaluate_probabilities(p[kept], y[kept]),
    }


def _rows(dataset: Dataset, p: Float, carried: Float) -> dict[str, list[Any]]:
    """Ids, gold labels and probabilities; never a text."""
    return {
        "id": [case.id for case in dataset.cases],
        "label": [case.label for case in dataset.cases],
        "posterior": p.round(_DIGITS).tolist(),
        "carried_by": [None if np.isnan(c) else round(float(c), 3) for c in np.asarray(carried, float)],
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
