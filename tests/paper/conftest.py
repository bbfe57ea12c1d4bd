"""A small run of the paper's artefacts: the packaged oral cases, a model's bank and records of asking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simdx.bank.files import packaged_bank, write_bank
from simdx.datasets import load_oral
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.size import Size
from simdx.experiments.paper.world import pool
from simdx.panels import load_source

PANEL = "oral-lesions"
SMALL = Size(
    cases=60,
    outside=10,
    resamples=100,
    paired_resamples=100,
    network_observations=1_100,  # a conditioned network takes no fewer than two batches
    network_epochs=2,
    asked_cases=0,
)


@pytest.fixture(scope="session")
def banks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bank that 'a model' wrote: ten of the packaged simulations per label."""
    folder = tmp_path_factory.mktemp("banks")
    source = load_source(PANEL)
    write_bank(folder / f"{PANEL}-small", pool(packaged_bank(source), 10, seed=3), source.panel)
    return folder


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of asking the model 'small': random answers, sharper and more often wrong than right."""
    folder = tmp_path_factory.mktemp("asking")
    cells = folder / "asking-small" / "cells"
    cells.mkdir(parents=True)
    cases = load_oral().cases.cases
    names = load_source(PANEL).panel.names
    for number, method in enumerate(("logits", "elicited", "ensemble", "fidelity")):
        p = np.random.default_rng(number).dirichlet(np.full(len(names), 0.4), size=len(cases))
        record = {
            "format": 1,
            "status": "done",
            "cell": {"simulator": "small", "panel": {"panel": PANEL}, "method": {"method": method}},
            "labels": list(names),
            "asking": {"replies": 3 * len(cases), "readable": 3 * len(cases), "model_seconds": 30.0},
            "rows": {
                "id": [case.id for case in cases],
                "posterior": p.tolist(),
                "carried_by": [3.0] * (len(cases) - 1) + [0.0],
            },
        }
        (cells / f"{method}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory, banks: Path, asking: Path) -> Context:
    out = tmp_path_factory.mktemp("paper")
    return Context("smoke", out, panels=(PANEL,), size=SMALL, banks=banks, asking=asking)
