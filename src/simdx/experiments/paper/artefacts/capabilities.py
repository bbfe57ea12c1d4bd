"""What each variant can do, asked of the code itself (table S9)

The paper's Table S9 says that no variant has every capability. Here the table is generated: each variant is
fitted to a packaged bank and asked. What counts: a posterior over labels (rows that sum to one), one over
the simplex, the split of its uncertainty, another prior in the next call of the same fitted object, whether
an answer needs a run of the sampler (it then leaves a trace), and whether a batch is answered in one pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, RECIPE, spec_of
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import quote
from simdx.methods import Observations
from simdx.types import Float, SecondOrder

ORDER = 370
ARTEFACT = "capabilities"
ABI_PRIOR = "ABI (prior-conditioned)"
VARIANTS = (M_SMC, M_PARTICLES, D_SMC, D_PARTICLES, ABI, ABI_PRIOR, RECIPE)
CAPABILITIES = {
    "posterior_over_labels": "posterior over labels",
    "posterior_over_simplex": "posterior over the simplex",
    "uncertainty_split": "aleatoric–epistemic split",
    "prior_at_test_time": "prior at test time",
    "sampler_per_case": "a run of the sampler per case",
    "single_forward_pass": "one pass for a batch",
}
PROBED = 8  # cases
FAVOUR = 0.9  # prior of the favoured label in the probe

# texts' observations, prior -> probabilities, second order, whether a sampler left a trace
Ask = Callable[[Observations, Prior], tuple[Float, SecondOrder | None, bool]]


def run(context: Context) -> Finding:
    panel = context.panels[0]
    found = {name: _probe(context, panel, name) for name in VARIANTS}
    rows = []
    for key, title in CAPABILITIES.items():
        cells = [_word(found[name][key]) for name in VARIANTS]
        paper = [quote(ARTEFACT, key, method=name) for name in (M_SMC, D_SMC, ABI)]
        rows.append((title, *cells, *("–" if q is None else _word(bool(q.value)) for q in paper)))
    seconds = [f"{found[name]['seconds_per_case'] * 1e6:.0f} µs" for name in VARIANTS]
    rows.append(("time per case", *seconds, "–", "–", "–"))
    columns = ("capability", *VARIANTS, "M-SMC, paper", "D-SMC, paper", "ABI, paper")
    note = (
        f"Probed on {PROBED} cases of {panel} with the packaged bank, embeddings given. M-SMC and D-SMC "
        "without "
        "further words are the closed forms; 'particles' is the sampler; the recipe is the front door "
        "(`--method auto`), whose simplex posterior is D-SMC's."
    )
    table = Table("Capabilities of the variants, from the code", columns, tuple(rows), note)
    return Finding(
        (table,),
        (),
        tuple(_verdicts(found)),
        {panel: PROBED},
        (f"bank reference of {panel}",),
        found,
        context.notes,
    )


def _probe(context: Context, panel: str, name: str) -> dict[str, Any]:
    ask, observed = _asker(context, panel, name)
    k = len(context.names(panel))
    uniform = Prior.uniform(k)
    favoured = Prior(np.where(np.arange(k) == 0, FAVOUR, (1 - FAVOUR) / (k - 1)), float(k))
    p, second, traced = ask(observed, uniform)
    began = time.perf_counter()
    ask(observed, uniform)
    seconds = (time.perf_counter() - began) / len(p)
    try:
        moved: float | None = float(ask(observed, favoured)[0][:, 0].mean() - p[:, 0].mean())
    except BadInput:
        moved = None  # refused: this fitted object answers for one prior alone
    split = second is not None and bool(
        np.allclose(second.total_bits, second.aleatoric_bits + second.epistemic_bits)
        and np.all(second.epistemic_bits >= 0)
        and np.any(second.epistemic_bits > 0)
    )
    return {
        "posterior_over_labels": bool(np.allclose(p.sum(axis=1), 1)),
        "posterior_over_simplex": second is not None,
        "uncertainty_split": split,
        "prior_at_test_time": moved is not None and moved > 0,
        "sampler_per_case": traced,
        "single_forward_pass": not traced,
        "prior_moved_mass": moved,
        "seconds_per_case": seconds,
    }


def _asker(context: Context, panel: str, name: str) -> tuple[Ask, Observations]:
    whole = context.observations(panel)
    observed = Observations(whole.texts[:PROBED], whole.vectors[:PROBED], whole.keys[:PROBED])
    if name == RECIPE:
        return _front_door(context, panel), observed
    spec = Spec(panel, "abi", prior_conditioned=True) if name == ABI_PRIOR else spec_of(name, panel)
    infer = context.fitted(spec)

    def ask(observations: Observations, prior: Prior) -> tuple[Float, SecondOrder | None, bool]:
        posterior, trace = infer(observations, prior)
        return posterior.probabilities, posterior.second_order, trace is not None

    return ask, observed


def _front_door(context: Context, panel: str) -> Ask:
    from simdx.classifier import Classifier  # the front door brings everything: not for a list of titles

    spec = spec_of(RECIPE, panel)
    classifier = Classifier(context.cases(panel).source.panel, context.bank(spec))

    def ask(observations: Observations, prior: Prior) -> tuple[Float, SecondOrder | None, bool]:
        batch = classifier.infer_batch_observed(observations, prior)
        return batch.posterior, batch.second_order, batch.trace is not None

    return ask


def _verdicts(found: dict[str, dict[str, Any]]) -> list[str]:
    said = []
    wanted = [key for key in CAPABILITIES if key != "sampler_per_case"]
    whole = [name for name in VARIANTS if all(found[name][key] for key in wanted)]
    if whole:
        said.append(
            f"The paper's trade-off (no variant has every capability) does not bind: {', '.join(whole)} "
            "have all of them and need no run of a sampler."
        )
    else:
        said.append("No variant has every capability, as in the paper.")
    differing = [
        f"{name}: {title} {_word(found[name][key])}, in the paper {_word(bool(paper.value))}"
        for name in (M_SMC, D_SMC, ABI)
        for key, title in CAPABILITIES.items()
        if (paper := quote(ARTEFACT, key, method=name)) is not None and bool(paper.value) != found[name][key]
    ]
    if differing:
        said.append("Unlike the paper: " + "; ".join(differing) + ".")
    if found[ABI_PRIOR]["prior_at_test_time"] and not found[ABI]["prior_at_test_time"]:
        said.append(
            "ABI as the paper trains it refuses another prior; the same network told of the prior in "
            "training takes "
            "any, so a test-time prior is a choice of training and no limit of amortisation."
        )
    return said


def _word(yes: bool) -> str:
    return "yes" if yes else "no"
