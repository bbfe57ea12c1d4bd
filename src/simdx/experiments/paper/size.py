"""How much of everything a scale takes. Smoke shows that every artefact works; full is the measurement."""

from __future__ import annotations

from dataclasses import dataclass

from simdx.experiments.config import Scale


@dataclass(frozen=True, slots=True)
class Size:
    cases: int | None  # per panel; None: all of them
    outside: int | None  # out-of-class cases per panel
    resamples: int  # bootstrap, for intervals
    paired_resamples: int  # bootstrap of differences
    network_observations: int  # what an amortised network is trained on
    network_epochs: int
    asked_cases: int  # asked of a small model where no record of asking is at hand; 0: never


SIZES: dict[Scale, Size] = {
    "smoke": Size(40, 12, 100, 200, 1_500, 4, 2),
    "full": Size(None, None, 2_000, 10_000, 20_000, 40, 0),
}
