"""The paper compares full precision with four bits of one model. A pair here is a model's bank and a bank
the same model wrote with other weights (`{panel}-{model}` and `{panel}-{model}-q8_0`, say, in
$SIMDX_BANKS); M-SMC with each is compared on the same cases, and beside it what the two answered when
asked directly, where records hold that. Where no pair is at hand the artefact is not run and says so."""

from collections.abc import Iterator
from typing import Any

from paper.cells import number, ours, quoted
from paper.intervals import excludes
from paper.measures import ablations
from paper.spec import Artefact, Block, Found, Said, Table, keys
from paper.theirs import data_of_panel, grouped

HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy", "auroc": "AUROC"}


def by_pair(found: Found) -> Iterator[Block]:
    for pair in found["data"].values():
        yield Block(pair["panel"], pair | {"both": " and ".join(pair["banks"])}, found["n"])


def rows(b: Block) -> Iterator[dict[str, Any]]:
    asked = (("asked", name, scores) for name, scores in b.d["asked"].items())
    own = (("M-SMC", *one) for one in zip(b.d["banks"], b.d["m-smc"], strict=True))
    for method, weights, scores in (*own, *asked):
        yield {"method": method, "weights": weights} | {name: ours(scores, name) for name in HEADS}
    for (way, setting), paper in grouped("quantisation-ablation", data=data_of_panel(b.panel)).items():
        cells = {name: quoted(paper.get(name)) for name in HEADS}
        yield {"method": f"paper: {way}", "weights": setting} | cells


def claims(b: Block) -> Iterator[Said]:
    first, second = b.d["banks"]
    gaps = ", ".join(f"{name} {number(one['value'], one['ci'])}" for name, one in b.d["difference"].items())
    sure = [name for name, one in b.d["difference"].items() if excludes(one["ci"])]
    moral = f"Beyond chance: {', '.join(sure)}; two banks of one model also differ by the draw of texts."
    yield Said(f"{b.panel}: M-SMC answers the same with simulations of {first} and of {second} on "
               f"{b.d['same_answer']:.1%} of the cases; {second} minus {first}: {gaps}. "
               + (moral if sure else "Nothing beyond chance."),
               not sure)


ARTEFACT = Artefact(
    "Two weights of one model: does quantisation touch the answer? (table S16)", 430,
    ablations.quantisation_ablation, each=by_pair,
    tables=(
        Table("{panel}: {both}", rows,
              (*keys("method | weights"), *(column for n, h in HEADS.items() for column in keys(f"{h}={n}"))),
              "95 % bootstrap over cases."),
    ),
    claims=claims,
)
