"""The paper's Table 4: a fifth of the cases, the same for every method, is for calibration; the rest is
scored once. PanelFiles its centroid classifier stand the one that uses those labels fully (logistic regression
with temperature scaling) and the supervised ceiling, which trains on four fifths of the cases in turn.
"Native" rows use no label."""

from collections.abc import Iterator

from paper.answers import ABI, M_SMC, RECIPE
from paper.measures import scores
from paper.measures.scores import CEILING, CENTROID, SUPERVISED
from paper.spec import Artefact, Block, Table, keys, metrics, named, temperature

HEADS = {"accuracy": "accuracy", "nll": "NLL", "brier": "Brier", "ece": "ECE", "error_auroc": "error AUROC"}


def claims(b: Block) -> Iterator[str]:
    by = {name: row["scores"] for name, row in b.d["rows"].items()}
    centroid, abi, r = by[f"{CENTROID} + TS"], by[f"{ABI} + TS"], by[RECIPE]
    yield (f"{b.panel}: with a fifth of the labels the centroid classifier reaches ECE {centroid['ece']:.3f}; "
           f"M-SMC without any label {by[M_SMC]['ece']:.3f}, the recipe without any {r['ece']:.3f}.")
    better = abi["brier"] < centroid["brier"]
    yield (f"{b.panel}: ABI + TS has {'the better' if better else 'no better a'} Brier score than "
                f"centroid + TS ({abi['brier']:.3f} against {centroid['brier']:.3f}).")
    if s := by.get(SUPERVISED):
        side = "behind" if s["brier"] > r["brier"] else "ahead of"
        yield (f"{b.panel}: logistic regression on the same fifth of labels (accuracy {s['accuracy']:.3f}, "
               f"Brier {s['brier']:.3f}) is {side} the recipe without labels ({r['accuracy']:.3f}, "
               f"{r['brier']:.3f}).")
    if c := by.get(CEILING):
        yield (f"{b.panel}: with four fifths of the labels the ceiling is {c['accuracy']:.3f} (Brier "
               f"{c['brier']:.3f}).")


ARTEFACT = Artefact(
    "Is it only the embedding? Calibrated and supervised classifiers beside the Bayesian layer (table 4)", 40,
    scores.calibrated_embedding,
    tables=(
        Table("{panel} ({theirs}): {calibration_cases} cases for calibration, {test_cases} scored",
              lambda b: named(b.d["rows"]), (*keys("method"), temperature, *metrics(HEADS)),
              "TS: temperature scaling. The paper gives this table for one model on MultiCaRe alone."),
    ),
    claims=claims,
)
