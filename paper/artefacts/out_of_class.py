"""A text of none of the panel's labels should leave the posterior diffuse. Predictive entropy of every method on the
out-of-class cases of each panel stands beside that on the panel's own cases: high entropy says little if the panel's
cases have it too, so the AUROC of entropy between the two is given as well."""

from math import log2

from paper.measures import outside
from paper.sentences import diffuse
from paper.spec import Artefact, Block, Column, Drawing, Table, estimate, keys, metrics
from paper.world import labels_of
from simdx.report.plots import interval_plot


def most(b: Block) -> float:
    """The largest entropy there can be."""
    return log2(len(labels_of(b.panel)))


def drawn(b: Block) -> str:
    shown = []
    for row in b.d:
        paper = b.paper("entropy_bits", row["paper"])
        shown.append(estimate(f"{row['method']}: out of class", row, "outside", paper, 1))
        if row["inside"] is not None:
            shown.append(estimate(f"{row['method']}: own cases", row, "inside"))
    return interval_plot(f"Entropy inside and outside, {b.panel}", "predictive entropy (bits)", shown, x=(0, most(b)))


ARTEFACT = Artefact(
    "Entropy on out-of-class cases, for every method (table S8)", 360, outside.out_of_class,
    tables=(Table(lambda b: f"{b.panel}: mean predictive entropy in bits, at most {most(b):.2f}",
                  lambda b: [row | {"name": row["method"], "method": row["paper"]} for row in b.d],
                  (*keys("method=name"),
                   Column("N out of class (readable of asked)",
                          lambda r: f"{r['n_outside']}" + ("" if r["asked"] is None else f" of {r['asked']}")),
                   Column("entropy out of class", "outside", "entropy_bits", 2, "paper: mean of 4 models [range]"),
                   *metrics({"inside": "entropy of the panel's own cases", "auroc": "AUROC of entropy"}, digits=2,
                            paper=False, at="")),
                  "95 % bootstrap."),),
    drawings=(Drawing(drawn, "{panel}: mean entropy of out-of-class cases and of the panel's own, 95 % bootstrap; the "
                      "scale ends at the largest entropy there can be. Diamonds: the paper's mean over its models."),),
    claims=diffuse,
)
