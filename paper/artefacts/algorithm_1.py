"""The paper's Algorithm 1 as it is: every proposal a fresh text of its label by the language model. The record
`results/live/algorithm1/cases.jsonl` has a line for each case, with its trace and its cost; beside it stands the closed
form over the bank that the same model wrote before."""

from collections.abc import Iterator
from typing import Any

from paper.cells import number
from paper.measures import sampler
from paper.spec import Artefact, Block, Table, figure, keys, of_tuples, within


def rows(b: Block) -> Iterator[tuple[str, str]]:
    for name in ("accuracy", "closed_form_accuracy"):
        yield name.replace("_", " "), figure(b.d, name)
    yield "total variation between the two", figure(b.d, "total_variation")
    for name in ("simulations", "calls", "tokens", "seconds"):
        yield f"{name} a case{', all cases side by side' if name == 'seconds' else ''}", f"{b.d[name]:,.0f}"


def steps(b: Block) -> list[dict[str, Any]]:
    return [{key: value if key == "population" else f"{round(value, 3) + 0.0:.3f}" for key, value in step.items()}
            for step in b.d["steps"]]


def claims(b: Block) -> Iterator[str]:
    ends = ", ".join(f"{name} {count}" for name, count in b.d["outcomes"].items())
    finished, begun = b.whole["finished"], b.whole["begun"]
    short = "" if finished == begun else f"**{finished} of {begun} begun cases ended.** "
    yield (f"{short}{b.panel}: {b.d['n']} cases ended as {ends}; {b.d['simulations']:,.0f} fresh simulations a case "
           f"lie {number(b.d['total_variation'])} in total variation from the closed form over the model's bank.")


ARTEFACT = Artefact(
    "Algorithm 1 with fresh generations (appendix H)", 385, sampler.algorithm_1, each=within("panels"),
    tables=(Table("{panel}: {n} cases, S = 100, T = 5", rows, of_tuples("what", "ours"), "95 % bootstrap over cases."),
            Table("{panel}, population by population: means", steps,
                  keys("population | ε=tolerance | acceptance | simulations | entropy, bits=entropy_bits"))),
    claims=claims,
)
