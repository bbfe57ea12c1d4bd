"""An evaluation as one self-contained HTML page: figures with intervals, plots, groups, worst errors.

Plots are drawn from the record's stored values. Blue and orange differ in lightness as well as hue, and marks
differ in shape, so that nothing rests on colour alone. Case texts appear only when the caller asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from simdx.answer import Answer
from simdx.evaluation import Evaluation
from simdx.metrics.gaps import Gap
from simdx.metrics.subgroups import SMALL
from simdx.report import figures
from simdx.report.axes import Axes
from simdx.report.page import render, table
from simdx.types import Float, Int, Panel, entropy_bits

_NAMES = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "auroc": "Class discrimination AUROC (macro one-vs-rest)",
    "brier": "Brier score (sum over labels, 0 to 2)",
    "nll": "Negative log-likelihood (nats, floor 1e-6)",
    "ece": "ECE (10 equal-width bins, top label)",
    "classwise_ece": "Classwise ECE",
    "adaptive_ece": "Adaptive ECE",
    "smooth_ece": "Smooth ECE",
    "entropy_bits": "Mean predictive entropy (bits)",
    "error_auroc": "Error-detection AUROC",
    "aurc": "AURC",
    "e_aurc": "E-AURC",
    "risk_at_80": "Risk at 80 % coverage",
}


def render_evaluation(
    result: Evaluation,
    answers: Mapping[int, Answer] | None = None,
    *,
    panel: Panel | None = None,
    show_texts: bool = False,
) -> str:
    """The page. `answers` are full answers of the cases shown as worst errors, by their index."""
    record = result.record
    title = f"simdx evaluation: {record['panel']}, {record['method']} ({record['engine']})"
    parts = [
        f"<style>{_CSS}</style>",
        f"<p>{record['n']} cases (data set '{escape(result.dataset.name)}'), {record['k']} labels; embedder "
        f"{escape(record['embedder'])}; bank {escape(record['provenance']['bank'])}; "
        f"version {escape(record['provenance']['version'])}.</p>",
        _headline(record),
        "<h2>Calibration</h2>",
        _figure(reliability_plot(result.curves["reliability"]), _RELIABILITY),
        "<h2>Selective prediction</h2>",
        _figure(risk_plot(result.curves["risk_coverage"]), _RISK),
        _strata(result.curves["strata"]),
        "<h2>Confusion</h2>",
        _confusion(result.curves["confusion"]),
        "<h2>Entropy</h2>",
        _figure(_entropy_plot(result), _ENTROPY),
    ]
    if len(result.labels) == 3 and len(result.label_index):
        picture = ternary_plot(result.arrays["posterior"], result.label_index, result.labels)
        parts += ["<h2>Simplex</h2>", _figure(picture, _TERNARY)]
    parts += [
        _differential(record["differential"]),
        _sets(record["conformal"]),
        _ood(record["ood"]),
        _groups(record["groups"]),
        _audit(record["audit"]),
        _worst(result, answers or {}, show_texts),
    ]
    return render(title, [], panel=panel, notice=result.dataset.notice, preface="".join(parts))


# --------------------------------------------------------------------------- plots


def reliability_plot(bins: Mapping[str, Any]) -> str:
    axes = Axes("Reliability diagram", "confidence of the top label", "share correct")
    edges = bins["edges"]
    for i, n in enumerate(bins["n"]):
        if n:
            words = f"{n} cases: confidence {bins['confidence'][i]:.3f}, correct {bins['accuracy'][i]:.3f}"
            axes.bar(edges[i] + 0.005, edges[i + 1] - 0.005, bins["accuracy"][i], "rest", words)
    axes.line([0, 1], [0, 1], "ideal")
    largest = max([1, *bins["n"]])
    for i, n in enumerate(bins["n"]):
        if n:
            axes.dot(bins["confidence"][i], bins["accuracy"][i], "point", 3 + 6 * math.sqrt(n / largest))
    return axes.svg()


def risk_plot(curve: Mapping[str, Sequence[float]]) -> str:
    top = max([0.05, *curve["risk"]])
    axes = Axes("Risk–coverage curve", "coverage (most certain first)", "error rate", y=(0, top))
    axes.line(curve["coverage"], curve["risk"], "curve")
    return axes.svg()


def entropy_plot(correct: Float, wrong: Float, outside: Float | None, maximum: float) -> str:
    """Shares per band of entropy: bars for correct, a line for wrong, a dashed line for out of class."""
    edges = np.linspace(0, maximum, 21)
    middles = (edges[:-1] + edges[1:]) / 2
    shares = [np.histogram(v, edges)[0] / max(len(v), 1) for v in (correct, wrong)]
    if outside is not None:
        shares.append(np.histogram(outside, edges)[0] / max(len(outside), 1))
    top = max(0.05, *(float(s.max()) for s in shares))
    axes = Axes("Entropy of the posterior", "entropy (bits)", "share of cases", x=(0, maximum), y=(0, top))
    for i, share in enumerate(shares[0]):
        axes.bar(edges[i], edges[i + 1], float(share), "rest")
    axes.line(middles.tolist(), shares[1].tolist(), "wrong")
    if outside is not None:
        axes.line(middles.tolist(), shares[2].tolist(), "outside")
    return axes.svg()


def ternary_plot(p: Float, y: Int, labels: Sequence[str]) -> str:
    """Every case's posterior in the triangle: circles where it was right, crosses where it was wrong."""
    side, left, top = 340, 90, 34
    height = side * math.sqrt(3) / 2
    corners = np.array([[left, top + height], [left + side, top + height], [left + side / 2, top]])
    marks = []
    for (x, v), right in zip(p @ corners, p.argmax(axis=1) == y, strict=True):
        if right:
            marks.append(f'<circle cx="{x:.1f}" cy="{v:.1f}" r="2.5" class="draw"/>')
        else:
            path = f"M{x - 4:.1f} {v - 4:.1f}l8 8m0 -8l-8 8"
            marks.append(f'<path d="{path}" class="cross"/>')
    names = "".join(
        f'<text x="{x:.0f}" y="{v + dy:.0f}" class="tick-x">{escape(name)}</text>'
        for name, (x, v), dy in zip(labels, corners, (20, 38, -10), strict=True)
    )
    frame = "M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in corners) + "Z"
    return (
        f'<svg viewBox="0 0 {side + 2 * left} {height + 80:.0f}" width="{side + 2 * left}" role="img" '
        'aria-label="Posteriors on the simplex" xmlns="http://www.w3.org/2000/svg">'
        f'<title>Posteriors on the simplex</title><path d="{frame}" class="frame"/>'
        f"{''.join(marks)}{names}</svg>"
    )


# --------------------------------------------------------------------------- parts of the page


def _headline(record: Mapping[str, Any]) -> str:
    rows = []
    for key, name in _NAMES.items():
        rows.append((name, *figures.figure(record, key), record["undefined"].get(key, "")))
    for name, value, around in figures.accuracy_rows(record["accuracy_at"]):
        rows.append((name.capitalize(), value, around, ""))
    return "<h2>Figures</h2>" + table(("metric", "value", "95 % bootstrap interval", "note"), rows)


def _strata(strata: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (f"{s['low_bits']:.2f} to {s['high_bits']:.2f}", str(s["n"]), _number(s["accuracy"])) for s in strata
    ]
    return table(("entropy band (bits)", "cases", "accuracy"), rows)


def _confusion(found: Mapping[str, Any]) -> str:
    labels, counts = found["labels"], np.asarray(found["counts"])
    totals = np.maximum(counts.sum(axis=1), 1)
    head = "".join(f"<th>{escape(label)}</th>" for label in labels)
    body = ""
    for i, label in enumerate(labels):
        cells = "".join(
            f'<td class="cell" style="--share:{counts[i, j] / totals[i]:.3f}">{counts[i, j]}</td>'
            for j in range(len(labels))
        )
        body += f"<tr><th>{escape(label)}</th>{cells}</tr>"
    return (
        f"<table class='confusion'><thead><tr><th>gold ↓ predicted →</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _entropy_plot(result: Evaluation) -> str:
    p = result.arrays["posterior"]
    bits = entropy_bits(p)
    right = p.argmax(axis=1) == result.label_index
    outside = None if result.ood_arrays is None else entropy_bits(result.ood_arrays["posterior"])
    return entropy_plot(bits[right], bits[~right], outside, math.log2(len(result.labels)))


def _differential(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = figures.differential_rows(found)
    return (
        f"<h2>Reference differentials</h2><p>Posteriors of {found['n']} cases against the reference's own "
        "distribution, restricted to the panel's labels and renormalised.</p>"
        + table(("figure", "value", "95 % bootstrap interval"), rows)
        + _lines(figures.differential_notes(found))
    )


def _sets(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    headings = ("sets", "coverage", "95 % bootstrap interval", "mean size", "95 % bootstrap interval")
    return (
        f"<h2>Conformal sets</h2><p>Asked for: {100 * found['level']:g} % coverage.</p>"
        + table(headings, figures.set_rows(found))
        + _lines(figures.set_notes(found))
    )


def _lines(notes: Sequence[str]) -> str:
    return "".join(f"<p>{escape(note[:1].upper() + note[1:])}.</p>" for note in notes)


def _ood(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [(name, _number(value)) for name, value in found["scores"].items()]
    kinds = [(kind, str(v["n"]), _number(v["auroc"])) for kind, v in found["by"].items()]
    return (
        f"<h2>Out of class</h2><p>{found['n']} cases of no label of the panel, mean entropy "
        f"{found['entropy_bits']:.2f} bits; detected by {escape(found['score'])}. Being drawn towards the "
        f"prior adds {found['in_class_rise_bits']:.2f} bits to the answers of the panel's own cases.</p>"
        + _lines(figures.none_words(found))
        + table(("score", "AUROC"), rows)
        + (table(("kind", "cases", "AUROC"), kinds) if kinds else "")
    )


def _groups(groups: Mapping[str, Mapping[str, Any]]) -> str:
    out = []
    for name, found in groups.items():
        rows = []
        for value, g in found.items():
            warning = "too few cases to say anything" if g["too_small"] else ""
            figures = [_with_interval(g, key) for key in ("accuracy", "ece", "error_auroc", "e_aurc")]
            rows.append((value, str(g["n"]), *figures, warning))
        headings = (name, "cases", "accuracy", "ECE", "error AUROC", "E-AURC", "")
        out.append(f"<h2>By {escape(name)}</h2>" + table(headings, rows))
    return "".join(out)


def _audit(rows: Sequence[Mapping[str, Any]]) -> str:
    return gaps_html([Gap(**{k: v for k, v in row.items() if k != "gap"}) for row in rows])


def _worst(result: Evaluation, answers: Mapping[int, Answer], show_texts: bool) -> str:
    worst = result.worst()
    if not worst:
        return "<h2>Worst confident errors</h2><p>No case was misclassified.</p>"
    out = ["<h2>Worst confident errors</h2>"]
    for i in worst:
        case, p = result.dataset.cases[i], result.arrays["posterior"][i]
        best = int(p.argmax())
        gold = float(p[result.label_index[i]])
        out.append(
            f"<h3>{escape(case.id)}</h3><p>Answered <b>{escape(result.labels[best])}</b> with probability "
            f"{p[best]:.3f}; the label is <b>{escape(case.label or '')}</b>, given {gold:.3f}.</p>"
        )
        if show_texts:
            out.append(f"<blockquote>{escape(case.text)}</blockquote>")
        answer = answers.get(i)
        if answer is not None and answer.evidence:
            rows = [(f"{e.distance:.3f}", e.label, e.text) for e in answer.evidence]
            out.append("<p>Nearest simulated descriptions:</p>" + table(("distance", "label", "text"), rows))
    return "".join(out)


def _figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _with_interval(group: Mapping[str, Any], key: str) -> str:
    interval = group["ci"].get(key)
    return _number(group[key]) + ("" if not interval else f" ({interval[0]:.3f} to {interval[1]:.3f})")


_RELIABILITY = (
    "Bars and dots: share of correct answers in each bin of confidence; a dot's area grows with its cases. "
    "On the dashed line confidence is what it says."
)
_RISK = "Error rate among the most certain cases, by predictive entropy; tied cases count as one block."
_ENTROPY = "Bars: correct answers. Solid line: wrong answers. Dashed line: out-of-class cases, where given."
_TERNARY = "Each case's posterior. Circles: answered correctly. Crosses: wrong."

_CSS = """
.grid{stroke:var(--line);stroke-width:.6}.tick-x{text-anchor:middle;font-size:12px!important}
.tick-y{text-anchor:end;font-size:12px!important}.frame{fill:none;stroke:var(--soft)}
.ideal{fill:none;stroke:var(--soft);stroke-dasharray:5 4;stroke-width:1.5}
.curve,.wrong,.outside{fill:none;stroke-width:2.2}.curve{stroke:var(--lead)}.wrong{stroke:var(--warm)}
.outside{stroke:var(--violet);stroke-dasharray:7 4}.point{fill:var(--lead);stroke:var(--paper)}
.cross{stroke:var(--warm);stroke-width:1.8;fill:none}
.confusion .cell{text-align:right;font-variant-numeric:tabular-nums;
background:color-mix(in srgb,var(--lead) calc(var(--share)*55%),transparent)}
"""


def gaps_html(gaps: Sequence[Gap], correction: str = "holm") -> str:
    """Gaps between subgroups as a section of a report page."""
    if not gaps:
        return ""
    named = {"holm": "Holm", "bh": "Benjamini–Hochberg"}[correction]
    head = ("field", "group", "n", "metric", "group", "others", "gap", "95 % interval", "corrected p")
    rows = []
    for g in gaps:
        interval = "–" if g.low is None else f"{g.low:+.3f} to {g.high:+.3f}"
        cells = (
            g.field, g.value, f"{g.n}{' (too few)' if g.too_small else ''}", g.metric.replace("_", " "),
            _cell(g.inside), _cell(g.outside), _cell(g.gap, "+.3f"), interval, _cell(g.p_corrected),
        )  # fmt: skip
        mark = " class='found'" if g.p_corrected is not None and g.p_corrected < 0.05 else ""
        rows.append(f"<tr{mark}>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
    titles = "".join(f"<th>{escape(h)}</th>" for h in head)
    return (
        "<section><h2>Subgroups</h2><p>Each group against all other cases. Intervals by bootstrap; p-values "
        f"corrected over the whole table ({named}). Groups marked “too few” have under {SMALL} cases: "
        "conclude nothing from them.</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody></table></section>"
    )


def _cell(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else format(value, form)
