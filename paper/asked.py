"""What language models said when asked about the cases: read from the records of the asking experiments.

The records hold probabilities under the cases' ids. They are matched to the cases of this run, so that a
method is always compared with asking on the very same cases, however few were asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paper.world import Cases
from simdx.errors import SimdxError
from simdx.experiments.config import ExperimentConfig, MethodPart, PanelPart, SimulatorPart
from simdx.runs import Record, Store
from simdx.types import Float, Int

SMALL_MODEL = "smollm2"
# The paper's abbreviations of the same four.
PAPER_ASKING = {"logits": "ML", "elicited": "EP", "ensemble": "PE", "fidelity": "EF"}


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One model asked in one way. `positions` are the asked cases' rows among the panel's cases."""

    simulator: str
    method: str  # logits | elicited | ensemble | fidelity
    positions: Int
    probabilities: Float  # (len(positions), K)
    readable: Float  # (len(positions),) replies behind each answer; zero: answered by the prior
    seconds_per_case: float | None  # of the model alone
    calls_per_case: float | None

    @property
    def model(self) -> str:
        """The model without the engine it ran on: its own bank may have been written through another."""
        return self.simulator.removeprefix("hf:")

    @property
    def name(self) -> str:
        return f"{PAPER_ASKING[self.method]} ({self.simulator})"


def read_asked(folder: Path, panel: str, cases: Cases) -> tuple[Asked, ...]:
    """Every finished asking cell of that panel below `folder`, one per model and way of asking."""
    found: dict[tuple[str, str], Asked] = {}
    for place in sorted(folder.glob("asking-*")) if folder.is_dir() else []:
        for record in Store(place).records():
            asked = _asked(record, panel, cases)
            if asked is not None:
                # Of several records of one question the one on more cases counts.
                known = found.get((asked.simulator, asked.method))
                if known is None or len(asked.positions) > len(known.positions):
                    found[asked.simulator, asked.method] = asked
    return tuple(found[key] for key in sorted(found))


def asked_directly(panel: str, cases: Cases, count: int, out: Path) -> tuple[Asked, ...]:
    """The small model asked about the first few cases; nothing where it is not installed."""
    from simdx.experiments.runner import run_experiment

    if panel != "oral-lesions":  # the only cases that ship; a smoke run asks about these alone
        return ()
    config = ExperimentConfig(
        name="asking-directly",
        simulators=(SimulatorPart(name=SMALL_MODEL),),
        panels=(PanelPart(panel=panel, data=panel, subset=count),),
        methods=tuple(MethodPart(method=name, budget=2) for name in PAPER_ASKING),
        resamples=100,
    )
    try:
        outcome = run_experiment(config, out)
    except SimdxError:
        return ()
    asked = (_asked(record, panel, cases) for record in outcome.records)
    return tuple(one for one in asked if one is not None)


def _asked(record: Record, panel: str, cases: Cases) -> Asked | None:
    if not record.done or record.rows is None:
        return None
    cell, rows = record["cell"], record.rows
    method = cell["method"]["method"]
    if method not in PAPER_ASKING or cell["panel"]["panel"] != panel:
        return None
    if tuple(record["labels"]) != cases.names:
        return None
    position = {case.id: i for i, case in enumerate(cases.dataset.cases)}
    kept = [(position[i], j) for j, i in enumerate(rows["id"]) if i in position]
    if not kept:
        return None
    chosen = [j for _, j in kept]
    p = np.asarray(rows["posterior"], dtype=float)[chosen]
    asking, n = record.found.get("asking") or {}, max(len(rows["id"]), 1)
    seconds = asking.get("model_seconds")
    return Asked(
        simulator=cell["simulator"],
        method=method,
        positions=np.array([i for i, _ in kept], dtype=np.int64),
        probabilities=p / p.sum(axis=1, keepdims=True),
        readable=np.array([rows["carried_by"][j] or 0.0 for j in chosen], dtype=float),
        seconds_per_case=None if seconds is None else seconds / n,
        calls_per_case=None if not asking.get("replies") else asking["replies"] / n,
    )
