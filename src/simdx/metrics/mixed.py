"""Mixed-effects regression of a metric: method as fixed effect, language model as random intercept.

Each row is one (method, model) result. The random intercept takes up how good a model is in general, so that
the coefficients compare methods within models. Its variance cannot be learnt from a few models: below
`LEAST_MODELS` the fit is refused with the reason, and a paired bootstrap over cases is the tool instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from simdx.errors import BadInput, MissingExtra

LEAST_MODELS = 5


@dataclass(frozen=True, slots=True)
class Effect:
    """A method's difference from the reference method, within language models."""

    method: str
    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class MixedFit:
    """The fitted regression, or no effects and the reason why there are none."""

    reference: str
    n_rows: int
    n_models: int
    intercept: float | None = None
    effects: tuple[Effect, ...] = ()
    model_sd: float | None = None
    residual_sd: float | None = None
    reason: str | None = None
    notes: tuple[str, ...] = field(default=())


def mixed_effects(
    values: ArrayLike, methods: Sequence[str], models: Sequence[str], *, reference: str | None = None
) -> MixedFit:
    """Fit value ~ method + (1 | model) by restricted maximum likelihood (statsmodels)."""
    x = np.asarray(values, dtype=float)
    if not len(x) == len(methods) == len(models):
        raise BadInput("values, methods and models must have one length")
    if not np.all(np.isfinite(x)):
        raise BadInput("a mixed-effects regression needs finite values; leave undefined results out")
    names = sorted(set(methods))
    reference = reference if reference is not None else (names[0] if names else "")
    if names and reference not in names:
        raise BadInput(f"the reference method {reference!r} has no rows")
    n_models = len(set(models))
    refused = _refusal(x, names, n_models)
    if refused:
        return MixedFit(reference, len(x), n_models, reason=refused)
    try:
        from statsmodels.regression.mixed_linear_model import MixedLM
    except ImportError:
        raise MissingExtra("mixed-effects regression", "eval") from None

    others = [m for m in names if m != reference]
    design = np.column_stack([np.ones(len(x))] + [[float(m == o) for m in methods] for o in others])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MixedLM(x, design, groups=np.asarray(models, dtype=object).astype(str))
        try:
            fit = model.fit(reml=True)
        except np.linalg.LinAlgError:  # values hundreds of orders apart
            return MixedFit(reference, len(x), n_models, reason="the fit met a singular matrix")
    estimates = np.asarray(fit.fe_params, dtype=float)
    spreads = np.asarray(fit.bse_fe, dtype=float)
    if not np.all(np.isfinite(estimates)) or not np.all(np.isfinite(spreads)):
        return MixedFit(reference, len(x), n_models, reason="the fit did not give finite standard errors")
    effects = tuple(
        _effect(o, float(b), float(s)) for o, b, s in zip(others, estimates[1:], spreads[1:], strict=True)
    )
    return MixedFit(
        reference=reference,
        n_rows=len(x),
        n_models=n_models,
        intercept=float(estimates[0]),
        effects=effects,
        model_sd=float(np.sqrt(max(float(np.asarray(fit.cov_re).ravel()[0]), 0.0))),
        residual_sd=float(np.sqrt(fit.scale)),
        notes=tuple(sorted({str(w.message).splitlines()[0] for w in caught})),
    )


def _effect(method: str, estimate: float, error: float) -> Effect:
    p_value = float(2 * norm.sf(abs(estimate) / error))
    return Effect(method, estimate, error, estimate - 1.96 * error, estimate + 1.96 * error, p_value)


def _refusal(x: np.ndarray, methods: list[str], n_models: int) -> str | None:
    if len(methods) < 2:
        return "a comparison needs at least two methods"
    if n_models < LEAST_MODELS:
        return f"{n_models} language models are too few for a random intercept (at least {LEAST_MODELS})"
    if len(x) <= len(methods) + n_models:
        return "there are no more rows than effects to estimate"
    if np.ptp(x) == 0:
        return "all values are equal"
    return None
