"""No case is run: the paper's printed cells are held against what must hold between them. Rounding is allowed for.

* A mean entropy bounds the mean top probability from below (through the points (log2 m, 1/m), between which the bound
  is linear), and ECE is at least the gap between mean top probability and accuracy.
* A wrong answer costs at least 1/2 in the Brier score summed over labels, so the mean is at least (1 - accuracy)/2.
* D-SMC that keeps a share 2^-T of a flat Dirichlet prior cannot give a label more than a known mean.
* A network's layers have a known number of parameters."""

from collections.abc import Iterator

from paper.cells import NONE
from paper.measures import itself
from paper.spec import Artefact, Block, Column, Table, as_one, keys, of_tuples
from paper.theirs import doubted


def below(title: str, name: str, note: str) -> Table:
    bits = Column("entropy, bits", lambda c: NONE if c["entropy_bits"] is None else f"{c['entropy_bits']:g}")
    columns = (*keys("cell | place"), Column("accuracy", "accuracy"), bits,
               Column(f"{title} as printed", lambda c: f"{c[name]:g}"), Column("least it can be", f"{name}_least"))
    return Table(f"{title} below what the other figures of the cell allow", lambda b: b.d[name], columns, note)


def every_doubt(_: Block) -> Iterator[tuple[str, ...]]:
    for why, found in doubted().items():
        where = ", ".join(dict.fromkeys(q.place for q in found))
        yield f"{why[0].upper()}{why[1:]}.", where, str(len(found))


def claims(b: Block) -> Iterator[str]:
    d = b.d
    yield (f"{len(d['ece'])} of {d['with_entropy']} cells that print accuracy, entropy and ECE print an ECE below what "
           "the other two allow.")
    yield (f"{len(d['brier'])} of {d['with_brier']} printed Brier scores are below what the accuracy beside them "
           "allows for a sum over labels, so they are means over labels or errors.")
    if beyond := [cap for cap in d["caps"] if cap["printed"] > cap["cap"]]:
        caps, steps = (", ".join(f.format(**c) for c in beyond) for f in ("{cap:.2f}", "{populations}"))
        yield (f"D-SMC's printed {beyond[0]['printed']:.2f} is above the cap of {caps} for {steps} populations: its "
               "sampler had another target than the one described.")
    counted, printed = d["parameters"]["counted"], d["parameters"]["printed"]
    if printed is not None and printed != counted:
        yield f"The amortised network as described has {counted:,} parameters; the paper says {printed:,.0f}."


ARTEFACT = Artefact(
    "Where the paper contradicts itself, worked out from its own figures", 900, itself.checked, each=as_one,
    tables=(
        below("ECE", "ece", "Mean top probability minus accuracy, with the least top probability the entropy allows."),
        below("Brier", "brier", "As a sum over labels, which is what the larger of the paper's cells are."),
        Table("The top probability of D-SMC", lambda b: b.d["caps"],
              (*keys("populations | labels"), Column("most a label can get", "cap"),
               Column("as printed", "printed", digits=2), *keys("place")),
              "Median tolerances under a flat Dirichlet prior."),
        Table("Every contradiction noted beside our figures (†)", every_doubt, of_tuples("what", "where", "figures")),
    ),
    claims=claims,
)
