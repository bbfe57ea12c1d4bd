"""Fidelity of the amortised network to what it stands for (table S3).

A network for each panel, trained on simulated text alone, is compared with D-SMC (2,000 draws, two seeds:
what the seeds disagree on, no network can know) and with M-SMC, case by case on cases it has never seen. The
paper compares on all of its cases, the training ones among them. Two objectives: ours, which keeps
D-SMC's mean and its epistemic bits, and the paper's, the Dirichlet density at the posterior mean, whose
optimum is α₀ → ∞.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from simdx.abc.space import Space
from simdx.amortised import fidelity
from simdx.amortised.network import load
from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import interval, mean_interval
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.experiments.paper.words import DOUBT, doubts, theirs
from simdx.report.plots import Estimate, interval_plot
from simdx.types import Float

ORDER = 320
NAME = "abi-fidelity"
OBJECTIVES: tuple[tuple[str, Literal["kl", "mean"]], ...] = (
    ("own objective", "kl"),
    ("the paper's objective", "mean"),
)
DRAWS = {"smoke": 200, "full": fidelity.DRAWS}


def measure(comparison: fidelity.Comparison, m_smc: Float, label: Any) -> dict[str, Any]:
    """The figures of the paper's table, with agreement with M-SMC beside them; no intervals."""
    agrees = comparison.abi.mean.argmax(axis=1) == m_smc.argmax(axis=1)
    found = fidelity.summary(comparison, label)
    q1, median, q3 = np.quantile(comparison.kl, [0.25, 0.5, 0.75])
    return found | {
        "kl_quartiles": [float(q1), float(median), float(q3)],
        "alpha0_median": {
            "abi": float(np.median(comparison.abi.alpha0)),
            "d-smc": float(np.median(comparison.dsmc.alpha0)),
        },
        "agreement_with_m_smc": float(agrees.mean()),
        "correlation_with_m_smc": _correlation(comparison.abi.mean, m_smc),
    }


def run(context: Context) -> Finding:
    rows = [_one(context, panel, *objective) for panel in context.panels for objective in OBJECTIVES]
    quotes = [
        quote(NAME, q, data="multicare", method="ABI")
        for q in ("agreement", "correlation_of_means", "kl_nats", "alpha0", "parameters")
    ]
    return Finding(
        tables=(_table(context, rows, doubts(quotes)), _cost_table(rows)),
        figures=(_figure(rows),),
        verdicts=tuple(line for panel in context.panels for line in _verdicts(panel, rows)),
        n=context.n,
        models=("reference bank", *dict.fromkeys(row["embedder"] for row in rows)),
        data={f"{row['panel']}, {row['objective']}": row for row in rows},
        notes=context.notes,
    )


def _one(context: Context, panel: str, name: str, objective: Literal["kl", "mean"]) -> dict[str, Any]:
    spec = Spec(panel, "abi", objective=objective)
    network = load(context.network(spec))
    space = Space.fit(context.material(spec).embedded, centre=False)
    vectors = context.observations(panel).vectors
    compared = fidelity.compare(
        network, space, vectors, context.prior(spec), draws=DRAWS[context.scale], seed=context.seed
    )
    found = measure(compared, context.probabilities(Spec(panel, "m-smc")), context.labels(panel))
    rng, resamples = context.rng(NAME, panel, objective), context.size.resamples
    ratio = compared.abi.alpha0 / compared.dsmc.alpha0
    found["ci"] = {
        "agreement": mean_interval(compared.agree.astype(float), rng, resamples),
        "kl_nats": interval(np.median, compared.kl, rng=rng, resamples=resamples),
        "alpha0_ratio": interval(np.median, ratio, rng=rng, resamples=resamples),
        "correlation_of_means": interval(
            lambda pairs: _correlation(pairs[:, 0], pairs[:, 1]),
            np.stack([compared.abi.mean, compared.dsmc.mean], axis=1),
            rng=rng,
            resamples=resamples,
        ),
    }
    return found | {
        "panel": panel,
        "objective": name,
        "embedder": network.card.embedder,
        "parameters": int(sum(w.size + b.size for w, b in network.layers)),
        "training": dict(network.card.metrics),
    }


def _correlation(a: Float, b: Float) -> float | None:
    x, y = np.asarray(a).ravel(), np.asarray(b).ravel()
    if len(x) < 3 or np.std(x) == 0 or np.std(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


# --------------------------------------------------------------------------- tables


def _table(context: Context, rows: list[dict[str, Any]], note: str) -> Table:
    out = []
    for row in rows:
        ci = row["ci"]
        differ = row["disagreement"]
        right = differ["accuracy"]
        out.append(
            (
                row["panel"],
                f"ours, {row['objective']}",
                f"{number(row['agreement'], ci['agreement'])} ({number(row['agreement_between_seeds'])})",
                number(row["correlation_of_means"], ci["correlation_of_means"], 4),
                number(row["kl_nats"]["median"], row["kl_quartiles"][::2]),
                "{abi:.0f} / {d-smc:.0f}".format(**row["alpha0_median"]),
                number(row["alpha0_ratio"]["median"], ci["alpha0_ratio"], 2),
                str(differ["n"]),
                "–" if not right else f"{right['abi']:.2f}, {right['d-smc']:.2f}",
                number(row["agreement_with_m_smc"]),
            )
        )
    for panel in context.panels:
        data = data_of_panel(panel)
        about = {q: quote(NAME, q, data=data, method="ABI") for q in _QUOTED}
        if not any(about.values()):
            continue
        abi, dsmc = about["abi_right_where_they_differ"], about["dsmc_right_where_they_differ"]
        right_there = f"{abi.value:.2f}, {dsmc.value:.2f}" if abi and dsmc else "–"
        bound = "over " if data == "oral" and about["alpha0"] else ""
        out.append(
            (
                panel, "paper", theirs(about["agreement"]), theirs(about["correlation_of_means"]),
                theirs(about["kl_nats"]), bound + _alpha0(about["alpha0"]), "–", "–", right_there, "–",
            )
        )  # fmt: skip
    return Table(
        "The network against D-SMC, case by case",
        (
            "panel",
            "whose",
            "top label agrees (two seeds of D-SMC)",
            "r of means",
            "KL(D-SMC ‖ network), nats, median [quartiles]",
            "α₀ median, network / D-SMC",
            "α₀ ratio, median",
            "cases where they differ",
            "right there: network, D-SMC",
            "top label agrees with M-SMC",
        ),
        tuple(out),
        "Ours on cases no network saw; 95 % bootstrap over cases except for quartiles. " + note,
    )


_QUOTED = (
    "agreement",
    "correlation_of_means",
    "kl_nats",
    "alpha0",
    "abi_right_where_they_differ",
    "dsmc_right_where_they_differ",
)


def _alpha0(found: Any) -> str:
    if found is None:
        return "–"
    if found.high is None:
        return f"{found.value:.0f}"
    return f"{found.low:.0f} to {found.high:.0f}" + (DOUBT if found.doubts else "")


def _cost_table(rows: list[dict[str, Any]]) -> Table:
    out = [
        (
            row["panel"],
            f"ours, {row['objective']}",
            f"{row['parameters']:,}",
            f"{row['training'].get('observations', 0):,}",
            f"{row['training'].get('seconds', 0):.0f}",
        )
        for row in rows
    ]
    size = quote(NAME, "parameters", data="multicare", method="ABI")
    spent = quote(NAME, "training_s", data="multicare", method="ABI")
    if size and spent:
        span = f"{spent.low:.0f} to {spent.high:.0f}"
        out.append(("MultiCaRe", "paper", f"{size.value:,.0f}{DOUBT}", "not given", span))
    return Table(
        "What a network costs to train",
        ("panel", "whose", "parameters", "training observations", "seconds"),
        tuple(out),
        "Seconds of wall clock on this machine, the targets included; the first layer of ours is folded from "
        "the coordinates against the class means, so it is counted as it is used.",
    )


def _figure(rows: list[dict[str, Any]]) -> Figure:
    shown = [
        Estimate(
            f"{row['panel']}, {row['objective']}",
            float(np.log10(row["alpha0_ratio"]["median"])),
            float(np.log10(row["alpha0_ratio"]["q10"])),
            float(np.log10(row["alpha0_ratio"]["q90"])),
            style=0 if row["objective"] == OBJECTIVES[0][0] else 1,
        )
        for row in rows
    ]
    return Figure(
        "alpha0-ratio",
        interval_plot(
            "Concentration of the network over D-SMC's", "log10 of α₀ of the network / α₀ of D-SMC", shown
        ),
        "How much more concentrated than D-SMC the network is: median and 80 % of the cases, in powers of "
        "ten; 0 is faithful, 2 is a hundredfold.",
    )


# --------------------------------------------------------------------------- sentences


def _verdicts(panel: str, rows: list[dict[str, Any]]) -> list[str]:
    own, paper = (next(r for r in rows if r["panel"] == panel and r["objective"] == o) for o, _ in OBJECTIVES)
    theirs_agree = quote(NAME, "agreement", data=data_of_panel(panel), method="ABI")
    said = f"{panel}: the network names D-SMC's label on {own['agreement']:.1%} of unseen cases "
    said += f"(two seeds of D-SMC agree on {own['agreement_between_seeds']:.1%})"
    if theirs_agree is not None:
        said += f"; the paper reports {theirs_agree.value:.0%}, training cases included"
    lines = [said + "."]
    concentrated = paper["alpha0_ratio"]["median"]
    target = own["alpha0_median"]["d-smc"]
    if concentrated > 2:
        lines.append(
            f"{panel}: trained on the paper's objective the network is {concentrated:.0f} times as "
            f"concentrated as D-SMC, whose own α₀ is {target:.0f}: not the targets are near-degenerate, as "
            "the paper supposes, but the objective drives the network there. With ours the ratio is "
            f"{own['alpha0_ratio']['median']:.2f}."
        )
    else:
        lines.append(
            f"{panel}: trained on the paper's objective the network is {concentrated:.2f} times as "
            f"concentrated as D-SMC (α₀ {target:.0f}), with ours {own['alpha0_ratio']['median']:.2f} times: "
            "no over-concentration at this size of training."
        )
    return lines
