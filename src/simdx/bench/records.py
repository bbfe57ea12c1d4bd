"""What the scripts of `benchmarks/` share: panels with their cases, a few figures, and their records."""

import json
from argparse import ArgumentParser, RawTextHelpFormatter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from simdx.datasets import read_cases
from simdx.datasets.dataset import Dataset
from simdx.metrics.calibration import ece
from simdx.metrics.scores import ood_auroc
from simdx.runs import current_commit
from simdx.types import Float, Int

# Where a data folder holds the cases of each packaged panel, and its cases of no label.
CASES = {
    "symptom-to-diagnosis": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "oral-lesions": ("oral/vignettes.jsonl", "oral/ood.jsonl"),
    "case-reports": ("pmc/cases.jsonl", "pmc/ood.jsonl"),
}


class Cases(NamedTuple):
    """A panel's labelled cases with the positions of their labels, and texts of no label."""

    dataset: Dataset
    truth: Int
    outside: list[str]

    @property
    def texts(self) -> list[str]:
        return list(self.dataset.texts)


def cases_of(labels: tuple[str, ...], inside: Path, outside: Path | None = None) -> Cases:
    """BadInput where a file that is named is missing or holds another label."""
    dataset = read_cases(inside, labels=labels)
    beyond = [] if outside is None else list(read_cases(outside, labelled=False).texts)
    return Cases(dataset, dataset.label_index(labels), beyond)


def parser(about: str) -> ArgumentParser:
    return ArgumentParser(description=about, formatter_class=RawTextHelpFormatter)


def heading(command: str) -> dict[str, Any]:
    """How a record begins: what made it, and from which commit."""
    return {"command": command, "commit": current_commit()}


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def accuracy(p: Float, truth: Int) -> float:
    return float((p.argmax(axis=1) == truth).mean())


def calibration_error(p: Float, truth: Int) -> float:
    return float(ece(p, truth).value or 0.0)


def outside_auroc(inside: Float, outside: Float) -> float | None:
    """How well a sign of none of these tells cases of no label from the panel's own."""
    return ood_auroc(inside, outside).value


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table's lines in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
