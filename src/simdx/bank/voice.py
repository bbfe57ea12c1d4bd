"""Which wording a simulator gets: models of a few hundred million parameters need the short one."""

from __future__ import annotations

from pathlib import Path

from simdx.models.registry import REGISTRY

SMALL_MODEL_MB = 600  # below this a model needs the short wording


def voice_for(simulator: str) -> str:
    """Short wording for small local models, full wording for everything else."""
    simulator = simulator.removeprefix("hf:")
    if simulator in REGISTRY:
        return "short" if REGISTRY[simulator].megabytes < SMALL_MODEL_MB else "full"
    if simulator.endswith(".gguf") and Path(simulator).is_file():
        return "short" if Path(simulator).stat().st_size < SMALL_MODEL_MB * 1_000_000 else "full"
    return "full"
