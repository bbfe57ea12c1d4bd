"""A first decision rule: accept, test further, or send to review, with the reason in plain words.

The thresholds are fixed in advance and the same for every panel. They are conservative round figures,
not tuned on any case: an answer that leaves a quarter of the probability elsewhere is not accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simdx.types import Decision, Float, Panel


@dataclass(frozen=True, slots=True)
class Thresholds:
    out_of_class: float = 0.5
    typicality: float = 0.01
    must_not_miss: float = 0.10
    confident: float = 0.75


def decide(
    panel: Panel,
    posterior: Float,
    *,
    out_of_class: float | None,
    typicality: float | None,
    thresholds: Thresholds = Thresholds(),
) -> Decision:
    """What to do with one posterior (K,). Doubt about the question comes before doubt about the answer."""
    names: Sequence[str] = panel.names
    order = posterior.argsort()[::-1]
    top, second = int(order[0]), int(order[1])
    if out_of_class is not None and out_of_class >= thresholds.out_of_class:
        return Decision("review", f"more likely none of the panel's labels (probability {out_of_class:.2f})")
    if typicality is not None and typicality < thresholds.typicality:
        return Decision(
            "review",
            f"unlike the simulated descriptions (typicality {typicality:.3f}): the posterior may not apply",
        )
    for i in order[1:]:
        if panel.labels[i].must_not_miss and posterior[i] >= thresholds.must_not_miss:
            return Decision(
                "test", f"'{names[i]}' must not be missed and keeps probability {posterior[i]:.2f}"
            )
    if posterior[top] < thresholds.confident:
        return Decision(
            "test",
            f"'{names[top]}' leads with only {posterior[top]:.2f}, against {posterior[second]:.2f} "
            f"for '{names[second]}'",
        )
    return Decision("accept", f"'{names[top]}' has probability {posterior[top]:.2f} and the case is typical")
