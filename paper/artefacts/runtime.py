"""The paper's Table S14: its D-SMC made 2,400 calls for 300 cases and took 14 s a case. Here a bank is
written once and every later case costs no call. Shown: what a case costs in time, how many fresh
simulations the paper's own sampler would draw for it, what the banks cost to write, and after how many
cases a bank is cheaper than asking."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from paper.answers import D_SMC, M_PARTICLES, theirs_name
from paper.cells import NONE, dagger, micro
from paper.measures import sampler
from paper.spec import Artefact, Block, Column, Table, key, keys
from paper.theirs import Quote, beside, quote
from paper.world import REFERENCE

NAME = "runtime"


def times(b: Block) -> list[dict[str, Any]]:
    return [t | {"panel": b.panel, "name": name} for name, t in b.d["times"].items()]


def theirs(row: dict[str, Any]) -> Quote | None:
    return beside(NAME, "s_per_case", row["panel"], theirs_name(row["name"]))


def calls(b: Block) -> Iterator[dict[str, str]]:
    budget, drawn = b.d["budget"], b.d["fresh_simulations"]
    nothing = dict.fromkeys(("once", "per_case", "seconds", "even"), NONE)
    for name, bank in budget["banks"].items():
        yield nothing | {
            "what": f"bank {name}",
            "once": f"{sum(bank.values())} at least, once",
            "per_case": "0",
        }
    for name, one in budget["asked"].items():
        row, n, seconds = (
            nothing | {"what": name, "once": "0"},
            one["calls_per_case"],
            one["seconds_per_case"],
        )
        if n:
            even = ceil(budget["banks"][REFERENCE]["simulations"] / n)
            row |= {"per_case": f"{n:.1f}", "even": f"after {even} cases"}
        yield row if seconds is None else row | {"seconds": f"{seconds:.1f} s"}
    live = f"{drawn['median']:.0f} ({drawn['q1']:.0f}–{drawn['q3']:.0f})"
    yield nothing | {"what": f"{M_PARTICLES} with fresh simulations", "once": "0", "per_case": live}
    n, seconds = (beside(NAME, q, b.panel, D_SMC) for q in ("calls_per_case", "s_per_case"))
    if n is not None and seconds is not None:
        paper = {"per_case": f"{n.value:.1f}", "seconds": f"{seconds.value:.1f} s"}
        yield nothing | {"what": "D-SMC, paper"} | paper


def claims(b: Block) -> Iterator[str]:
    d, drawn = b.d["times"][D_SMC], b.d["fresh_simulations"]["median"]
    seconds, n = (quote(NAME, q, data="oral", method=D_SMC) for q in ("s_per_case", "calls_per_case"))
    assert seconds is not None
    assert n is not None
    yield (
        f"{b.panel}: a case costs {micro(d['infer_seconds'] + d['embed_seconds'])} with D-SMC over a bank, "
        f"its embedding included, and no call; the paper reports {seconds.value:.1f} s and {n.value:g} calls."
    )
    yield (
        f"{b.panel}: with a fresh simulation per proposal M-SMC's sampler would draw {drawn:.0f} for a case "
        f"(median), {drawn / n.value:.0f} times the {n.value:g} calls the paper reports for D-SMC."
    )


ARTEFACT = Artefact(
    title="Run time and the budget of LLM calls (table S14)",
    order=410,
    measure=sampler.runtime,
    tables=(
        Table(
            "{panel}: time",
            times,
            (
                key("method", "name"),
                Column("fit, once", lambda t: f"{t['fit_seconds']:.2f} s"),
                Column("embedding", lambda t: micro(t["embed_seconds"])),
                Column("inference", lambda t: micro(t["infer_seconds"])),
                Column("cases per second", lambda t: f"{1 / (t['embed_seconds'] + t['infer_seconds']):,.0f}"),
                Column(
                    "LLM calls per case", lambda t: "0", theirs, paper_head="paper",
                    shown=lambda q: NONE if q is None else f"{q.value:.2f} s{dagger(q)}",
                ),
            ),
            "Per case, all cases in one batch, on this machine's CPU; ABI's training is not in its fit.",
        ),
        Table(
            "{panel}: LLM calls",
            calls,
            keys(
                "what | calls, once=once | calls per case=per_case | model time per case=seconds | "
                "the packaged bank is cheaper=even"
            ),
            "Fresh simulations: median (quartiles) over cases of the sampler's proposals, S = 100, T = 5.",
        ),
    ),
    claims=claims,
)  # fmt: skip
