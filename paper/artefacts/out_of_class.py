"""A text of none of the panel's labels should leave the posterior diffuse. Predictive entropy of every
method on the out-of-class cases of each panel stands beside that on the panel's own cases: high entropy
says little if the panel's cases have it too, so the AUROC of entropy between the two is given as well."""

from collections.abc import Iterator
from math import log2
from typing import Any

from paper.cells import METHODS
from paper.measures import outside
from paper.spec import Artefact, Block, Column, Drawing, Said, Table, figure, keys
from paper.theirs import Quote, beside
from paper.world import labels_of
from simdx.report.plots import Estimate, interval_plot


def most(b: Block) -> float:
    """The largest entropy there can be."""
    return log2(len(labels_of(b.panel)))


def theirs(row: dict[str, Any], panel: str | None = None) -> Quote | None:
    return beside("out-of-class", "entropy_bits", panel or row["panel"], row["paper"], each=True)


def drawn(b: Block) -> str:
    shown = []
    for row in b.d:
        paper, name, (low, high) = theirs(row, b.panel), row["method"], row["outside_ci"] or (None, None)
        value = None if paper is None else paper.value
        shown.append(Estimate(f"{name}: out of class", row["outside"], low, high, value, style=1))
        if row["inside"] is not None:
            shown.append(Estimate(f"{name}: own cases", row["inside"], *row["inside_ci"]))
    axis = "predictive entropy (bits)"
    return interval_plot(f"Entropy inside and outside, {b.panel}", axis, shown, x=(0, most(b)))


def claims(b: Block) -> Iterator[Said | str]:
    by, top = {row["method"]: row for row in b.d}, most(b)
    auroc = {name: figure(row, "auroc", 2) for name, row in by.items() if row["auroc"] is not None}
    m = by["M-SMC"]
    paper, near = theirs(m, b.panel), m["outside"] >= 0.95 * top
    line = f"{b.panel}: M-SMC reaches {m['outside']:.2f} of {top:.2f} bits out of class"
    if paper is not None:
        maximal = "it is maximal here too" if near else "it is not the maximum the paper speaks of"
        line += f" (the paper: {paper.value:.2f}); {maximal}"
    yield Said(line + ".", near if paper is not None else None)
    best = max((row for row in b.d if row["asked"] is None), key=lambda row: row["auroc"] or 0.0)["method"]
    cosine = by[METHODS["centroid"]]
    yield (f"{b.panel}: entropy tells out-of-class cases from the panel's own with AUROC {auroc['M-SMC']} for "
           f"M-SMC and {auroc['D-SMC']} for D-SMC; best is {best} with {auroc[best]}. High entropy alone is no "
           f"detector: normalised cosines have {cosine['outside']:.2f} bits out of class and "
           f"{cosine['inside']:.2f} on the panel's own cases.")
    asked = [row for row in b.d if row["method"].startswith(("ML", "EP"))]
    if asked:
        above = all(m["outside"] > row["outside"] for row in asked)
        each = ", ".join("{method} {outside:.2f}".format(**row) for row in asked)
        order = "above all of them" if above else "not above all of them"
        line = f"{b.panel}: asked directly, {each} bits; M-SMC is {order}"
        if known := [row for row in asked if row["auroc"] is not None]:
            first = max(known, key=lambda row: row["auroc"])
            higher = "above" if first["auroc"] > (m["auroc"] or 0) else "not above"
            line += (". Entropy of a model asked tells out-of-class cases from the others with AUROC "
                     f"{auroc[first['method']]} at best ({first['method']}), {higher} M-SMC's")
        yield Said(line + ".", above)


ARTEFACT = Artefact(
    "Entropy on out-of-class cases, for every method (table S8)", 360, outside.out_of_class,
    tables=(
        Table(lambda b: f"{b.panel}: mean predictive entropy in bits, at most {most(b):.2f}", lambda b: b.d,
              (*keys("method"),
               Column("N out of class (readable of asked)",
                      lambda r: f"{r['n_outside']}" + ("" if r["asked"] is None else f" of {r['asked']}")),
               Column("entropy out of class", "outside", theirs, 2, "paper: mean of 4 models [range]"),
               Column("entropy of the panel's own cases", "inside", digits=2),
               Column("AUROC of entropy", "auroc", digits=2)),
              "95 % bootstrap."),
    ),
    drawings=(Drawing("entropy-{panel}", drawn,
                      "{panel}: mean entropy of out-of-class cases and of the panel's own, 95 % bootstrap; the "
                      "scale ends at the largest entropy there can be. Diamonds: the paper's mean over its "
                      "models."),),
    claims=claims,
)
