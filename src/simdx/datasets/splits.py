"""Splits of a data set as stored indices: stratified by label, whole groups, no text on two sides.

Cases that share a group (a patient, an article) or, spaces and case aside, the same text form one unit;
a unit goes to one part as a whole. Units are shuffled within their label and dealt to the part that is
furthest below its share. The file names the data set's hash: a split is never read against other cases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.types import content_hash

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Splits:
    """Named parts as sorted indices into one data set."""

    dataset: str
    hash: str
    seed: int
    group_field: str | None
    parts: Mapping[str, tuple[int, ...]]

    def part(self, dataset: Dataset, name: str) -> Dataset:
        if dataset.hash != self.hash:
            raise BadInput(f"these splits were made for other cases than those of {dataset.name}")
        if name not in self.parts:
            raise BadInput(f"there is no part '{name}'; the splits have {', '.join(self.parts)}")
        return dataset.subset(self.parts[name], f"{dataset.name}:{name}")

    def save(self, path: str | Path) -> None:
        """Write JSON through a rename, so that a reader never sees half a file."""
        path = Path(path)
        record = {
            "format": FORMAT,
            "dataset": self.dataset,
            "hash": self.hash,
            "seed": self.seed,
            "group_field": self.group_field,
            "parts": {name: list(index) for name, index in self.parts.items()},
        }
        write_atomically(path, json.dumps(record, indent=1))


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
    return Splits(
        dataset.name, dataset.hash, seed, group_field, {name: tuple(sorted(p)) for name, p in parts.items()}
    )


def load_splits(path: str | Path, dataset: Dataset) -> Splits:
    """Read stored splits and check them against the cases: same hash, disjoint by index and by text."""
    path = Path(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        splits = Splits(
            str(record["dataset"]),
            str(record["hash"]),
            int(record["seed"]),
            record["group_field"],
            {str(k): tuple(int(i) for i in v) for k, v in record["parts"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise BadInput(f"{path.name} is not a readable splits file") from None
    if record.get("format") != FORMAT:
        raise BadInput(f"{path.name} has the splits format {record.get('format')}, not {FORMAT}")
    if splits.hash != dataset.hash:
        raise BadInput(f"{path.name} was made for other cases than those of {dataset.name}")
    owner: dict[str, str] = {}
    used: set[int] = set()
    for name, index in splits.parts.items():
        for i in index:
            if not 0 <= i < len(dataset.cases) or i in used:
                raise BadInput(f"{path.name}: index {i} is out of range or used twice")
            used.add(i)
            if owner.setdefault(_content(dataset.cases[i].text), name) != name:
                raise BadInput(f"{path.name}: one text is in two parts")
    return splits


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
