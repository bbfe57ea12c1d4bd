"""An evaluation on the terminal, and as one self-contained HTML page: figures, plots, groups, worst errors.

Plots are drawn from the record's stored values. Case texts appear only on the page, when the caller asks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from simdx.answer import Answer, percent
from simdx.evaluation import Evaluation
from simdx.metrics import HEADLINE
from simdx.metrics.gaps import SMALL
from simdx.panels import disclaimer
from simdx.report.page import entropy_plot, fill, ternary_plot
from simdx.report.terminal import escape
from simdx.types import Panel, entropy_bits

_NAMES = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "auroc": "Class discrimination AUROC (macro one-vs-rest)",
    "brier": "Brier score (sum over labels, 0 to 2)",
    "nll": "Negative log-likelihood (nats, floor 1e-6)",
    "ece": "ECE (10 equal-width bins, top label); the interval is that of the debiased ECE",
    "ece_debiased": "ECE, debiased",
    "classwise_ece": "Classwise ECE",
    "adaptive_ece": "Adaptive ECE",
    "smooth_ece": "Smooth ECE",
    "entropy_bits": "Mean predictive entropy (bits)",
    "error_auroc": "Error-detection AUROC",
    "aurc": "AURC",
    "e_aurc": "E-AURC",
    "risk_at_80": "Risk at 80 % coverage",
}
_DIFFERENTIAL = {
    "total_variation": "total variation",
    "cross_entropy": "cross-entropy (nats)",
    "top3_recall": "top-3 recall",
    "rank_correlation": "order of labels (Spearman)",
}
_SETS = {"split": "split", "weighted": "weighted", "class_conditional": "class-conditional"}
FEW = 30  # with fewer cases every figure is mostly chance
MOST_PAIRS, MOST_WRONG = 6, 5  # lines of a long list on the terminal


# --------------------------------------------------------------------------- figures with intervals


def figure(found: Mapping[str, Any], name: str) -> tuple[str, str]:
    value, interval = found[name], found["ci"].get(name)
    return (
        "undefined" if value is None else f"{value:.3f}",
        "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
    )


def accuracy_rows(found: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Accuracy among the first labels; no rows for a panel of few labels."""
    return [] if found is None else [(f"accuracy at {k}", *figure(found, k)) for k in found["ci"]]


def differential_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [(words, *figure(found, key)) for key, words in _DIFFERENTIAL.items()]
    words = "none of these, mass outside panel (Spearman)"
    return [*rows, (words, *figure(found["outside"], "rank_correlation"))]


def differential_notes(found: Mapping[str, Any]) -> list[str]:
    """Notes: figures that are undefined, cases left out, and reference values."""
    outside = found["outside"]["undefined"]
    notes = [f"{name}: {reason}" for name, reason in found["undefined"].items()]
    notes += [f"outside the panel, {name}: {reason}" for name, reason in outside.items()]
    if found["n_naming_no_label"]:
        notes.append(f"references that name no label of the panel, left out: {found['n_naming_no_label']}")
    if found["reference_entropy"] is not None:
        notes.append(f"the least cross-entropy there could be is {found['reference_entropy']:.3f}")
    return notes


def set_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Coverage and mean size of conformal sets, for the cases as they are and under the prior."""
    places = {"": found, "prior: ": found["at_prior"] or {}}
    return [
        (where + _SETS[kind], *figure(sets[kind], "coverage"), *figure(sets[kind], "mean_size"))
        for where, sets in places.items()
        for kind in _SETS
        if kind in sets
    ]


def set_notes(found: Mapping[str, Any]) -> list[str]:
    notes = [f"sets calibrated on {found['n_calibration']} cases ({found['calibrated_on']})"]
    for kind in ("split", "class_conditional"):
        least, always = found[kind]["least"], found[kind]["labels_always_inside"]
        share = f"{least['coverage']:.3f} of {least['n']}"
        notes.append(f"least covered by {_SETS[kind]} sets: {least['label']} ({share})")
        if always:
            notes.append(f"labels in every {_SETS[kind]} set, mostly for too few calibration cases: {always}")
    if found["at_prior"]:
        absent = found["at_prior"]["labels_without_cases"]
        without = f", {absent} of which have no cases" if absent else ""
        notes.append(f"prior: as if cases came with the prior's shares of the labels{without}")
    for field, groups in found["groups"].items():
        for value, about in groups.items():
            split, own = (f"{about[kind]['coverage']:.3f}" for kind in ("split", "mondrian"))
            said = f"covered {split}, with a threshold of its own {own}"
            notes.append(f"{field} {value} ({about['n']}): {said}")
    return notes


# Scores that separate outside cases from the others, in words.
OUTSIDE_SCORES = {
    "out_of_class": "the probability of none of these", "entropy_bits": "entropy",
    "atypicality": "how unlike simulated texts they are", "epistemic_bits": "doubt about the probabilities",
}  # fmt: skip


def none_words(found: Mapping[str, Any]) -> list[str]:
    """None of these for cases outside the panel and for its own: mean probability, share of answers."""
    if found["mean_outside"] is None or found["mean_inside"] is None:
        return []
    outside, inside = ("{} ({})".format(*figure(found, f"mean_{side}")) for side in ("outside", "inside"))
    answered, own = (f"{found[key]:.0%}" for key in ("answered_none", "answered_none_inside"))
    return [
        f"none of these: {outside} on average for them, {inside} for the panel's own cases",
        f"answered none of these: {answered} of them, {own} of the panel's own cases",
    ]


# --------------------------------------------------------------------------- the page


def render_evaluation(
    result: Evaluation,
    answers: Mapping[int, Answer] | None = None,
    *,
    panel: Panel | None = None,
    show_texts: bool = False,
) -> str:
    """The page. `answers` are full answers of the cases shown as worst errors, by their index."""
    record, p, y = result.record, result.arrays["posterior"], result.label_index
    bits, right = entropy_bits(p), p.argmax(axis=1) == y
    outside = None if result.ood_arrays is None else entropy_bits(result.ood_arrays["posterior"])
    three = len(result.labels) == 3 and len(y)
    most = math.log2(len(result.outcomes))
    return fill(
        "evaluation.html",
        title=f"simdx evaluation: {record['panel']}, {record['method']} ({record['engine']})",
        disclaimer=disclaimer(panel),
        notice=result.dataset.notice,
        names=_NAMES,
        record=record,
        dataset=result.dataset,
        curves=result.curves,
        accuracy_rows=accuracy_rows(record["accuracy_at"]),
        differential_rows=differential_rows,
        differential_notes=differential_notes,
        set_rows=set_rows,
        outside_scores=OUTSIDE_SCORES,
        set_notes=set_notes,
        none_words=none_words,
        entropy_drawing=entropy_plot(bits[right], bits[~right], outside, most),
        simplex_drawing=ternary_plot(result.arrays["among_labels"], y, result.labels) if three else "",
        gaps=record["audit"],
        small=SMALL,
        worst=list(_worst(result, answers or {}, show_texts)),
    )


def _worst(result: Evaluation, answers: Mapping[int, Answer], show_texts: bool) -> Iterator[dict[str, Any]]:
    for i in result.worst():
        case, p = result.dataset.cases[i], result.arrays["posterior"][i]
        best = int(p.argmax())
        evidence = answers[i].evidence if i in answers else ()
        yield {
            "id": case.id, "label": case.label or "", "text": case.text if show_texts else None,
            "answered": result.outcomes[best], "probability": p[best], "gold": p[result.label_index[i]],
            "evidence": [(f"{e.distance:.3f}", e.label, e.text) for e in evidence],
        }  # fmt: skip


# --------------------------------------------------------------------------- the terminal


def print_evaluation(result: Evaluation) -> None:
    """Figures, decisions and confusions; no text of a case."""
    record = result.record
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(record['panel'])}[/], {record['method']} ({record['engine']}), "
        f"{escape(record['embedder'])}, {record['n']} cases"
    )
    rows = [(name, *figure(record, name)) for name in HEADLINE]
    _print_table(
        console, ("metric", "value", "95 % interval"), [*rows, *accuracy_rows(record["accuracy_at"])]
    )
    interval = record["ci"].get("ece")
    if interval and not interval[0] <= record["ece"] <= interval[1]:
        console.print("ece: the interval excludes the part of the value that chance alone adds")
    if record["n"] < FEW:
        console.print(f"[bold]{record['n']} cases are few[/]: figures may change much with more cases")
    decisions = record["decisions"].items()
    parts = [f"{name} {d['n']} ({d['errors']} wrong)" for name, d in decisions]
    console.print(f"decisions: {', '.join(parts)}")
    _print_errors(console, result)
    if found := record["differential"]:
        against = f"against {found['n']} reference differentials", "value", "95 % interval"
        _print_table(console, against, differential_rows(found), differential_notes(found))
    if found := record["conformal"]:
        heading = f"conformal sets, {100 * found['level']:g} %"
        if found["n_calibration"] < found["level"] / (1 - found["level"]):  # every label is in every set
            console.print(f"{heading}: {found['n_calibration']} cases are too few to calibrate them on")
        else:
            headings = (heading, "coverage", "95 % interval", "mean size", "95 % interval")
            _print_table(console, headings, set_rows(found), set_notes(found))
    if found := record["ood"]:
        shown = "undefined" if found["auroc"] is None else f"{found['auroc']:.3f}"
        by = OUTSIDE_SCORES[found["score"]]
        console.print(f"none of the labels: {found['n']} cases, AUROC {shown} by {by}")
        for line in none_words(found):
            console.print(line)
    for field, groups in record["groups"].items():
        cells = []
        for value, g in groups.items():
            shares = ("undefined" if g[k] is None else f"{g[k]:.3f}" for k in ("accuracy", "ece"))
            cells.append((value, str(g["n"]), *shares, "too small" if g["too_small"] else ""))
        _print_table(console, (field, "n", "accuracy", "ece", ""), cells)
    for name, reason in record["undefined"].items():
        console.print(f"{name}: {reason}")


def _print_errors(console: Console, result: Evaluation) -> None:
    """Confusions of labels, and wrong cases by id; case texts are not shown."""
    table, labels = result.confusion(), result.outcomes
    pairs = [(int(table[i, j]), i, j) for i, j in np.argwhere(table) if i != j]
    if not pairs:
        console.print("every case was answered correctly")
        return
    console.print("confused outcomes:")
    for n, i, j in sorted(pairs, key=lambda pair: -pair[0])[:MOST_PAIRS]:
        console.print(f"  {n:4} of {int(table[i].sum())} {escape(labels[i])} → {escape(labels[j])}")
    console.print("wrong answers, the most confident first:")
    for i in result.worst(MOST_WRONG):
        case, p = result.dataset.cases[i], result.arrays["posterior"][i]
        best = int(p.argmax())
        said = f"{escape(case.label or '')}, answered {escape(labels[best])} {percent(float(p[best]))}"
        console.print(f"  {escape(case.id)}: {said}")
    if (left := sum(n for n, *_ in pairs) - MOST_WRONG) > 0:
        console.print(f"  and {left} more: --out writes a row for each case")


def _print_table(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    table = Table(*map(escape, headings), box=None)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    for line in notes:
        console.print(escape(line))
