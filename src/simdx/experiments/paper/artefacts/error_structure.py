"""The structure of the errors, and the confident ones (appendix F)

The paper's appendix F: all of M-SMC's errors on its oral benchmark are one confusion, and they are
confident, so entropy cannot catch them. Here on every panel: which confusions, with what mass, how many
effectively one-hot, how many are left after the least certain fifth is set aside, and whether a view from
elsewhere (another bank, another comparison) would have objected.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.compare import agreement
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import D_SMC, M_SMC, RECIPE, models_used, spec_of
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.metrics.scores import confusion
from simdx.metrics.selective import kept_at
from simdx.types import Float, Int, entropy_bits

ORDER = 390
ARTEFACT = "error-structure"
METHODS = (M_SMC, D_SMC, RECIPE)
ONE_HOT, CONFIDENT = 0.99, 0.8
COVERAGE = 0.8


def run(context: Context) -> Finding:
    tables, verdicts = [], []
    data: dict[str, Any] = {}
    for panel in context.panels:
        y, names = context.labels(panel), context.names(panel)
        found = {name: _structure(context.probabilities(spec_of(name, panel)), y, names) for name in METHODS}
        views = _views(context, panel)
        data[panel] = {"errors": found, "views": views}
        tables += [_table(panel, found), _confusions(panel, found), _views_table(panel, views)]
        verdicts += _verdicts(panel, found, views)
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, context.notes)


def _structure(p: Float, y: Int, names: tuple[str, ...]) -> dict[str, Any]:
    table = confusion(p, y)
    wrong = p.argmax(axis=1) != y
    top = p.max(axis=1)
    order = np.argsort(entropy_bits(p), kind="stable")[: kept_at(COVERAGE, len(y))]
    pairs: list[dict[str, Any]] = [
        {"gold": names[i], "answered": names[j], "n": int(table[i, j])}
        for i in range(len(names))
        for j in range(len(names))
        if i != j and table[i, j]
    ]
    pairs.sort(key=lambda pair: (-pair["n"], pair["gold"], pair["answered"]))
    return {
        "n": len(y),
        "errors": int(wrong.sum()),
        "confusions": pairs,
        "wrong_label_mass": float(top[wrong].mean()) if wrong.any() else None,
        "one_hot_errors": int((wrong & (top >= ONE_HOT)).sum()),
        "confident_errors": int((wrong & (top >= CONFIDENT)).sum()),
        "confident_answers": int((top >= CONFIDENT).sum()),
        "errors_among_most_certain": int(wrong[order].sum()),
    }


def _views(context: Context, panel: str) -> dict[str, dict[str, Any]]:
    """How often another view's favourite differs from M-SMC's confident answer, when wrong and when right."""
    y = context.labels(panel)
    p = context.probabilities(spec_of(M_SMC, panel))
    answer, confident = p.argmax(axis=1), p.max(axis=1) >= CONFIDENT
    wrong = answer != y
    others = {f"M-SMC over {bank}": spec_of(M_SMC, panel, bank) for bank in context.banks(panel)}
    others |= {"TF-IDF": Spec(panel, "tfidf"), "logistic on the bank": Spec(panel, "bank-logistic")}
    found = {}
    for name, spec in others.items():
        objects = context.probabilities(spec).argmax(axis=1) != answer
        caught, false = objects & confident & wrong, objects & confident & ~wrong
        found[name] = {
            "caught": int(caught.sum()),
            "confident_errors": int((confident & wrong).sum()),
            "false": int(false.sum()),
            "confident_right": int((confident & ~wrong).sum()),
        }
    return found


def _table(panel: str, found: dict[str, dict[str, Any]]) -> Table:
    rows = []
    columns = ("errors", "most frequent confusion", "mass on the wrong label", f"one-hot (from {ONE_HOT:g})")
    for name, one in found.items():
        about = {"data": data_of_panel(panel), "method": name}
        quantities = ("errors", "most_frequent_confusion", "wrong_label_mass", "one_hot_errors")
        paper = [quote(ARTEFACT, quantity, **about) for quantity in quantities]
        most = one["confusions"][0]["n"] if one["confusions"] else 0
        mass = "–" if one["wrong_label_mass"] is None else f"{one['wrong_label_mass']:.3f}"
        ours = (f"{one['errors']} of {one['n']}", str(most), mass, str(one["one_hot_errors"]))
        line = [name]
        for value, theirs in zip(ours, paper, strict=True):
            line += [value, "–" if theirs is None else f"{theirs.value:g}"]
        share = f"{one['confident_errors']} of {one['confident_answers']} answers"
        rows.append((*line, share, str(one["errors_among_most_certain"])))
    heads = [c for head in columns for c in (head, f"{head}, paper")]
    last = (f"confident errors (from {CONFIDENT:g})", f"errors among the most certain {COVERAGE:.0%}")
    return Table(f"{panel}: errors and their confidence", ("method", *heads, *last), tuple(rows))


def _confusions(panel: str, found: dict[str, dict[str, Any]]) -> Table:
    pairs = list(
        dict.fromkeys((c["gold"], c["answered"]) for one in found.values() for c in one["confusions"])
    )
    counts = {
        name: {(c["gold"], c["answered"]): c["n"] for c in one["confusions"]} for name, one in found.items()
    }
    pairs.sort(key=lambda pair: -max(count.get(pair, 0) for count in counts.values()))
    rows = [
        (f"{gold} answered as {said}", *(str(counts[m].get((gold, said), 0)) for m in METHODS))
        for gold, said in pairs
    ]
    return Table(
        f"{panel}: confusions", ("confusion", *METHODS), tuple(rows[:12]), "The twelve most frequent."
    )


def _views_table(panel: str, views: dict[str, dict[str, Any]]) -> Table:
    rows = [
        (name, f"{v['caught']} of {v['confident_errors']}", f"{v['false']} of {v['confident_right']}")
        for name, v in views.items()
    ]
    columns = ("view", "confident errors it objects to", "confident right answers it objects to")
    note = "A view objects when its favourite label is another. results/alarm.md measures the shipped alarm."
    return Table(f"{panel}: would another view have objected to M-SMC?", columns, tuple(rows), note)


def _verdicts(panel: str, found: dict[str, dict[str, Any]], views: dict[str, dict[str, Any]]) -> list[str]:
    m = found[M_SMC]
    said = []
    if m["confusions"]:
        first, kinds = m["confusions"][0], len(m["confusions"])
        share = first["n"] / m["errors"]
        paper = [
            quote(ARTEFACT, quantity, data=data_of_panel(panel), method=M_SMC)
            for quantity in ("errors", "most_frequent_confusion")
        ]
        beside = ""
        if paper[0] is not None and paper[1] is not None:
            theirs = paper[1].value / paper[0].value
            same = agreement((share == 1) == (theirs == 1))
            beside = f"; {same}, where it is {theirs:.0%} of {paper[0].value:g}"
        said.append(
            f"{panel}: M-SMC makes {m['errors']} errors of {kinds} kinds; the most frequent, "
            f"'{first['gold']}' "
            f"answered as '{first['answered']}', is {share:.0%} of them{beside}."
        )
        said.append(
            f"{panel}: its errors carry a mean mass of {m['wrong_label_mass']:.3f} on the wrong label, "
            f"{m['one_hot_errors']} effectively one-hot; {m['errors_among_most_certain']} of {m['errors']} "
            "remain when "
            f"the least certain fifth is set aside."
        )
    errors = next(iter(views.values()))["confident_errors"]
    if errors:
        best = max(views, key=lambda name: views[name]["caught"] - views[name]["false"] / 10)
        v = views[best]
        caught = v["caught"] / errors
        false = v["false"] / max(v["confident_right"], 1)
        more = "more often than" if caught > false else "no more often than"
        said.append(
            f"{panel}: '{best}' objects to {v['caught']} of {errors} confident errors and to {v['false']} of "
            f"{v['confident_right']} confident right answers: {more} when the answer is right."
        )
    return said
