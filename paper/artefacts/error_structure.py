"""The paper's appendix F: all of M-SMC's errors on its oral benchmark are one confusion, and they are confident, so
entropy cannot catch them. Here on every panel: which confusions, with what mass, how many effectively one-hot, how many
are left after the least certain fifth is set aside, and whether a view from elsewhere (another bank, another
comparison) would have objected."""

from collections.abc import Callable, Iterator
from typing import Any

from paper.answers import D_SMC, M_SMC, RECIPE
from paper.cells import NONE
from paper.measures import errors
from paper.measures.errors import CONFIDENT, COVERAGE, ONE_HOT
from paper.spec import Artefact, Block, Column, Table, keys, named


def counts(head: str, quantity: str, cell: Callable[[Any], Any]) -> Column:
    return Column(head, cell, quantity, shown=lambda q: f"{q.value:g}")


def claims(b: Block) -> Iterator[str]:
    m, views = b.d["errors"][M_SMC], b.d["views"]
    if m["confusions"]:
        first, (every, most) = m["confusions"][0], (b.paper(q, M_SMC) for q in ("errors", "most_frequent_confusion"))
        yield (f"{b.panel}: M-SMC makes {m['errors']} errors of {len(m['confusions'])} kinds; the most frequent, "
               f"'{first['gold']}' answered as '{first['answered']}', is {first['n'] / m['errors']:.0%} of them"
               + (f"; in the paper {most.value / every.value:.0%} of {every.value:g}." if every and most else "."))
        yield (f"{b.panel}: its errors carry a mean mass of {m['wrong_label_mass']:.3f} on the wrong label, "
               f"{m['one_hot_errors']} effectively one-hot; {m['errors_among_most_certain']} of {m['errors']} remain "
               "when the least certain fifth is set aside.")
    if wrong := next(iter(views.values()))["confident_errors"]:
        best = max(views, key=lambda name: views[name]["caught"] - views[name]["false"] / 10)
        v = views[best]
        more = v["caught"] / wrong > v["false"] / max(v["confident_right"], 1)
        yield (f"{b.panel}: '{best}' objects to {v['caught']} of {wrong} confident errors and to {v['false']} of "
               f"{v['confident_right']} confident right answers: {'' if more else 'no '}more often than when the "
               "answer is right.")


ARTEFACT = Artefact(
    "The structure of the errors, and the confident ones (appendix F)", 390, errors.structure,
    tables=(
        Table("{panel}: errors and their confidence", lambda b: named(b.d["errors"]),
              (*keys("method"), counts("errors", "errors", "{errors} of {n}".format_map),
               counts("most frequent confusion", "most_frequent_confusion",
                      lambda r: r["confusions"][0]["n"] if r["confusions"] else 0),
               counts("mass on the wrong label", "wrong_label_mass",
                      lambda r: NONE if r["wrong_label_mass"] is None else f"{r['wrong_label_mass']:.3f}"),
               counts(f"one-hot (from {ONE_HOT:g})", "one_hot_errors", "{one_hot_errors}".format_map),
               Column(f"confident errors (from {CONFIDENT:g})",
                      "{confident_errors} of {confident_answers} answers".format_map),
               *keys(f"errors among the most certain {COVERAGE:.0%}=errors_among_most_certain"))),
        Table("{panel}: confusions", lambda b: errors.most_frequent(b.d["errors"], 12),
              keys(f"confusion | {M_SMC} | {D_SMC} | {RECIPE}"), "The twelve most frequent."),
        Table("{panel}: would another view have objected to M-SMC?", lambda b: named(b.d["views"], "view"),
              (*keys("view"), Column("confident errors it objects to", "{caught} of {confident_errors}".format_map),
               Column("confident right answers it objects to", "{false} of {confident_right}".format_map)),
              "A view objects when its favourite label is another. results/alarm.md measures the shipped alarm."),
    ),
    claims=claims,
)
