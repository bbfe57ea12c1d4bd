"""Splits of a data set: stratified by label, whole groups, no text on two sides.

Cases that share a group (a patient, an article) or, spaces and case aside, the same text form one unit;
a unit goes to one part as a whole. Units are shuffled within their label and dealt to the part that is
furthest below its share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from simdx.types import content_hash


@dataclass(frozen=True, slots=True)
class Splits:
    """Named parts as sorted indices into one data set."""

    hash: str  # of the data set
    parts: Mapping[str, tuple[int, ...]]

    def part(self, dataset: Dataset, name: str) -> Dataset:
        if dataset.hash != self.hash:
            raise BadInput(f"these splits were made for other cases than those of {dataset.name}")
        if name not in self.parts:
            raise BadInput(f"there is no part '{name}'; the splits have {', '.join(self.parts)}")
        return dataset.subset(self.parts[name], f"{dataset.name}:{name}")


def make_splits(
    dataset: Dataset, shares: Mapping[str, float], *, seed: int = 0, group_field: str | None = None
) -> Splits:
    """Deal the cases to parts in the given shares (they must sum to one)."""
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise BadInput("the shares of a split must be positive and sum to one")
    no_groups: list[object] = [None] * len(dataset.cases)
    groups = dataset.field(group_field) if group_field is not None else no_groups
    units = _units(dataset, groups)
    rng = np.random.default_rng([seed, int(dataset.hash[:8], 16)])
    strata: dict[str, list[list[int]]] = {}
    for unit in units:
        # a unit's stratum is its commonest label, the first in the alphabet on a tie
        tally = Counter(dataset.cases[i].label or "" for i in unit)
        strata.setdefault(min(tally, key=lambda label: (-tally[label], label)), []).append(unit)
    parts: dict[str, list[int]] = {name: [] for name in shares}
    overall = dict.fromkeys(shares, 0)
    for label in sorted(strata):
        members = strata[label]
        # large units first: a small one can still mend the balance afterwards
        order = sorted(rng.permutation(len(members)).tolist(), key=lambda i: -len(members[i]))
        total, dealt = sum(map(len, members)), dict.fromkeys(shares, 0)
        for i in order:
            # furthest below its share of this label; on a tie, of the whole
            below = {
                name: (share * total - dealt[name], share * len(dataset.cases) - overall[name])
                for name, share in shares.items()
            }
            chosen = max(below, key=below.__getitem__)
            parts[chosen].extend(members[i])
            dealt[chosen] += len(members[i])
            overall[chosen] += len(members[i])
    return Splits(dataset.hash, {name: tuple(sorted(part)) for name, part in parts.items()})


def _units(dataset: Dataset, groups: list[object]) -> list[list[int]]:
    """Connected components of "same group or same text", in order of their first case (union–find)."""
    parent = list(range(len(dataset.cases)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[str, str], int] = {}
    for i, case in enumerate(dataset.cases):
        keys = [("text", _content(case.text))]
        if groups[i] is not None:
            keys.append(("group", str(groups[i])))
        for key in keys:
            j = root(first.setdefault(key, i))
            parent[max(root(i), j)] = min(root(i), j)
    members: dict[int, list[int]] = {}
    for i in range(len(dataset.cases)):
        members.setdefault(root(i), []).append(i)
    return list(members.values())


def _content(text: str) -> str:
    return content_hash("split", " ".join(text.lower().split()))
