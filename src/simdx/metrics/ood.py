"""Out-of-class detection: does a score separate cases of the panel from cases of none of its labels?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.scores import auroc
from simdx.metrics.value import Value, undefined


@dataclass(frozen=True, slots=True)
class OutOfClass:
    """AUROC of a score (higher means out of class), overall and per kind of out-of-class case."""

    n: int
    auroc: Value
    by: dict[str, tuple[int, Value]] = field(default_factory=dict)


def ood_auroc(inside: ArrayLike, outside: ArrayLike) -> Value:
    """Probability that an out-of-class case scores above a case of the panel, ties one half."""
    a, b = np.asarray(inside, dtype=float), np.asarray(outside, dtype=float)
    if not a.size:
        return undefined("there are no cases of the panel to compare with")
    if not b.size:
        return undefined("there are no out-of-class cases")
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise BadInput("out-of-class scores must be finite")
    return auroc(np.concatenate([a, b]), np.r_[np.zeros(a.size, bool), np.ones(b.size, bool)])


def out_of_class(inside: ArrayLike, outside: ArrayLike, by: Sequence[str] | None = None) -> OutOfClass:
    """The overall AUROC and, where kinds are given, one per kind against the same panel cases."""
    b = np.asarray(outside, dtype=float)
    kinds: dict[str, tuple[int, Value]] = {}
    if by is not None:
        if len(by) != b.size:
            raise BadInput(f"there are {b.size} out-of-class scores but {len(by)} kinds")
        names = np.asarray(by, dtype=object)
        for name in sorted(set(by)):
            chosen = names == name
            kinds[name] = (int(chosen.sum()), ood_auroc(inside, b[chosen]))
    return OutOfClass(int(b.size), ood_auroc(inside, b), kinds)
