"""The paper's Table 1 and Table S4. Theirs are means over six models; the part of the models is played here by the
banks that different simulators wrote, and by the models that were asked. The packaged bank (both of its files
together) is what ships, and stands apart."""

from collections.abc import Iterator

from paper.answers import ASKED, M_PARTICLES, M_SMC, RECIPE
from paper.cells import counted, ours, placed, several
from paper.measures import scores
from paper.spec import Artefact, Block, Column, Table, by_method, estimates, keys, metrics, named, ranges
from paper.theirs import data_of_panel, quotes
from paper.world import REFERENCE

HEADS = {"accuracy": "accuracy", "macro_f1": "macro F1", "brier": "Brier", "ece": "ECE"}
HEADS |= {"entropy_bits": "entropy, bits"}
STYLES = {"ML": 1, "EP": 2, "PE": 3, M_SMC: 0, M_PARTICLES: 4, RECIPE: 5}


def claims(b: Block) -> Iterator[str]:
    asked = {name: row for name, row in b.d.items() if row["method"] in ASKED}
    hard, best = b.d[f"{M_SMC}, {REFERENCE}"], b.d[f"{RECIPE}, {REFERENCE}"]
    if asked:
        wins = sum(row["own_bank_accuracy"] > row["accuracy"] for row in asked.values())
        own = sorted({row["own_bank"] for row in asked.values()})
        yield (f"{b.panel}: M-SMC over the asked model's own bank is right more often than asking in "
               f"{counted(wins, len(asked), 'comparisons')} on the same cases (simulations of {', '.join(own)}).")
        if lost := [f"{name} ({row['accuracy']:.3f} against {row['own_bank_accuracy']:.3f})"
                    for name, row in asked.items() if row["accuracy"] > row["own_bank_accuracy"]]:
            yield f"**{b.panel}: the other way round with {several(lost)}**."
    each = hard["over_banks"]["accuracy"]
    theirs = quotes(b.artefact, quantity="accuracy", data=data_of_panel(b.panel), method=M_SMC)
    if models := [q.value for q in theirs if q.model]:
        yield (f"{b.panel}: M-SMC's accuracy runs from {min(each):.3f} to {max(each):.3f} over the {len(each)} models' "
               f"own banks; the paper's from {min(models):.3f} to {max(models):.3f} over {len(models)} models.")
    if not asked:
        yield f"{b.panel}: no record of asking a model is at hand, so only inference is shown."
    if paper := b.paper("accuracy", M_SMC):
        places = [placed(row["ci"]["accuracy"], paper.value) for row in (hard, best)]
        yield (f"{b.panel}: M-SMC on the packaged bank is right in {ours(hard, 'accuracy')} of the cases; the paper's "
               f"mean of {paper.value:.3f} lies {places[0]} that interval, and {places[1]} the recipe's.")
    yield (f"{b.panel}: on the packaged bank the recipe reaches accuracy {best['accuracy']:.3f} and ECE "
           f"{best['ece']:.3f}, plain M-SMC on the same bank {hard['accuracy']:.3f} and {hard['ece']:.3f}.")


ARTEFACT = Artefact(
    "Main results: asking a model against inference over simulations (table 1)", 10,
    lambda context: scores.main_results(context, tuple(HEADS)),
    tables=(Table("{panel}: every method and bank", lambda b: named(b.d, "name"),
                  (*keys("method=name | n"), *metrics(HEADS, paper=False, at=""),
                   Column("answered", lambda row: f"{row['answered']:.0%}" if "answered" in row else "")),
                  "Each M-SMC row is one bank: the packaged one (reference), its two files alone, and those that "
                  "models wrote. A case without a readable reply is answered by the prior and counts as such."),
            Table("{panel} beside the paper's {theirs}: mean over simulators (least–most)",
                  lambda b: scores.over_simulators(b.d, HEADS), (*keys("method | simulators"), *ranges(HEADS)))),
    drawings=(estimates("Accuracy on {panel}", "accuracy", by_method("accuracy", lambda m: STYLES.get(m, 1)),
                        "Accuracy on {panel} with 95 % intervals; diamonds: the paper's mean over six models.",
                        x=(0.0, 1.0)),),
    claims=claims,
)
