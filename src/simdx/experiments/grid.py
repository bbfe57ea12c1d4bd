"""From a config to cells: the product of its axes, without cells that differ in nothing they use.

A method on the reference bank is the same whatever the simulator, so it is run once, not once per simulator.
"""

import json
import re
from dataclasses import dataclass
from itertools import product
from typing import Any

from simdx.baselines.asking import ASKING
from simdx.experiments.config import BankPart, ExperimentConfig, MethodPart, PanelPart, SimulatorPart
from simdx.types import content_hash

WITHOUT_BANK = ("zero-shot", "supervised", *ASKING)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of one method. `simulator` is None where nothing in the cell depends on it."""

    simulator: SimulatorPart | None
    embedder: str | None
    panel: PanelPart
    bank: BankPart
    method: MethodPart
    seed: int

    @property
    def asks(self) -> bool:
        return self.method.method in ASKING

    @property
    def calls(self) -> bool:
        """Whether a simulator is called while the cell is answered."""
        return self.asks or self.method.engine == "live"

    def spec(self) -> dict[str, Any]:
        """What the config says about this cell, for its record."""
        return {
            "simulator": None if self.simulator is None else self.simulator.name,
            "embedder": self.embedder,
            "panel": self.panel.model_dump(exclude_none=True),
            "bank": self.bank.model_dump(exclude_none=True),
            "method": self.method.model_dump(exclude_defaults=True),
            "seed": self.seed,
        }

    @property
    def slug(self) -> str:
        """A file name people can read, made unique by a hash of the whole spec."""
        simulator = None if self.simulator is None else self.simulator.name
        words = (self.panel.panel, self.method.method, self.bank.name, simulator, self.embedder)
        stem = "-".join(_plain(word) for word in words if word)
        return f"{stem[:90]}-{content_hash(json.dumps(self.spec(), sort_keys=True))[:8]}"


def expand(config: ExperimentConfig) -> tuple[Cell, ...]:
    cells: dict[str, Cell] = {}
    simulators = config.simulators or (None,)
    axes = (simulators, config.embedders, config.panels, config.banks, config.methods, config.seeds)
    for simulator, embedder, panel, bank, method, seed in product(*axes):
        uses_bank = method.method not in WITHOUT_BANK
        uses_simulator = method.method in ASKING or (
            uses_bank and (bank.by_simulator or method.engine == "live")
        )
        own_bank, own_model = bank if uses_bank else BankPart(), simulator if uses_simulator else None
        reads = embedder if method.method not in ASKING else None
        cell = Cell(own_model, reads, panel, own_bank, method, seed)
        cells.setdefault(cell.slug, cell)
    return tuple(cells.values())


def _plain(word: str) -> str:
    return re.sub(r"[^\w.]+", "_", word).strip("_")
