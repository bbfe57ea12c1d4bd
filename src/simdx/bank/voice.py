"""Which wording a simulator gets, and which model to try after it."""

from __future__ import annotations

from pathlib import Path

from simdx.models.registry import REGISTRY

SMALL_MODEL_MB = 600  # below this a model needs the short wording
NEXT = "qwen2.5-coder-1.5b"


def voice_for(simulator: str) -> str:
    """Short wording for small local models, full wording for everything else."""
    simulator = simulator.removeprefix("hf:")
    if simulator in REGISTRY:
        return "short" if REGISTRY[simulator].megabytes < SMALL_MODEL_MB else "full"
    if simulator.endswith(".gguf") and Path(simulator).is_file():
        return "short" if Path(simulator).stat().st_size < SMALL_MODEL_MB * 1_000_000 else "full"
    return "full"


def larger_than(simulator: str) -> str:
    """A larger model than the one of this `id`, and how to get it."""
    name = simulator.removeprefix("hf:").partition("@")[0]
    if name in REGISTRY and REGISTRY[name].megabytes < REGISTRY[NEXT].megabytes:
        return f"a larger model ('simdx models pull {NEXT}', then --simulator {NEXT})"
    return "a larger model (--simulator openai:MODEL@URL)"
