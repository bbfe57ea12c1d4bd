"""Run time and the budget of LLM calls (table S14)

The paper's Table S14: its D-SMC made 2,400 calls for 300 cases and took 14 s a case. Here a bank is written
once and every later case costs no call. Shown: what a case costs in time, how many fresh simulations the
paper's own sampler would draw for it, what the banks cost to write, and after how many cases a bank is
cheaper than asking.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import (
    ABI,
    D_PARTICLES,
    D_SMC,
    M_PARTICLES,
    M_SMC,
    M_SOFT,
    RECIPE,
    models_used,
    spec_of,
    theirs_name,
)
from simdx.experiments.paper.spec import REFERENCE, Spec
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.metrics.second_order import spread

ORDER = 410
ARTEFACT = "runtime"
METHODS = (M_SMC, M_SOFT, M_PARTICLES, D_SMC, D_PARTICLES, ABI, RECIPE)


def run(context: Context) -> Finding:
    tables, verdicts = [], []
    data: dict[str, Any] = {}
    for panel in context.panels:
        times = _times(context, panel)
        drawn = _fresh_simulations(context, panel)
        budget = _budget(context, panel)
        data[panel] = {"times": times, "fresh_simulations": drawn, "budget": budget}
        tables += [_times_table(panel, times), _budget_table(panel, budget, times, drawn)]
        verdicts += _verdicts(panel, times, drawn, budget)
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, context.notes)


def _times(context: Context, panel: str) -> dict[str, dict[str, float]]:
    found = {}
    for name in METHODS:
        answers = context.answers(spec_of(name, panel))
        found[name] = {
            "embed_seconds": answers.embed_seconds,
            "infer_seconds": answers.infer_seconds,
            "fit_seconds": answers.fit_seconds,
        }
    return found


def _fresh_simulations(context: Context, panel: str) -> dict[str, Any]:
    """Proposals of the particle sampler per case: each would be a call if simulations were fresh."""
    infer = context.fitted(spec_of(M_PARTICLES, panel))
    _, trace = infer(context.observations(panel), context.prior(spec_of(M_PARTICLES, panel)))
    assert trace is not None
    # Cases that stopped early repeat their last row: only their own populations count.
    own = np.arange(trace.simulations.shape[0])[:, None] < trace.populations[None, :]
    return spread((trace.simulations * own).sum(axis=0)).as_dict()


def _budget(context: Context, panel: str) -> dict[str, Any]:
    banks = {}
    for name in (REFERENCE, *context.models(panel)):
        bank = context.bank(Spec(panel, "", name))
        rejected = sum(bank.rejected.values())
        banks[name] = {
            "simulations": len(bank.texts),
            "background": len(bank.background),
            "rejected": rejected,
        }
    asked = {
        one.name: {"calls_per_case": one.calls_per_case, "seconds_per_case": one.seconds_per_case}
        for one in context.asked(panel)
    }
    return {"banks": banks, "asked": asked}


def _times_table(panel: str, times: dict[str, dict[str, float]]) -> Table:
    rows = []
    for name, t in times.items():
        paper = quote(ARTEFACT, "s_per_case", data=data_of_panel(panel), method=theirs_name(name) or "")
        whole = t["embed_seconds"] + t["infer_seconds"]
        rows.append(
            (
                name,
                f"{t['fit_seconds']:.2f} s",
                _micro(t["embed_seconds"]),
                _micro(t["infer_seconds"]),
                f"{1 / whole:,.0f}",
                "0",
                "–" if paper is None else f"{paper.value:.2f} s",
            )
        )
    columns = (
        "method",
        "fit, once",
        "embedding",
        "inference",
        "cases per second",
        "LLM calls per case",
        "paper",
    )
    note = "Per case, all cases in one batch, on this machine's CPU; ABI's training is not in its fit."
    return Table(f"{panel}: time", columns, tuple(rows), note)


def _budget_table(panel: str, budget: dict[str, Any], times: dict[str, Any], drawn: dict[str, Any]) -> Table:
    rows = []
    for name, bank in budget["banks"].items():
        calls = bank["simulations"] + bank["background"] + bank["rejected"]
        rows.append((f"bank {name}", f"{calls} at least, once", "0", "–", "–"))
    for name, one in budget["asked"].items():
        calls = one["calls_per_case"]
        seconds = one["seconds_per_case"]
        bank = budget["banks"][REFERENCE]["simulations"]
        even = "–" if not calls else f"after {int(np.ceil(bank / calls))} cases"
        row = (
            name,
            "0",
            "–" if calls is None else f"{calls:.1f}",
            "–" if seconds is None else f"{seconds:.1f} s",
            even,
        )
        rows.append(row)
    live = f"{drawn['median']:.0f} ({drawn['q1']:.0f}–{drawn['q3']:.0f})"
    rows.append((f"{M_PARTICLES} with fresh simulations", "0", live, "–", "–"))
    paper = {
        q: quote(ARTEFACT, q, data=data_of_panel(panel), method=D_SMC)
        for q in ("calls_per_case", "s_per_case")
    }
    if paper["calls_per_case"] is not None and paper["s_per_case"] is not None:
        calls, seconds = (paper[q].value for q in ("calls_per_case", "s_per_case"))  # type: ignore[union-attr]
        rows.append(("D-SMC, paper", "–", f"{calls:.1f}", f"{seconds:.1f} s", "–"))
    columns = ("what", "calls, once", "calls per case", "model time per case", "the packaged bank is cheaper")
    note = "Fresh simulations: median (quartiles) over cases of the sampler's proposals, S = 100, T = 5."
    return Table(f"{panel}: LLM calls", columns, tuple(rows), note)


def _verdicts(
    panel: str, times: dict[str, dict[str, float]], drawn: dict[str, Any], budget: dict[str, Any]
) -> list[str]:
    d = times[D_SMC]["infer_seconds"] + times[D_SMC]["embed_seconds"]
    paper = quote(ARTEFACT, "s_per_case", data="oral", method=D_SMC)
    calls = quote(ARTEFACT, "calls_per_case", data="oral", method=D_SMC)
    said = []
    if paper is not None and calls is not None:
        said.append(
            f"{panel}: a case costs {_micro(d)} with D-SMC over a bank, its embedding included, and no "
            "call; the paper "
            f"reports {paper.value:.1f} s and {calls.value:g} calls."
        )
        said.append(
            f"{panel}: with a fresh simulation per proposal M-SMC's sampler would draw "
            f"{drawn['median']:.0f} for a case "
            f"(median), {drawn['median'] / calls.value:.0f} times the {calls.value:g} calls the paper "
            "reports for D-SMC."
        )
    return said


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:,.1f} ms"
