"""What a prior does, strong and wrong as it may be; and every method's entropy on cases of no label.

Models asked come from records of asking. An answer that cannot be read says nothing about a model's entropy:
it is left out."""

from typing import Any

import numpy as np

from paper.context import Context
from paper.measures import Measured, per_panel
from paper.world import METHODS, Spec, theirs_name
from simdx.abc.prior import Prior
from simdx.methods import Fitted, Observations
from simdx.methods.calibration import calibrated
from simdx.methods.outside import Outside
from simdx.metrics.scores import ood_auroc
from simdx.runs import NotRun
from simdx.types import Float, Int, entropy_bits

# --------------------------------------------------------------------------- priors

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
    rows, total = np.arange(len(label)), count + n_labels - 1
    answers = []
    for favoured in range(n_labels):
        counts = np.ones(n_labels)
        counts[favoured] = count
        prior = Prior(counts / counts.sum(), float(n_labels) if held else float(counts.sum()))
        answers.append(fitted.infer(observations, prior).posterior.probabilities)
    p = np.array(answers)  # (favoured, N, K)
    measured = {"posterior_on_true": p[:, rows, label], "accuracy": (p.argmax(axis=2) == label).astype(float)}
    own = {name: values[label, rows] for name, values in measured.items()}
    wrong = np.arange(n_labels)[:, None] != label
    misled = {name: np.mean(values, axis=0, where=wrong) for name, values in measured.items()}
    informative, misleading = {"prior_on_true": count / total}, {"prior_on_true": 1 / total}
    return {"informative": informative | own, "misleading": misleading | misled}


@per_panel
def prior_sensitivity(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
    return {variant: [_favoured(context, panel, variant, c) for c in COUNTS[context.scale]] for variant in VARIANTS}


def _favoured(context: Context, panel: str, variant: str, count: int) -> dict[str, Any]:
    label, k, seen = context.labels(panel), len(context.names(panel)), context.observations(panel)
    fitted = context.fitted(Spec(panel, "d-smc" if variant == HELD else variant))
    boot, row = context.bootstrap("prior-sensitivity", panel, variant, str(count)), dict[str, Any](count=count)
    for kind, one in under_priors(fitted, seen, label, k, count, variant == HELD).items():
        row[kind] = {"prior_on_true": one["prior_on_true"]}
        for name in ("posterior_on_true", "accuracy"):
            row[kind][name] = {"value": float(one[name].mean()), "ci": boot.mean(one[name])}
    return row


# --------------------------------------------------------------------------- out of class

COMPARED = ("m-smc", "d-smc", "abi", "auto", "bank-logistic", "centroid", "tfidf", "zero-shot")


def out_of_class(context: Context) -> Measured:
    panels = [p for p in context.panels if context.cases(p).outside is not None]
    if not panels:
        raise NotRun("no panel of this run has out-of-class cases at hand")
    data, notes = {}, list[str]()
    for panel in panels:
        rows = []
        for method in COMPARED:
            bits = [entropy_bits(context.probabilities(Spec(panel, method), outside)) for outside in (False, True)]
            paper = METHODS[method] if method in ("m-smc", "d-smc") else None
            rows.append(_row(context, panel, METHODS[method], paper, *bits))
        rows.append(_row(context, panel, "recipe with “none of these”", None, *_with_background(context, panel)))
        asked, missing = asked_bits(context, panel)
        data[panel], notes = [*rows, *asked], [*notes, *missing]
    n = {p: context.n[p] for p in panels}
    n |= {f"{p}, out of class": len(context.cases(p).part(True).cases) for p in panels}
    return Measured(data, n, notes)


def _with_background(context: Context, panel: str) -> list[Float]:
    """The recipe as it is shipped: what its background hypothesis claims goes back to the prior."""
    spec = Spec(panel, "auto")
    share_of, prior = Outside.fit(calibrated(context.panel_data(spec))), context.prior(spec)
    assert share_of is not None, "the packaged banks have a background"
    bits = []
    for outside in (False, True):
        share = share_of(context.observations(panel, outside), prior)[:, None]
        bits.append(entropy_bits((1 - share) * context.probabilities(spec, outside) + share * prior.probabilities))
    return bits


def asked_bits(context: Context, panel: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Models asked about out-of-class cases, from records; and what could not be read."""
    inside = {one.name: entropy_bits(one.probabilities[one.readable > 0]) for one in context.asked(panel)}
    found, missing = [], []
    for one in context.asked(panel, True):
        if (one.readable > 0).any():
            outside = entropy_bits(one.probabilities[one.readable > 0])
            within = inside.get(one.name, np.zeros(0))
            found.append(_row(context, panel, one.name, theirs_name(one.way), within, outside))
        else:
            missing.append(f"{panel}: no answer of {one.name} on an out-of-class case could be read.")
    return found, missing


def _row(context: Context, panel: str, name: str, paper: str | None, inside: Float, outside: Float) -> dict[str, Any]:
    """Entropies of one method inside and outside the panel; `paper` is the paper's name of it."""
    boot = context.bootstrap("out-of-class", panel, name)

    def separation(a: Float, b: Float) -> float | None:
        return ood_auroc(a, b).value

    found: dict[str, Any] = {"method": name, "paper": paper, "n_outside": len(outside)}
    found |= {"outside": float(outside.mean()), "outside_ci": boot.mean(outside)}
    if not len(inside):
        return found | dict.fromkeys(("inside", "inside_ci", "auroc", "auroc_ci"))
    found |= {"inside": float(inside.mean()), "inside_ci": boot.mean(inside)}
    between = boot._replace(resamples=min(boot.resamples, 1000)).of(separation, inside, outside)
    return found | {"auroc": separation(inside, outside), "auroc_ci": between}
