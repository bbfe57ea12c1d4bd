"""The paper's appendix F: all of M-SMC's errors on its oral benchmark are one confusion, and they are
confident, so entropy cannot catch them. Here on every panel: which confusions, with what mass, how many
effectively one-hot, how many are left after the least certain fifth is set aside, and whether a view from
elsewhere (another bank, another comparison) would have objected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from paper.answers import D_SMC, M_SMC, RECIPE
from paper.cells import NONE, dagger
from paper.measures import errors
from paper.measures.errors import CONFIDENT, COVERAGE, ONE_HOT
from paper.spec import Artefact, Block, Column, Said, Table, claim, key
from paper.theirs import Quote, beside

NAME = "error-structure"
METHODS = (M_SMC, D_SMC, RECIPE)


def rows(b: Block) -> list[dict[str, Any]]:
    return [one | {"panel": b.panel, "method": name} for name, one in b.d["errors"].items()]


def beside_paper(head: str, quantity: str, cell: Callable[[Any], str]) -> Column:
    def theirs(row: dict[str, Any]) -> Quote | None:
        return beside(NAME, quantity, row["panel"], row["method"])

    return Column(head, cell, theirs, shown=lambda q: NONE if q is None else f"{q.value:g}{dagger(q)}")


def confusions(b: Block) -> list[dict[str, Any]]:
    """The twelve most frequent, counted for each method."""
    counts = {
        name: {f"{c['gold']} answered as {c['answered']}": c["n"] for c in one["confusions"]}
        for name, one in b.d["errors"].items()
    }
    pairs = sorted(dict.fromkeys(pair for own in counts.values() for pair in own), key=lambda pair: -max(
        own.get(pair, 0) for own in counts.values()
    ))  # fmt: skip
    return [{"confusion": p} | {name: own.get(p, 0) for name, own in counts.items()} for p in pairs[:12]]


def claims(b: Block) -> Iterator[Said]:
    m, views = b.d["errors"][M_SMC], b.d["views"]
    if m["confusions"]:
        first = m["confusions"][0]
        share = first["n"] / m["errors"]
        line = (
            f"{b.panel}: M-SMC makes {m['errors']} errors of {len(m['confusions'])} kinds; the most "
            f"frequent, '{first['gold']}' answered as '{first['answered']}', is {share:.0%} of them"
        )
        every, most = (
            beside(NAME, quantity, b.panel, M_SMC) for quantity in ("errors", "most_frequent_confusion")
        )
        if every is not None and most is not None:
            theirs = most.value / every.value
            yield claim(
                (share == 1) == (theirs == 1), f"{line}; @, where it is {theirs:.0%} of {every.value:g}."
            )
        else:
            yield Said(line + ".")
        yield Said(
            f"{b.panel}: its errors carry a mean mass of {m['wrong_label_mass']:.3f} on the wrong label, "
            f"{m['one_hot_errors']} effectively one-hot; {m['errors_among_most_certain']} of {m['errors']} "
            "remain when the least certain fifth is set aside."
        )
    wrong = next(iter(views.values()))["confident_errors"]
    if wrong:
        best = max(views, key=lambda name: views[name]["caught"] - views[name]["false"] / 10)
        v = views[best]
        more = v["caught"] / wrong > v["false"] / max(v["confident_right"], 1)
        yield Said(
            f"{b.panel}: '{best}' objects to {v['caught']} of {wrong} confident errors and to {v['false']} "
            f"of {v['confident_right']} confident right answers: {'' if more else 'no '}more often than when "
            "the answer is right."
        )


ARTEFACT = Artefact(
    title="The structure of the errors, and the confident ones (appendix F)",
    order=390,
    measure=errors.structure,
    tables=(
        Table(
            "{panel}: errors and their confidence",
            rows,
            (
                key("method", "method"),
                beside_paper("errors", "errors", lambda r: f"{r['errors']} of {r['n']}"),
                beside_paper(
                    "most frequent confusion", "most_frequent_confusion",
                    lambda r: str(r["confusions"][0]["n"] if r["confusions"] else 0),
                ),
                beside_paper(
                    "mass on the wrong label", "wrong_label_mass",
                    lambda r: NONE if r["wrong_label_mass"] is None else f"{r['wrong_label_mass']:.3f}",
                ),
                beside_paper(
                    f"one-hot (from {ONE_HOT:g})", "one_hot_errors", lambda r: str(r["one_hot_errors"])
                ),
                Column(
                    f"confident errors (from {CONFIDENT:g})",
                    lambda r: f"{r['confident_errors']} of {r['confident_answers']} answers",
                ),
                key(f"errors among the most certain {COVERAGE:.0%}", "errors_among_most_certain"),
            ),
        ),
        Table(
            "{panel}: confusions",
            confusions,
            (key("confusion", "confusion"), *(key(name, name) for name in METHODS)),
            "The twelve most frequent.",
        ),
        Table(
            "{panel}: would another view have objected to M-SMC?",
            lambda b: [v | {"view": name} for name, v in b.d["views"].items()],
            (
                key("view", "view"),
                Column("confident errors it objects to", "{caught} of {confident_errors}".format_map),
                Column("confident right answers it objects to", "{false} of {confident_right}".format_map),
            ),
            "A view objects when its favourite label is another. results/alarm.md measures the shipped "
            "alarm.",
        ),
    ),
    claims=claims,
)  # fmt: skip
