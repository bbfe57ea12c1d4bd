"""Metrics: arrays in, numbers out, each defined once.

`resampling` has the headline metrics (`evaluate_probabilities` gives all at once) and the bootstrap, both of
counts of cases; `scores` what they are made of and out-of-class detection, `calibration` calibration errors,
reliability and temperature, `selective` the risk–coverage curve. `differential` is against a reference
distribution; `conformal` sets, `gaps` between subgroups, `means` (and medians) of one number a case. An
undefined metric is a `Value` without a number and with a reason.
"""

from simdx.metrics.calibration import apply_temperature, ece, fit_temperature, reliability
from simdx.metrics.gaps import by_group
from simdx.metrics.means import compare_differentials, mean_values, spread
from simdx.metrics.resampling import (
    HEADLINE,
    bootstrap_intervals,
    evaluate_probabilities,
    headline_values,
    paired_bootstrap,
)
from simdx.metrics.scores import (
    auroc,
    confusion,
    entropy_strata,
    errors,
    gold_rank,
    ood_auroc,
    risk_coverage,
    uncertainty,
)
