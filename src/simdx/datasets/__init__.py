"""Data sets: one file each, readers of JSONL, CSV and Parquet, splits; `open_data` by name or path."""

import os
from collections.abc import Sequence
from pathlib import Path

from simdx.datasets.dataset import Benchmark, Dataset, make_splits
from simdx.datasets.files import Columns, read_cases
from simdx.datasets.multicare import load_multicare, read_rule
from simdx.datasets.oral import load_oral
from simdx.datasets.symptoms import load_symptoms
from simdx.errors import BadInput

NAMED = {"oral-lesions": load_oral, "symptom-to-diagnosis": load_symptoms}


def open_data(
    source: str | Path, *, columns: Columns | None = None, labels: Sequence[str] | None = None
) -> Benchmark:
    """A data set by name, else a file; a file that exists wins over a name."""
    name = str(source)
    if os.path.isfile(source):  # False, and no error, for a name no file can have
        return Benchmark(read_cases(source, columns=columns, labels=labels))
    if name in NAMED:
        return NAMED[name]()
    if os.path.isdir(source):
        raise BadInput(f"{name[:200]} is a folder: give one of the files in it")
    raise BadInput(f"there is no file at {name[:200]}, nor a data set of that name ({', '.join(NAMED)})")
