"""The paper's printed cells held against what must hold between them."""

import math
from typing import Any

from paper.context import Context
from paper.spec import Measured
from paper.theirs import data_sets, quote, quotes
from paper.world import labels_of
from simdx.abc.second_order import concentration_cap

TABLES = ("main-results", "distribution-aware")
POPULATIONS = (3, 5, 8)  # the paper names all three
EMBEDDING, HIDDEN = 3072, 256  # text-embedding-3-large, and the layers it describes


def checked(_: Context) -> Measured:
    printed = dict.fromkeys(
        (q.artefact, q.data or "", q.model, q.method)
        for artefact in TABLES
        for q in quotes(artefact, quantity="accuracy")
    )
    cells = [_cell(*one) for one in printed]
    data: dict[str, Any] = {"checked": len(cells), "caps": _caps(), "parameters": _parameters()}
    for name, count in (("ece", "with_entropy"), ("brier", "with_brier")):
        known = [cell for cell in cells if cell[f"{name}_least"] is not None]
        data[count] = len(known)
        data[name] = [cell for cell in known if cell[f"{name}_most"] < cell[f"{name}_least"]]
    return Measured(data, {}, ("none: the paper's own figures",))


def _cell(artefact: str, data: str, model: str | None, method: str | None) -> dict[str, Any]:
    found = {
        name: quote(artefact, name, data=data, model=model, method=method)
        for name in ("accuracy", "ece", "brier", "entropy_bits")
    }
    value = {name: None if q is None else q.value for name, q in found.items()}
    most = {name: None if v is None else v + _rounding(v) for name, v in value.items()}
    assert found["accuracy"] is not None
    right, bits = most["accuracy"] or 0.0, most["entropy_bits"]
    bounded = value["ece"] is not None and bits is not None
    return {
        "cell": f"{data_sets()[data].theirs}, {model or 'mean of models'}, {method}",
        "place": found["accuracy"].place,
        **value,
        "ece_most": most["ece"],
        "ece_least": max(0.0, least_confidence(bits) - right) if bounded and bits is not None else None,
        "brier_most": most["brier"],
        "brier_least": None if value["brier"] is None else max(0.0, 1 - right) / 2,
    }


def least_confidence(bits: float) -> float:
    """The least mean top probability that a mean entropy in bits allows, whatever the answers.

    Among answers of one entropy the top probability is least when the mass lies on as few equal shares as
    possible; over many answers mixtures of such points are reached too, so the bound is the lower convex hull
    of the points (log2 m, 1/m).
    """
    m = max(1, math.floor(2**bits + 1e-12))
    low, high = math.log2(m), math.log2(m + 1)
    share = (bits - low) / (high - low)
    return (1 - share) / m + share / (m + 1)


def _rounding(value: float) -> float:
    """Half a unit of the last digit printed."""
    return 0.5 * 10 ** -max(1, len(f"{value:.6f}".rstrip("0").split(".")[1]))


def _caps() -> list[dict[str, Any]]:
    """The top probability printed for D-SMC, and what each number of populations allows."""
    top = max(quotes("smc-dynamics", quantity="p_true", data="multicare"), key=lambda q: q.value)
    k = len(labels_of(data_sets()[top.data or ""].panel))
    about = {"labels": k, "printed": top.value, "place": top.place}
    return [{"populations": t, "cap": concentration_cap(k, t), **about} for t in POPULATIONS]


def _parameters() -> dict[str, Any]:
    k = len(labels_of(data_sets()["multicare"].panel))
    sizes = [(EMBEDDING, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, k)]
    printed = quote("abi-fidelity", "parameters", data="multicare", method="ABI")
    counted = sum(rows * columns + columns for rows, columns in sizes)
    return {"counted": counted, "printed": None if printed is None else printed.value}
