"""The paper's Table 3: predictive entropy as the score, misclassification as the positive class, on its hardest data
set; here on every panel. E-AURC takes the accuracy out of the area under the risk–coverage curve."""

from collections.abc import Iterator
from typing import Any

from paper.answers import ASKED, M_SMC, RECIPE, theirs_name
from paper.cells import counted, number, placed
from paper.measures import scores
from paper.spec import Artefact, Block, Table, by_method, estimates, keys, metrics, ranges

HEADS = {"accuracy": "accuracy", "error_auroc": "error AUROC", "e_aurc": "E-AURC", "risk_at_80": "risk at 80 %"}


def rows(b: Block) -> list[dict[str, Any]]:
    return [{"name": name, "n": one["n"], "method": theirs_name(one["method"]), "scores": one}
            for name, one in b.d.items()]


def claims(b: Block) -> Iterator[str]:
    m, paper = b.d[M_SMC], b.paper("error_auroc", M_SMC)
    if paper is not None and m["error_auroc"] is not None:
        yield (f"{b.panel}: M-SMC's entropy finds its errors with AUROC {number(m['error_auroc'])}; the paper's "
               f"{paper.value:.3f} lies {placed(m['ci']['error_auroc'], paper.value)} our interval (the recipe: "
               f"{number(b.d[RECIPE]['error_auroc'])}).")
    asked = [row for row in b.d.values() if row["method"] in ASKED]
    for metric, better in (("error_auroc", 1), ("e_aurc", -1)):
        pairs = [(row[metric], b.d[own][metric]) for row in asked if (own := f"{M_SMC}, {row['own_bank']}") in b.d]
        pairs = [pair for pair in pairs if None not in pair]
        wins = sum(better * (own - theirs) > 0 for theirs, own in pairs)
        if pairs:
            yield (f"{b.panel}: over the asked model's own bank M-SMC is better than asking by {HEADS[metric]} in "
                   f"{counted(wins, len(pairs), 'comparisons')}.")
    if not asked:
        yield f"{b.panel}: no record of asking is at hand, so only inference is compared."


ARTEFACT = Artefact(
    "Does the uncertainty identify the errors? (table 3)", 30,
    lambda context: scores.error_detection(context, tuple(HEADS)),
    tables=(Table("{panel}, packaged bank ({theirs})", rows,
                  (*keys("method=name | n"), *metrics(HEADS, digits={"e_aurc": 4, "risk_at_80": 4})),
                  "The paper gives this table for MultiCaRe alone."),
            Table("{panel}: mean over simulators (least–most)", lambda b: scores.over_simulators(b.d, HEADS),
                  (*keys("method | simulators"), *ranges(HEADS, paper=False)))),
    drawings=(estimates("Error-detection AUROC on {panel}", "error-detection AUROC",
                        by_method("error_auroc", lambda m: int(theirs_name(m) in ASKED)),
                        "How well entropy ranks wrong answers above right ones on {panel}; one half is chance.",
                        x=(0.2, 1.0)),),
    claims=claims,
)
