"""What the two asking experiments share: the four ways to ask, beside inference on the same cases."""

from __future__ import annotations

from simdx.experiments.artefacts.panels import packaged
from simdx.experiments.config import BankPart, ExperimentConfig, MethodPart, Scale, SimulatorPart

ASKED = ("logits", "elicited", "ensemble", "fidelity")
INFERRED = ("auto", "m-smc", "d-smc", "bank-logistic")
CALIBRATION = 0.2


def asking_config(
    simulator: str, scale: Scale, *, subset: int | None, case_reports: int | None
) -> ExperimentConfig:
    smoke = scale == "smoke"
    panels = packaged(4)[:1] if smoke else packaged(subset, case_reports=case_reports)
    banks = (BankPart(), BankPart(name="own", path="$SIMDX_BANKS/{panel}-{simulator}"))
    return ExperimentConfig(
        name=f"asking-{simulator}",
        title=f"Asking {simulator} against inference over simulations",
        simulators=(SimulatorPart(name=simulator),),
        panels=panels,
        banks=banks[:1] if smoke else banks,
        methods=(
            *(MethodPart(method=name) for name in INFERRED),
            *(MethodPart(method=name, calibration=None if smoke else CALIBRATION) for name in ASKED),
        ),
        resamples=100 if smoke else 2000,
    )
