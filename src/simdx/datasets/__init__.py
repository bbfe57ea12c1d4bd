"""Data sets: one file each, readers of JSONL, CSV and Parquet, splits; `open_data` by name or path."""

import os
from collections.abc import Sequence
from pathlib import Path

from simdx.datasets.dataset import Benchmark, Dataset
from simdx.datasets.files import Columns, read_cases
from simdx.datasets.multicare import load_multicare, read_rule
from simdx.datasets.oral import load_oral
from simdx.datasets.splits import make_splits
from simdx.datasets.symptoms import load_symptoms
from simdx.errors import BadInput

NAMED = ("oral-lesions", "symptom-to-diagnosis")


def open_data(
    source: str | Path, *, columns: Columns | None = None, labels: Sequence[str] | None = None
) -> Benchmark:
    """A data set by name, else a file; a file that exists wins over a name."""
    path = Path(source)
    if os.path.isfile(path):  # False, and no error, for a name no file can have
        return Benchmark(read_cases(path, columns=columns, labels=labels))
    if str(source) == "oral-lesions":
        return load_oral()
    if str(source) == "symptom-to-diagnosis":
        return load_symptoms()
    if os.path.isdir(path):
        raise BadInput(f"{str(source)[:200]} is a folder: give one of the files in it")
    raise BadInput(
        f"there is no file at {str(source)[:200]}, nor a data set of that name ({', '.join(NAMED)})"
    )
