"""The paper's Table S14: its D-SMC made 2,400 calls for 300 cases and took 14 s a case. Here a bank is written once and
every later case costs no call. Shown: what a case costs in time, how many fresh simulations the paper's own sampler
would draw for it, what the banks cost to write, and after how many cases a bank is cheaper than asking."""

from collections.abc import Iterator
from math import ceil

from paper.answers import D_SMC, M_PARTICLES, theirs_name
from paper.cells import NONE, micro
from paper.measures import sampler
from paper.spec import Artefact, Block, Column, Table, keys, named, of_tuples
from paper.theirs import quote
from paper.world import REFERENCE


def calls(b: Block) -> Iterator[tuple[str, ...]]:
    banks, drawn = b.d["budget"]["banks"], b.d["fresh_simulations"]
    for name, bank in banks.items():
        yield f"bank {name}", f"{sum(bank.values())} at least, once", "0", NONE, NONE
    for name, one in b.d["budget"]["asked"].items():
        n, seconds = one["calls_per_case"], one["seconds_per_case"]
        cheaper = f"after {ceil(banks[REFERENCE]['simulations'] / n)} cases" if n else NONE
        yield name, "0", f"{n:.1f}" if n else NONE, NONE if seconds is None else f"{seconds:.1f} s", cheaper
    live = f"{drawn['median']:.0f} ({drawn['q1']:.0f}–{drawn['q3']:.0f})"
    yield f"{M_PARTICLES} with fresh simulations", "0", live, NONE, NONE
    calls, took = (b.paper(q, D_SMC) for q in ("calls_per_case", "s_per_case"))
    if calls and took:
        yield "D-SMC, paper", NONE, f"{calls.value:.1f}", f"{took.value:.1f} s", NONE


def claims(b: Block) -> Iterator[str]:
    d, drawn = b.d["times"][D_SMC], b.d["fresh_simulations"]["median"]
    seconds, n = (q.value for name in ("s_per_case", "calls_per_case")
                  if (q := quote(b.artefact, name, data="oral", method=D_SMC)))
    yield (f"{b.panel}: a case costs {micro(d['infer_seconds'] + d['embed_seconds'])} with D-SMC over a bank, its "
           f"embedding included, and no call; the paper reports {seconds:.1f} s and {n:g} calls.")
    yield (f"{b.panel}: with a fresh simulation per proposal M-SMC's sampler would draw {drawn:.0f} for a case "
           f"(median), {drawn / n:.0f} times the {n:g} calls the paper reports for D-SMC.")


ARTEFACT = Artefact(
    "Run time and the budget of LLM calls (table S14)", 410, sampler.runtime,
    tables=(
        Table("{panel}: time",
              lambda b: [row | {"method": theirs_name(row["name"])} for row in named(b.d["times"], "name")],
              (*keys("method=name"), Column("fit, once", "{fit_seconds:.2f} s".format_map),
               Column("embedding", lambda t: micro(t["embed_seconds"])),
               Column("inference", lambda t: micro(t["infer_seconds"])),
               Column("cases per second", lambda t: f"{1 / (t['embed_seconds'] + t['infer_seconds']):,.0f}"),
               Column("LLM calls per case", lambda t: "0", "s_per_case", paper_head="paper",
                      shown=lambda q: f"{q.value:.2f} s")),
              "Per case, all cases in one batch, on this machine's CPU; ABI's training is not in its fit."),
        Table("{panel}: LLM calls", calls,
              of_tuples("what", "calls, once", "calls per case", "model time per case", "the packaged bank is cheaper"),
              "Fresh simulations: median (quartiles) over cases of the sampler's proposals, S = 100, T = 5."),
    ),
    claims=claims,
)
