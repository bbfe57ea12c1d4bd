"""Distribution-aware methods, with their latency (table 2)

The paper's Table 2 and Table S5: elicited fidelity, D-SMC and ABI. Latency is per case in one batch on this
machine's CPU, embedding included and apart; the paper's D-SMC calls its model inside the run, ours reads a
bank that was written once, so the two columns answer different questions and are shown side by side to say
so.
"""

from __future__ import annotations

from typing import Any

from simdx.abc.second_order import concentration_cap
from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.compare import agreement, placed, ranged, theirs
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import (
    ABI,
    D_PARTICLES,
    D_SMC,
    M_SMC,
    RECIPE,
    models_used,
    spec_of,
    theirs_name,
)
from simdx.experiments.paper.theirs import Quote
from simdx.experiments.paper.words import DOUBT, doubts
from simdx.experiments.paper.words import ours as cell
from simdx.experiments.paper.words import theirs as quoted
from simdx.experiments.paper.world import PAPER_NAMES

ORDER = 20
ARTEFACT = "distribution-aware"
METRICS = ("accuracy", "brier", "ece")
METHODS = (D_SMC, D_PARTICLES, ABI, M_SMC, RECIPE)


def run(context: Context) -> Finding:
    tables, verdicts, data = [], [], {}
    for panel in context.panels:
        rows = _rows(context, panel)
        data[panel] = rows
        tables += [_table(panel, rows), _over_banks(context, panel)]
        verdicts += _verdicts(context, panel, rows)
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, context.notes)


def _rows(context: Context, panel: str) -> list[dict[str, Any]]:
    rows = []
    for one in context.asked(panel):
        if one.method != "fidelity":
            continue
        y = context.labels(panel)[one.positions]
        scores = context.evaluate(one.probabilities, y, f"asked {panel} {one.name}")
        rows.append(_row(one.name, PAPER_ASKING[one.method], scores, one.seconds_per_case, None))
    for name in METHODS:
        spec = spec_of(name, panel)
        answers = context.answers(spec)
        seconds = answers.infer_seconds + answers.embed_seconds
        rows.append(_row(name, name, context.scores(spec), seconds, answers.infer_seconds))
    return rows


def _row(
    name: str, method: str, scores: dict[str, Any], seconds: float | None, inference: float | None
) -> dict[str, Any]:
    return {
        "name": name,
        "method": method,
        "scores": scores,
        "seconds": seconds,
        "inference_seconds": inference,
    }


def _table(panel: str, rows: list[dict[str, Any]]) -> Table:
    shown, used = [], []
    for row in rows:
        line = [row["name"], str(row["scores"]["n"])]
        for metric in METRICS:
            found = theirs(ARTEFACT, metric, panel, theirs_name(row["method"]))
            used.append(found)
            line += [cell(row["scores"], metric), quoted(found)]
        latency = theirs(ARTEFACT, "latency_s", panel, theirs_name(row["method"]))
        used.append(latency)
        alone = row["inference_seconds"]
        line += [_time(row["seconds"]), "–" if alone is None else _time(alone), _quoted_time(latency)]
        shown.append(tuple(line))
    columns = ["method", "n"] + [c for m in METRICS for c in (m, f"{m}, paper")]
    columns += ["time per case", "inference alone", "latency, paper"]
    title = f"{panel}, packaged bank, beside the paper's {PAPER_NAMES[panel]}"
    return Table(title, tuple(columns), tuple(shown), doubts(used))


def _over_banks(context: Context, panel: str) -> Table:
    lines = []
    for name in (D_SMC, ABI):
        scores = [context.scores(spec_of(name, panel, bank)) for bank in context.banks(panel)]
        line = [name, str(len(scores))]
        for metric in METRICS:
            found = theirs(ARTEFACT, metric, panel, theirs_name(name))
            line += [ranged([s[metric] for s in scores]), quoted(found)]
        lines.append(tuple(line))
    columns = ["method", "banks"] + [c for m in METRICS for c in (m, f"{m}, paper")]
    return Table(f"{panel}: mean over the simulators' banks (least–most)", tuple(columns), tuple(lines))


def _verdicts(context: Context, panel: str, rows: list[dict[str, Any]]) -> list[str]:
    by = {row["name"]: row for row in rows}
    said = []
    d, abi, m = by[D_SMC], by[ABI], by[M_SMC]
    confident = context.answers(spec_of(D_SMC, panel)).probabilities.max(axis=1).mean()
    side = "under" if confident < d["scores"]["accuracy"] else "over"
    found = theirs(ARTEFACT, "ece", panel, D_SMC)
    if found is not None:
        where = placed(d["scores"]["ece"], d["scores"]["ci"]["ece"], found.value)
        said.append(
            f"{panel}: D-SMC's ECE is {d['scores']['ece']:.3f} ({side}confident: mean top probability "
            f"{confident:.2f} at accuracy {d['scores']['accuracy']:.2f}); the paper's {found.value:.3f} lies "
            f"{where} our interval. Median tolerances over a flat prior cap the top probability at "
            f"{_cap(context, panel):.2f} here."
        )
    gap = abs(abi["scores"]["accuracy"] - d["scores"]["accuracy"])
    ratio = d["inference_seconds"] / abi["inference_seconds"]
    latencies = [theirs(ARTEFACT, "latency_s", panel, name) for name in (D_SMC, ABI)]
    beside = " and ".join(_time(q.value) for q in latencies if q is not None)
    said.append(
        f"{panel}: ABI differs from its target D-SMC by {gap:.3f} in accuracy. Per case, embeddings given, "
        "D-SMC "
        f"in closed form takes {_time(d['inference_seconds'])}, ABI {_time(abi['inference_seconds'])} and "
        "M-SMC "
        f"{_time(m['inference_seconds'])}: D-SMC costs {ratio:.0f} times ABI (the paper's two: {beside})."
    )
    for one in context.asked(panel):
        if one.method != "fidelity":
            continue
        y = context.labels(panel)[one.positions]
        same = context.probabilities(spec_of(D_SMC, panel))[one.positions]
        ours, asked = (float((p.argmax(axis=1) == y).mean()) for p in (same, one.probabilities))
        paper = [theirs(ARTEFACT, "accuracy", panel, name) for name in (D_SMC, "EF")]
        beside = " and ".join(f"{q.value:.3f}" for q in paper if q is not None)
        said.append(
            f"{panel}: D-SMC is right in {ours:.3f}, {one.name} in {asked:.3f} of the same {len(y)} cases, "
            f"{agreement(ours >= asked)} ({beside})."
        )
    if not any(row["method"] == "EF" for row in rows):
        said.append(f"{panel}: no record of elicited fidelity is at hand, so its row is missing.")
    return said


def _cap(context: Context, panel: str) -> float:
    """The largest top probability D-SMC can express on this panel."""
    return concentration_cap(len(context.names(panel)), spec_of(D_SMC, panel).populations)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _quoted_time(found: Quote | None) -> str:
    return "–" if found is None else _time(found.value) + (DOUBT if found.doubts else "")
