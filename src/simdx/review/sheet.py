"""The key of a review, kept by its organiser: which case hides behind which code of which form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simdx.errors import BadInput

FORMAT = 1
KEY_FILE = "review.json"
SCALES: dict[str, str] = {
    "completeness": "Are the features needed for a diagnosis there: morphology, course over time, site?",
    "correctness": "Is this constellation of findings medically plausible?",
}
LOWEST, HIGHEST, ACCEPTED = 1, 5, 4


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """What was sent out. `order[reviewer]` lists case ids as that reviewer's form numbers them."""

    folder: Path
    review: str  # identity of this review; forms carry it and answers must
    dataset: str
    scores_file: str  # where the scores go: beside the data
    labels: tuple[str, ...]
    hashes: Mapping[str, str]  # case id -> hash of the text that was sent out
    gold: Mapping[str, str | None]
    order: Mapping[str, tuple[str, ...]]
    seed: int
    label_shown: bool

    def case_of(self, reviewer: str, code: str) -> str:
        """The case behind a code such as "017"; anything else is refused."""
        cases = self.order[reviewer]
        if not code.isdecimal() or not 1 <= int(code) <= len(cases):
            raise BadInput(f"'{code[:20]}' is not a code of {reviewer}'s form")
        return cases[int(code) - 1]

    def to_json(self) -> str:
        record = {
            "format": FORMAT,
            "review": self.review,
            "dataset": self.dataset,
            "scores_file": self.scores_file,
            "labels": list(self.labels),
            "seed": self.seed,
            "label_shown": self.label_shown,
            "cases": {i: {"hash": h, "label": self.gold[i]} for i, h in self.hashes.items()},
            "order": {reviewer: list(ids) for reviewer, ids in self.order.items()},
        }
        return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def open_review(folder: str | Path) -> ReviewSheet:
    """The key of a review made earlier."""
    path = Path(folder) / KEY_FILE
    if not path.is_file():
        raise BadInput(f"{folder} holds no review: make one with 'simdx review make'")
    try:
        r = json.loads(path.read_text(encoding="utf-8"))
        if r["format"] != FORMAT:
            raise BadInput(f"{path} has the review format {r['format']}, this version reads {FORMAT}")
        sheet = ReviewSheet(
            folder=path.parent,
            review=r["review"],
            dataset=r["dataset"],
            scores_file=r["scores_file"],
            labels=tuple(r["labels"]),
            hashes={i: c["hash"] for i, c in r["cases"].items()},
            gold={i: c["label"] for i, c in r["cases"].items()},
            order={name: tuple(ids) for name, ids in r["order"].items()},
            seed=int(r["seed"]),
            label_shown=bool(r["label_shown"]),
        )
        _check_kinds(sheet)
        return sheet
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise BadInput(f"{path} is not a readable review key") from None


def _check_kinds(sheet: ReviewSheet) -> None:
    """TypeError or KeyError where a key file that can be read says something that is no review."""
    ids = [i for order in sheet.order.values() for i in order]
    named = (sheet.review, sheet.dataset, sheet.scores_file, *sheet.labels, *sheet.hashes.values(), *ids)
    if not all(isinstance(v, str) for v in named):
        raise TypeError
    if not all(v is None or isinstance(v, str) for v in sheet.gold.values()):
        raise TypeError
    _ = [sheet.hashes[i] for i in ids]
