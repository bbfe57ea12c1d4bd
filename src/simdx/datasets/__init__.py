"""Data sets: readers of JSONL, CSV and Parquet, some sets by name, splits; `open_data` by name or path."""

from simdx.datasets.dataset import Benchmark, Columns, Dataset, make_splits, read_cases
from simdx.datasets.named import load_multicare, load_oral, load_symptoms, open_data, read_rule
