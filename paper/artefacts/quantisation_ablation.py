"""The paper compares full precision with four bits of one model. A pair here is a model's bank and a bank
the same model wrote with other weights (`{panel}-{model}` and `{panel}-{model}-q8_0`, say, in
$SIMDX_BANKS); M-SMC with each is compared on the same cases, and beside it what the two answered when
asked directly, where records hold that. Where no pair is at hand the artefact is not run and says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper.cells import number, ours, quoted
from paper.intervals import excludes
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Found, Said, Table, keys
from paper.theirs import Quote, data_of_panel, quotes

NAME = "quantisation-ablation"
HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy", "auroc": "AUROC"}


def by_pair(found: Found) -> Iterator[Block]:
    for pair in found["data"].values():
        yield Block(pair["panel"], pair | {"both": " and ".join(pair["banks"])}, found["n"])


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for bank, scores in zip(b.d["banks"], b.d["m-smc"], strict=True):
        yield {"method": "M-SMC", "weights": bank, "scores": scores}
    for name, scores in b.d["asked"].items():
        yield {"method": "asked", "weights": name, "scores": scores}
    paper: dict[tuple[str | None, str | None], dict[str, Quote]] = {}
    for q in quotes(NAME, data=data_of_panel(b.panel)):
        paper.setdefault((q.method, q.setting), {})[q.quantity] = q
    for (method, setting), own in paper.items():
        yield {"method": f"paper: {method}", "weights": setting, "quotes": own}


def metric(name: str, head: str) -> Column:
    def cell(row: dict[str, Any]) -> str:
        return ours(row["scores"], name) if "scores" in row else quoted(row["quotes"].get(name))

    return Column(head, cell)


def claims(b: Block) -> Iterator[Said]:
    first, second = b.d["banks"]
    gaps = ", ".join(f"{name} {number(one['value'], one['ci'])}" for name, one in b.d["difference"].items())
    sure = [name for name, one in b.d["difference"].items() if excludes(one["ci"])]
    moral = f"Beyond chance: {', '.join(sure)}; two banks of one model also differ by the draw of texts."
    yield Said(
        f"{b.panel}: M-SMC answers the same with simulations of {first} and of {second} on "
        f"{b.d['same_answer']:.1%} of the cases; {second} minus {first}: {gaps}. "
        + (moral if sure else "Nothing beyond chance, which agrees with the paper's robustness."),
        not sure,
    )


ARTEFACT = Artefact(
    title="Two weights of one model: does quantisation touch the answer? (table S16)",
    order=430,
    measure=ablations.quantisation_ablation,
    each=by_pair,
    tables=(
        Table(
            "{panel}: {both}",
            rows,
            (
                *keys("method | weights"),
                *(metric(n, head) for n, head in HEADS.items()),
            ),
            "95 % bootstrap over cases.",
        ),
    ),
    claims=claims,
)
