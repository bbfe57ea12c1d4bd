"""Where the paper contradicts itself, worked out from its own figures

No case is run: the paper's printed cells are held against what must hold between them. Rounding is allowed
for.

* A mean entropy bounds the mean top probability from below (through the points (log2 m, 1/m), between which
the bound is linear), and ECE is at least the gap between mean top probability and accuracy. * A wrong
answer costs at least 1/2 in the Brier score summed over labels, so the mean is at least (1 - accuracy)/2. *
D-SMC that keeps a share 2^-T of a flat Dirichlet prior cannot give a label more than a known mean. * A
network's layers have a known number of parameters.
"""

from __future__ import annotations

import math
from typing import Any

from simdx.abc.second_order import concentration_cap
from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.theirs import Quote, artefacts, data_sets, quote, quotes

ORDER = 900
TABLES = ("main-results", "distribution-aware")
POPULATIONS = (3, 5, 8)  # the paper names all three
LABELS = {"oral": 3, "sd": 6, "multicare": 7}
EMBEDDING, HIDDEN = 3072, 256  # text-embedding-3-large, and the layers it describes


def run(context: Context) -> Finding:
    cells = [_checked(*cell) for cell in _cells()]
    ece = [cell for cell in cells if cell["ece_least"] is not None and cell["ece_most"] < cell["ece_least"]]
    brier = [
        cell for cell in cells if cell["brier_least"] is not None and cell["brier_most"] < cell["brier_least"]
    ]
    caps = _caps()
    parameters = _parameters()
    verdicts = _verdicts(cells, ece, brier, caps, parameters)
    tables = (_table("ECE", "ece", ece), _table("Brier", "brier", brier), _caps_table(caps), _doubts())
    data = {"checked": len(cells), "ece": ece, "brier": brier, "caps": caps, "parameters": parameters}
    return Finding(tables, (), tuple(verdicts), {}, ("none: the paper's own figures",), data)


def _cells() -> list[tuple[str, str, str | None, str | None]]:
    """Table, data set, model and method of every printed cell with an accuracy."""
    found = dict.fromkeys(
        (q.artefact, q.data or "", q.model, q.method)
        for artefact in TABLES
        for q in quotes(artefact, quantity="accuracy")
    )
    return list(found)


def _checked(artefact: str, data: str, model: str | None, method: str | None) -> dict[str, Any]:
    def figure(quantity: str) -> Quote | None:
        return quote(artefact, quantity, data=data, model=model, method=method)

    accuracy, ece, brier, entropy = (figure(q) for q in ("accuracy", "ece", "brier", "entropy_bits"))
    assert accuracy is not None
    right = accuracy.value + _rounding(accuracy.value)
    least = None
    if ece is not None and entropy is not None:
        certain = least_confidence(entropy.value + _rounding(entropy.value))
        least = max(0.0, certain - right)
    return {
        "cell": f"{data_sets()[data].theirs}, {model or 'mean of models'}, {method}",
        "place": accuracy.place,
        "accuracy": accuracy.value,
        "entropy_bits": None if entropy is None else entropy.value,
        "ece": None if ece is None else ece.value,
        "ece_most": None if ece is None else ece.value + _rounding(ece.value),
        "ece_least": least,
        "brier": None if brier is None else brier.value,
        "brier_most": None if brier is None else brier.value + _rounding(brier.value),
        "brier_least": None if brier is None else max(0.0, 1 - right) / 2,
    }


def least_confidence(bits: float) -> float:
    """The least mean top probability that a mean entropy in bits allows, whatever the answers.

    Among answers of one entropy the top probability is least when the mass lies on as few equal shares as
    possible; over many answers mixtures of such points are reached too, so the bound is the lower convex
    hull of the points (log2 m, 1/m).
    """
    m = max(1, math.floor(2**bits + 1e-12))
    low, high = math.log2(m), math.log2(m + 1)
    share = (bits - low) / (high - low)
    return (1 - share) / m + share / (m + 1)


def _rounding(value: float) -> float:
    """Half a unit of the last digit printed."""
    text = f"{value:.6f}".rstrip("0")
    digits = max(1, len(text.split(".")[1]))
    return 0.5 * 10**-digits


def _caps() -> list[dict[str, Any]]:
    """The top probability printed for D-SMC with seven labels, and what each number of populations allows."""
    last = quotes("smc-dynamics", quantity="p_true", data="multicare")
    highest = max(last, key=lambda q: q.value)
    k = LABELS[highest.data or ""]
    return [
        {
            "populations": t,
            "labels": k,
            "cap": concentration_cap(k, t),
            "printed": highest.value,
            "place": highest.place,
        }
        for t in POPULATIONS
    ]


def _parameters() -> dict[str, Any]:
    sizes = [(EMBEDDING, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, LABELS["multicare"])]
    counted = sum(rows * columns + columns for rows, columns in sizes)
    printed = quote("abi-fidelity", "parameters", data="multicare", method="ABI")
    return {"counted": counted, "printed": None if printed is None else printed.value}


def _table(title: str, key: str, cells: list[dict[str, Any]]) -> Table:
    rows = [
        (
            cell["cell"],
            cell["place"],
            f"{cell['accuracy']:.3f}",
            "–" if cell["entropy_bits"] is None else f"{cell['entropy_bits']:g}",
            f"{cell[key]:g}",
            f"{cell[key + '_least']:.3f}",
        )
        for cell in cells
    ]
    columns = ("cell", "place", "accuracy", "entropy, bits", f"{title} as printed", "least it can be")
    said = {
        "ece": "Mean top probability minus accuracy, with the least top probability the entropy allows.",
        "brier": "As a sum over labels, which is what the larger of the paper's cells are.",
    }
    return Table(f"{title} below what the other figures of the cell allow", columns, tuple(rows), said[key])


def _caps_table(caps: list[dict[str, Any]]) -> Table:
    rows = [
        (str(c["populations"]), str(c["labels"]), f"{c['cap']:.3f}", f"{c['printed']:.2f}", c["place"])
        for c in caps
    ]
    columns = ("populations", "labels", "most a label can get", "as printed", "place")
    note = "Median tolerances under a flat Dirichlet prior."
    return Table("The top probability of D-SMC", columns, tuple(rows), note)


def _doubts() -> Table:
    """Every doubt on file, with the figures it touches."""
    touched: dict[str, list[Quote]] = {}
    for q in (q for name in artefacts() for q in quotes(name)):
        for why in q.doubts:
            touched.setdefault(why, []).append(q)
    rows = []
    for why, found in touched.items():
        places = ", ".join(dict.fromkeys(q.place for q in found))
        rows.append((f"{why[0].upper()}{why[1:]}.", places, str(len(found))))
    return Table(
        "Every contradiction noted beside our figures (†)", ("what", "where", "figures"), tuple(rows)
    )


def _verdicts(
    cells: list[dict[str, Any]],
    ece: list[dict[str, Any]],
    brier: list[dict[str, Any]],
    caps: list[dict[str, Any]],
    parameters: dict[str, Any],
) -> list[str]:
    with_entropy = sum(cell["ece_least"] is not None for cell in cells)
    with_brier = sum(cell["brier_least"] is not None for cell in cells)
    said = [
        f"{len(ece)} of {with_entropy} cells that print accuracy, entropy and ECE print an ECE below what "
        "the other "
        "two allow.",
        f"{len(brier)} of {with_brier} printed Brier scores are below what the accuracy beside them allows "
        "for a sum "
        "over labels, so they are means over labels or errors.",
    ]
    beyond = [c for c in caps if c["printed"] > c["cap"]]
    if beyond:
        said.append(
            f"D-SMC's printed {beyond[0]['printed']:.2f} is above the cap of {_joined(beyond, 'cap')} for "
            f"{_joined(beyond, 'populations')} populations: its sampler had another target than the one "
            "described."
        )
    if parameters["printed"] is not None and parameters["printed"] != parameters["counted"]:
        said.append(
            f"The amortised network as described has {parameters['counted']:,} parameters; the paper says "
            f"{parameters['printed']:,.0f}."
        )
    return said


def _joined(rows: list[dict[str, Any]], key: str) -> str:
    shown = [f"{row[key]:.2f}" if isinstance(row[key], float) else str(row[key]) for row in rows]
    return ", ".join(shown)
