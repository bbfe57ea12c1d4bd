"""A data set dealt into parts: stratified by label, no text on two sides.

Cases whose text is the same, spaces and case aside, form one unit, which goes to one part as a whole. Units
are shuffled within their label and dealt to the part that is furthest below its share.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput


def make_splits(
    dataset: Dataset, shares: Mapping[str, float], *, seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """Each part's cases, as sorted indices; the shares must sum to one."""
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise BadInput("the shares of a split must be positive and sum to one")
    units: dict[str, list[int]] = {}
    for i, case in enumerate(dataset.cases):
        units.setdefault(" ".join(case.text.lower().split()), []).append(i)
    rng = np.random.default_rng([seed, int(dataset.hash[:8], 16)])
    strata: dict[str, list[list[int]]] = {}
    for unit in units.values():
        # a unit's stratum is its commonest label, the first in the alphabet on a tie
        tally = Counter(dataset.cases[i].label or "" for i in unit)
        strata.setdefault(min(tally, key=lambda label: (-tally[label], label)), []).append(unit)
    parts: dict[str, list[int]] = {name: [] for name in shares}
    for label in sorted(strata):
        members = strata[label]
        # large units first: a small one can still mend the balance afterwards
        order = sorted(rng.permutation(len(members)).tolist(), key=lambda i: -len(members[i]))
        total, dealt = sum(map(len, members)), dict.fromkeys(shares, 0)
        for i in order:
            # furthest below its share of this label; on a tie, of the whole
            below = {
                name: (share * total - dealt[name], share * len(dataset.cases) - len(parts[name]))
                for name, share in shares.items()
            }
            chosen = max(below, key=below.__getitem__)
            parts[chosen].extend(members[i])
            dealt[chosen] += len(members[i])
    return {name: tuple(sorted(part)) for name, part in parts.items()}
