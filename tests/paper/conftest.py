"""A small run of the paper's artefacts: the packaged oral cases, a model's bank and records of asking."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paper.context import Context
from paper.world import Size, pool
from simdx.bank.files import packaged_bank, write_bank
from simdx.datasets import load_oral
from simdx.panels import load_source

PANEL = "oral-lesions"
# A conditioned network takes no fewer than two batches of observations.
SMALL = Size(60, 10, 100, 100, network_observations=1_100, network_epochs=2, asked_cases=0)


def small_context(out: Path, banks: Path, asking: Path, **more: Any) -> Context:
    return Context(
        "smoke", out, **{"panels": (PANEL,), "size": SMALL, "banks": banks, "asking": asking} | more
    )


def asking_record(
    folder: Path, name: str, method: str, ids: Sequence[str], p: Any, read: list[float]
) -> None:
    """What an asking experiment leaves of one model asked in one way."""
    cells = folder / f"asking-{name}" / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    record = {
        "format": 1,
        "status": "done",
        "cell": {"simulator": name, "panel": {"panel": PANEL}, "method": {"method": method, "budget": 1}},
        "labels": list(load_source(PANEL).panel.names),
        "asking": {"replies": 3 * len(ids), "model_seconds": 0.1 * len(ids), "temperature": 0.2},
        "rows": {"id": list(ids), "posterior": np.asarray(p).tolist(), "carried_by": read},
    }
    (cells / f"{method}.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.fixture(scope="session")
def banks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bank that 'a model' wrote: ten of the packaged simulations per label."""
    return write_banks(tmp_path_factory.mktemp("banks"), {"small": 10})


def write_banks(folder: Path, sizes: dict[str, int]) -> Path:
    source = load_source(PANEL)
    for seed, (name, size) in enumerate(sizes.items()):
        write_bank(folder / f"{PANEL}-{name}", pool(packaged_bank(source), size, seed), source.panel)
    return folder


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of asking the model 'small': random answers, sharper and more often wrong than right."""
    folder = tmp_path_factory.mktemp("asking")
    ids = [case.id for case in load_oral().cases.cases]
    for number, method in enumerate(("logits", "elicited", "ensemble", "fidelity")):
        p = np.random.default_rng(number).dirichlet(np.full(3, 0.4), size=len(ids))
        asking_record(folder, "small", method, ids, p, [3.0] * (len(ids) - 1) + [0.0])
    return folder


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory, banks: Path, asking: Path) -> Context:
    return small_context(tmp_path_factory.mktemp("paper"), banks, asking)
