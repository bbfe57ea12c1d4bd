"""The paper compares full precision with four bits of one model. A pair here is a model's bank and a bank
the same model wrote with other weights (`{panel}-{model}` and `{panel}-{model}-q8_0`, say, in
$SIMDX_BANKS); M-SMC with each is compared on the same cases, and beside it what the two answered when
asked directly, where records hold that. Where no pair is at hand the artefact is not run and says so."""

from collections.abc import Iterator
from typing import Any

from paper.cells import ours, quoted
from paper.intervals import excludes
from paper.measures import ablations
from paper.spec import Artefact, Block, Table, figure, keys, of_rows
from paper.theirs import data_of_panel, grouped

HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy", "auroc": "AUROC"}


def rows(b: Block) -> Iterator[dict[str, Any]]:
    own = {("M-SMC", bank): scores for pair in b.d for bank, scores in zip(pair["banks"], pair["m-smc"], strict=True)}
    asked = {("asked", name): scores for pair in b.d for name, scores in pair["asked"].items()}
    for (method, weights), scores in (own | asked).items():
        yield {"method": method, "weights": weights} | {name: ours(scores, name) for name in HEADS}
    for (way, setting), paper in grouped(b.artefact, data=data_of_panel(b.panel)).items():
        cells = {name: quoted(paper.get(name)) for name in HEADS}
        yield {"method": f"paper: {way}", "weights": setting} | cells


def claims(b: Block) -> Iterator[str]:
    for pair in b.d:
        first, second = pair["banks"]
        gaps = ", ".join(f"{name} {figure(pair['difference'], name)}" for name in pair["difference"])
        sure = [name for name, one in pair["difference"].items() if excludes(one["ci"])]
        moral = f"Beyond chance: {', '.join(sure)}; two banks of one model also differ by the draw of texts."
        yield (f"{b.panel}: M-SMC answers the same with simulations of {first} and of {second} on "
               f"{pair['same_answer']:.1%} of the cases; {second} minus {first}: {gaps}. "
               + (moral if sure else "Nothing beyond chance."))


ARTEFACT = Artefact(
    "Two weights of one model: does quantisation touch the answer? (table S16)", 430,
    ablations.quantisation_ablation, each=of_rows(),
    tables=(
        Table("{panel}: weights of one model", rows,
              (*keys("method | weights"), *(column for n, h in HEADS.items() for column in keys(f"{h}={n}"))),
              "95 % bootstrap over cases."),
    ),
    claims=claims,
)
