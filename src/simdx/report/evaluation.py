"""An evaluation as one self-contained HTML page: figures with intervals, plots, groups, worst errors.

Plots are drawn from the record's stored values. Case texts appear only when the caller asks for them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from simdx.answer import Answer
from simdx.evaluation import Evaluation
from simdx.metrics.gaps import SMALL
from simdx.panels import disclaimer
from simdx.report import figures, plots
from simdx.report.page import fill
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
    return fill(
        "evaluation.html",
        title=f"simdx evaluation: {record['panel']}, {record['method']} ({record['engine']})",
        disclaimer=disclaimer(panel),
        notice=result.dataset.notice,
        names=_NAMES,
        record=record,
        dataset=result.dataset,
        curves=result.curves,
        figures=figures,
        entropy_drawing=plots.entropy_plot(
            bits[right], bits[~right], outside, math.log2(len(result.outcomes))
        ),
        simplex_drawing=plots.ternary_plot(result.arrays["among_labels"], y, result.labels) if three else "",
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
