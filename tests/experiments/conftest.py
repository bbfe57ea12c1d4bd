"""A whole small world on disk: a panel, a bank beside it, labelled cases, and an experiment file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from simdx.types import Bank, Panel


@dataclass(frozen=True)
class World:
    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write(self, **config: Any) -> Path:
        whole = {
            "name": "toy",
            "panels": [{"panel": "panel.yaml", "data": "cases.jsonl"}],
            "methods": ["m-smc"],
            "resamples": 100,
            **config,
        }
        path = self.folder / "experiment.yaml"
        path.write_text(yaml.safe_dump(whole))
        return path


@pytest.fixture
def world(tmp_path: Path, toy_panel: Panel, toy_bank: Bank, private_home: Path) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    panel = {"name": "toy", "embedder": "hashing", "labels": list(toy_panel.names), "banks": ["bank.jsonl"]}
    (folder / "panel.yaml").write_text(yaml.safe_dump(panel))
    rows = [
        json.dumps({"label": toy_bank.labels[i], "text": t})
        for i, t in zip(toy_bank.label_index, toy_bank.texts, strict=True)
    ]
    (folder / "bank.jsonl").write_text("\n".join(rows))
    told = {"apple": "sweet fruit", "river": "wide water", "engine": "hot motor"}
    cases = [
        {"id": f"{label}-{i}", "label": label, "text": f"secret words {i} about {what} {label}"}
        for label, what in told.items()
        for i in range(6)
    ]
    (folder / "cases.jsonl").write_text("\n".join(json.dumps(case) for case in cases))
    return World(folder)
