"""Metrics: arrays in, numbers out, each defined once.

`scores` (accuracy, macro-F1, Brier, NLL, class discrimination, out-of-class detection), `calibration`
(calibration errors, reliability, temperature), `selective` (error detection, risk–coverage), `differential`
(against a reference distribution), `conformal` sets, `gaps` (subgroups), `means` (and medians) of one number
a case and `resampling` (bootstrap; `evaluate_probabilities` gives all headline figures at once). An
undefined metric is a `Value` without a number and with a reason.
"""

from simdx.metrics.calibration import (
    adaptive_ece,
    apply_temperature,
    classwise_ece,
    ece,
    fit_temperature,
    reliability,
    smooth_ece,
)
from simdx.metrics.differential import compare_differentials
from simdx.metrics.gaps import by_group
from simdx.metrics.means import mean_values, spread
from simdx.metrics.resampling import (
    HEADLINE,
    bootstrap_intervals,
    evaluate_probabilities,
    headline_values,
    paired_bootstrap,
)
from simdx.metrics.scores import (
    Value,
    accuracy,
    auroc,
    brier,
    class_auroc,
    confusion,
    gold_rank,
    macro_f1,
    mean_entropy_bits,
    nll,
    ood_auroc,
    out_of_class,
)
from simdx.metrics.selective import (
    aurc,
    best_aurc,
    e_aurc,
    entropy_strata,
    error_auroc,
    errors,
    risk_at,
    risk_coverage,
    uncertainty,
)
