"""Asking SmolLM2 about a case against inference over what it simulates."""

from __future__ import annotations

from simdx.experiments.artefacts.asking import asking_config
from simdx.experiments.config import ExperimentConfig, Scale


def config(scale: Scale) -> ExperimentConfig:
    return asking_config("smollm2", scale, subset=None, case_reports=None)
