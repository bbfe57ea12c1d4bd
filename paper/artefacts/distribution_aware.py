"""The paper's Table 2 and Table S5: elicited fidelity, D-SMC and ABI. Latency is per case in one batch on
this machine's CPU, embedding included and apart; the paper's D-SMC calls its model inside the run, ours
reads a bank that was written once, so the two columns answer different questions and are shown side by
side to say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper.answers import ABI, D_SMC, M_SMC, theirs_name
from paper.cells import NONE, dagger, duration, placed
from paper.measures import scores
from paper.spec import Artefact, Block, Column, Said, Table, claim, keys, metrics, ranges
from paper.theirs import Quote, beside

NAME = "distribution-aware"
HEADS = {"accuracy": "accuracy", "brier": "brier", "ece": "ece"}


def rows(b: Block) -> list[dict[str, Any]]:
    return [
        row | {"panel": b.panel, "method": theirs_name(row["method"]), "n": row["scores"]["n"]} for row in b.d
    ]


def over_banks(b: Block) -> list[dict[str, Any]]:
    found = [row for row in b.d if "over_banks" in row]
    return [
        {
            "panel": b.panel,
            "method": row["name"],
            "banks": len(row["over_banks"]["ece"]),
            "values": row["over_banks"],
        }
        for row in found
    ]


def alone(row: dict[str, Any]) -> str:
    return NONE if row["inference_seconds"] is None else duration(row["inference_seconds"])


def latency(row: dict[str, Any]) -> Quote | None:
    return beside(NAME, "latency_s", row["panel"], row["method"])


def claims(b: Block) -> Iterator[Said | str]:
    by = {row["name"]: row for row in b.d}
    d, abi, m = by[D_SMC], by[ABI], by[M_SMC]
    paper = beside(NAME, "ece", b.panel, D_SMC)
    if paper is not None:
        where = placed(d["scores"]["ci"]["ece"], paper.value)
        side = "under" if d["mean_top"] < d["scores"]["accuracy"] else "over"
        yield Said(
            f"{b.panel}: D-SMC's ECE is {d['scores']['ece']:.3f} ({side}confident: mean top probability "
            f"{d['mean_top']:.2f} at accuracy {d['scores']['accuracy']:.2f}); the paper's {paper.value:.3f} "
            f"lies {where} our interval. Median tolerances over a flat prior cap the top probability at "
            f"{d['cap']:.2f} here.",
            where == "inside",
        )
    times = [beside(NAME, "latency_s", b.panel, name) for name in (D_SMC, ABI)]
    shown = {one["name"]: duration(one["inference_seconds"]) for one in (d, abi, m)}
    yield (
        f"{b.panel}: ABI differs from its target D-SMC by "
        f"{abs(abi['scores']['accuracy'] - d['scores']['accuracy']):.3f} in accuracy. Per case, embeddings "
        f"given, D-SMC in closed form takes {shown[D_SMC]}, ABI {shown[ABI]} and M-SMC {shown[M_SMC]}: D-SMC "
        f"costs {d['inference_seconds'] / abi['inference_seconds']:.0f} times ABI (the paper's two: "
        f"{' and '.join(duration(q.value) for q in times if q is not None)})."
    )
    elicited = [row for row in b.d if row["method"] == "EF"]
    for row in elicited:
        same, theirs = row["d_smc_on_the_same"], row["scores"]["accuracy"]
        pair = [beside(NAME, "accuracy", b.panel, name) for name in (D_SMC, "EF")]
        yield claim(
            same >= theirs,
            f"{b.panel}: D-SMC is right in {same:.3f}, {row['name']} in {theirs:.3f} of the same "
            f"{row['scores']['n']} cases, @ "
            f"({' and '.join(f'{q.value:.3f}' for q in pair if q is not None)}).",
        )
    if not elicited:
        yield f"{b.panel}: no record of elicited fidelity is at hand, so its row is missing."


ARTEFACT = Artefact(
    title="Distribution-aware methods, with their latency (table 2)",
    order=20,
    measure=lambda context: scores.distribution_aware(context, tuple(HEADS)),
    tables=(
        Table(
            "{panel}, packaged bank, beside the paper's {theirs}",
            rows,
            (
                *keys("method=name | n"),
                *metrics(NAME, HEADS),
                Column("time per case", lambda row: duration(row["seconds"])),
                Column(
                    "inference alone",
                    alone,
                    latency,
                    paper_head="latency, paper",
                    shown=lambda q: NONE if q is None else duration(q.value) + dagger(q),
                ),
            ),
        ),
        Table(
            "{panel}: mean over the simulators' banks (least–most)",
            over_banks,
            (*keys("method | banks"), *ranges(NAME, HEADS)),
        ),
    ),
    claims=claims,
)
