"""The paper's Table 2 and Table S5: elicited fidelity, D-SMC and ABI. Latency is per case in one batch on this
machine's CPU, embedding included and apart; the paper's D-SMC calls its model inside the run, ours reads a bank that
was written once, so the two columns answer different questions and are shown side by side to say so."""

from collections.abc import Iterator
from typing import Any

from paper.answers import ABI, D_SMC, M_SMC, theirs_name
from paper.cells import duration, number, placed
from paper.measures import scores
from paper.spec import Artefact, Block, Column, Table, keys, metrics, ranges, read

HEADS = {"accuracy": "accuracy", "brier": "brier", "ece": "ece"}


def rows(b: Block) -> list[dict[str, Any]]:
    return [row | {"method": theirs_name(row["method"]), "n": row["scores"]["n"]} for row in b.d]


def claims(b: Block) -> Iterator[str]:
    by = {row["name"]: row for row in b.d}
    d, abi, m = by[D_SMC], by[ABI], by[M_SMC]
    if paper := b.paper("ece", D_SMC):
        side = "under" if d["mean_top"] < d["scores"]["accuracy"] else "over"
        yield (f"{b.panel}: D-SMC's ECE is {d['scores']['ece']:.3f} ({side}confident: mean top probability "
               f"{d['mean_top']:.2f} at accuracy {d['scores']['accuracy']:.2f}); the paper's {paper.value:.3f} lies "
               f"{placed(d['scores']['ci']['ece'], paper.value)} our interval. Median tolerances over a flat prior cap "
               f"the top probability at {d['cap']:.2f} here.")
    times = [q for name in (D_SMC, ABI) if (q := b.paper("latency_s", name))]
    shown = {one["name"]: duration(one["inference_seconds"]) for one in (d, abi, m)}
    yield (f"{b.panel}: ABI differs from its target D-SMC by "
           f"{abs(abi['scores']['accuracy'] - d['scores']['accuracy']):.3f} in accuracy. Per case, embeddings given, "
           f"D-SMC in closed form takes {shown[D_SMC]}, ABI {shown[ABI]} and M-SMC {shown[M_SMC]}: D-SMC costs "
           f"{d['inference_seconds'] / abi['inference_seconds']:.0f} times ABI (the paper's two: "
           f"{' and '.join(duration(q.value) for q in times)}).")
    elicited = [row for row in b.d if "d_smc_minus_asking" in row]
    pair = " and ".join(f"{q.value:.3f}" for name in (D_SMC, "EF") if (q := b.paper("accuracy", name)))
    for row in elicited:
        turned = "**" if (row["d_smc_minus_asking"]["ci"][1] or 0) < 0 else ""
        yield (f"{turned}{b.panel}: D-SMC over the bank of {row['own_bank']} is right in "
               f"{row['d_smc_on_the_same']:.3f}, {row['name']} in {row['scores']['accuracy']:.3f} of the same "
               f"{row['scores']['n']} cases (difference {number(*read(row, 'd_smc_minus_asking'))}; the paper's "
               f"means: {pair}){turned}.")
    if not elicited:
        yield f"{b.panel}: no record of elicited fidelity is at hand, so its row is missing."


ARTEFACT = Artefact(
    "Distribution-aware methods, with their latency (table 2)", 20,
    lambda context: scores.distribution_aware(context, tuple(HEADS)), claims=claims,
    tables=(Table("{panel}, packaged bank, beside the paper's {theirs}", rows,
                  (*keys("method=name | n"), *metrics(HEADS), Column("time per case", lambda r: duration(r["seconds"])),
                   Column("inference alone", lambda r: duration(r["inference_seconds"]), "latency_s",
                          paper_head="latency, paper", shown=lambda q: duration(q.value))),
                  "Times of inference are of this machine's CPU, all cases in one batch; of EF, where it has one, ten "
                  "samples side by side for a case alone on one H200."),
            Table("{panel}: mean over the simulators' banks (least–most)", lambda b: [
                {"method": row["name"], "banks": len(values["ece"]), "values": values}
                for row in b.d if (values := row.get("over_banks"))], (*keys("method | banks"), *ranges(HEADS)))),
)
