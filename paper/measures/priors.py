"""What a prior does: every strength on every label in turn."""

from typing import Any

import numpy as np

from paper.answers import Spec
from paper.context import Context
from paper.engine import Fitted, Observations
from paper.intervals import mean_interval
from paper.measures import Measured, each_panel, packaged_used
from simdx.abc.prior import Prior
from simdx.types import Int

HELD = "d-smc, α₀ = K"  # the variant whose concentration does not grow with the prior
COUNTS = {"smoke": (1, 5, 100), "full": (1, 2, 5, 10, 30, 100, 300, 1000)}  # of the favoured label, one for each other
VARIANTS = ("m-smc", "d-smc", HELD, "auto")


def under_priors(
    fitted: Fitted, observations: Observations, label: Int, n_labels: int, count: float, held: bool
) -> dict[str, dict[str, Any]]:
    """Every label favoured in turn by `count` pseudo-counts against one.

    Per case the mass on the true label and whether the answer is right: under the prior that favours the true
    label (informative), and as means over those that favour a wrong one (misleading).
    """
    n, rows = len(label), np.arange(len(label))
    found = {
        kind: {"posterior_on_true": np.zeros(n), "accuracy": np.zeros(n)} for kind in ("informative", "misleading")
    }
    for favoured in range(n_labels):
        counts = np.ones(n_labels)
        counts[favoured] = count
        prior = Prior(counts / counts.sum(), float(n_labels) if held else float(counts.sum()))
        p = fitted.infer(observations, prior).posterior.probabilities
        mine = label == favoured
        measured = {"posterior_on_true": p[rows, label], "accuracy": (p.argmax(axis=1) == label).astype(float)}
        for name, values in measured.items():
            found["informative"][name][mine] = values[mine]
            found["misleading"][name][~mine] += values[~mine] / (n_labels - 1)
    total = count + n_labels - 1
    return {
        "informative": {"prior_on_true": count / total, **found["informative"]},
        "misleading": {"prior_on_true": 1 / total, **found["misleading"]},
    }


def sensitivity(context: Context) -> Measured:
    strengths = COUNTS[context.scale]

    def measure(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
        label, k, seen = context.labels(panel), len(context.names(panel)), context.observations(panel)
        data: dict[str, list[dict[str, Any]]] = {}
        for variant in VARIANTS:
            fitted = context.fitted(Spec(panel, "d-smc" if variant == HELD else variant))
            rows = data[variant] = []
            for count in strengths:
                rng = context.rng("prior-sensitivity", panel, variant, str(count))
                row: dict[str, Any] = {"count": count}
                for kind, one in under_priors(fitted, seen, label, k, count, variant == HELD).items():
                    row[kind] = {"prior_on_true": one["prior_on_true"]}
                    for name in ("posterior_on_true", "accuracy"):
                        around = mean_interval(one[name], rng, context.size.resamples)
                        row[kind][name] = {"value": float(one[name].mean()), "ci": around}
                rows.append(row)
        return data

    return each_panel(context, measure, packaged_used)
