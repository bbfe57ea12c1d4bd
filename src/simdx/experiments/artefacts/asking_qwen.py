"""Asking Qwen2.5-Coder-1.5B about a case against inference over what it simulates (random subsets)."""

from __future__ import annotations

from simdx.experiments.artefacts.asking import asking_config
from simdx.experiments.config import ExperimentConfig, Scale


def config(scale: Scale) -> ExperimentConfig:
    return asking_config("qwen2.5-coder-1.5b", scale, subset=100, case_reports=100)
