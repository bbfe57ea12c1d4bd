"""Data sets: one file per data set, readers of JSONL, CSV and Parquet, splits."""

from simdx.datasets.dataset import Benchmark, Dataset
from simdx.datasets.files import Columns, read_cases
from simdx.datasets.multicare import load_multicare, read_rule
from simdx.datasets.oral import load_oral
from simdx.datasets.registry import open_data
from simdx.datasets.splits import make_splits
from simdx.datasets.symptoms import load_symptoms

__all__ = [
    "Benchmark",
    "Columns",
    "Dataset",
    "load_multicare",
    "load_oral",
    "load_symptoms",
    "make_splits",
    "open_data",
    "read_cases",
    "read_rule",
]
