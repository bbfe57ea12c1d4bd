"""Inference over what a small model simulated: M-SMC, D-SMC, ABI and the recipe on its own banks.

The banks are those of `simdx bank build`, in $SIMDX_BANKS as {panel}-{model}. A network for `abi` must have
been trained on each first (`simdx abi train --panel P --bank B`); where one or a bank is missing, the cells
fail on record and say so.
"""

from __future__ import annotations

from simdx.experiments.artefacts.panels import packaged
from simdx.experiments.config import BankPart, ExperimentConfig, MethodPart, Scale

MODELS = ("smollm2", "qwen2.5-coder-1.5b")


def config(scale: Scale) -> ExperimentConfig:
    smoke = scale == "smoke"
    return ExperimentConfig(
        name="own-banks",
        title="Inference over the simulations of SmolLM2 and Qwen2.5-Coder-1.5B",
        panels=packaged(20)[:1] if smoke else packaged(),
        banks=tuple(
            BankPart(name=model, path=f"$SIMDX_BANKS/{{panel}}-{model}")
            for model in (MODELS[:1] if smoke else MODELS)
        ),
        methods=tuple(
            MethodPart(method=name) for name in ("auto", "m-smc", "d-smc", "abi", "bank-logistic", "centroid")
        ),
        resamples=100 if smoke else 2000,
    )
