"""Post-hoc calibration of a model's own confidence against inference (table S19)

The paper's Table S19: temperature scaling mends the confidence of a fixed predictor and cannot mend its
answers. A fifth of the cases fits the temperature, the rest is scored; rows of one block share their cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.baselines.posthoc import temperature_scaled
from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import M_SMC, RECIPE, models_used, own_bank, spec_of
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.experiments.paper.words import doubts
from simdx.experiments.paper.words import ours as cell
from simdx.experiments.paper.words import theirs as quoted
from simdx.types import Float, Int

ORDER = 460
ARTEFACT = "post-hoc-calibration"
METRICS = ("accuracy", "auroc", "brier", "ece")
HEADINGS = ("accuracy", "class AUROC", "Brier", "ECE")
LEAST_CASES = 10  # fewer cannot be split into fitting and scoring


def run(context: Context) -> Finding:
    tables, verdicts, data = [], [], {}
    for panel in context.panels:
        blocks = _blocks(context, panel)
        data[panel] = blocks
        tables.append(_table(panel, blocks))
        verdicts += _verdicts(panel, blocks)
        if not any(block["asked"] for block in blocks):
            verdicts.append(
                f"{panel}: no record of asking is at hand on enough cases; only inference is scaled."
            )
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, context.notes)


def _blocks(context: Context, panel: str) -> list[dict[str, Any]]:
    everyone = np.arange(context.cases(panel).n)
    blocks = [_block(context, panel, everyone, "reference", {}, asked=False)]
    by_model: dict[str, list[Any]] = {}
    for one in context.asked(panel):
        if len(one.positions) >= LEAST_CASES:
            by_model.setdefault(one.simulator, []).append(one)
    for simulator, ways in by_model.items():
        # Models may have been asked about a subset; every row of the block is scored on it.
        shared = ways[0].positions
        answers = {
            PAPER_ASKING[way.method]: way.probabilities
            for way in ways
            if np.array_equal(way.positions, shared)
        }
        bank = own_bank(context, panel, ways[0])
        blocks.append(_block(context, panel, shared, bank, answers, asked=True, simulator=simulator))
    return blocks


def _block(
    context: Context,
    panel: str,
    positions: Int,
    bank: str,
    answers: dict[str, Float],
    *,
    asked: bool,
    simulator: str = "",
) -> dict[str, Any]:
    cases = context.cases(panel)
    dataset = cases.dataset.subset(positions.tolist())
    y = context.labels(panel)[positions]
    every = dict(answers)
    for name in (M_SMC, RECIPE):
        every[name] = context.probabilities(spec_of(name, panel, bank))[positions]
    rows: dict[str, Any] = {}
    for name, p in every.items():
        scaled = temperature_scaled(p, dataset, cases.names, seed=context.seed)
        kept = scaled.kept
        about = f"{ARTEFACT} {panel} {simulator} {bank} {name}"
        rows[name] = {"scores": context.evaluate(p[kept], y[kept], about), "temperature": None}
        rows[f"{name} + TS"] = {
            "scores": context.evaluate(scaled.probabilities, y[kept], f"{about} scaled"),
            "temperature": scaled.temperature.value,
        }
    title = f"asked {simulator}, simulations of {bank}" if asked else f"simulations of {bank}"
    return {"title": title, "asked": asked, "n": len(y), "rows": rows}


def _table(panel: str, blocks: list[dict[str, Any]]) -> Table:
    shown, used = [], []
    for block in blocks:
        for name, row in block["rows"].items():
            line = [name, block["title"], str(row["scores"]["n"])]
            line.append("–" if row["temperature"] is None else f"{row['temperature']:.2f}")
            for metric in METRICS:
                found = quote(ARTEFACT, metric, data=data_of_panel(panel), method=name)
                used.append(found)
                line += [cell(row["scores"], metric), quoted(found)]
            shown.append(tuple(line))
    columns = ["method", "models", "n", "T"] + [c for h in HEADINGS for c in (h, f"{h}, paper")]
    return Table(f"{panel}: before and after temperature scaling", tuple(columns), tuple(shown), doubts(used))


def _verdicts(panel: str, blocks: list[dict[str, Any]]) -> list[str]:
    said = []
    for block in blocks:
        rows = block["rows"]
        names = [name for name in rows if not name.endswith("+ TS")]
        changed = [
            n for n in names if rows[n]["scores"]["accuracy"] != rows[f"{n} + TS"]["scores"]["accuracy"]
        ]
        for name in names:
            before, after = rows[name]["scores"], rows[f"{name} + TS"]["scores"]
            if name in ("ML", M_SMC):
                said.append(
                    f"{panel}, {block['title']}: scaling moves {name}'s ECE from {before['ece']:.3f} to "
                    f"{after['ece']:.3f} and its accuracy from {before['accuracy']:.3f} to "
                    f"{after['accuracy']:.3f}"
                    + (" (ties broken by rounding)." if name in changed else ", as it must stay.")
                )
        if "ML" in rows:
            ml, m = rows["ML + TS"]["scores"], rows[M_SMC]["scores"]
            data = data_of_panel(panel)
            paper = [quote(ARTEFACT, "accuracy", data=data, method=name) for name in (M_SMC, "ML + TS")]
            figures = [f"{q.value:.3f}" for q in paper if q is not None]
            beside = f"; the paper: {' against '.join(figures)}" if figures else ""
            better = "more" if m["accuracy"] > ml["accuracy"] else "not more"
            said.append(
                f"{panel}, {block['title']}: M-SMC without labels is {better} accurate than scaled logits "
                f"({m['accuracy']:.3f} against {ml['accuracy']:.3f}{beside})."
            )
    return said
