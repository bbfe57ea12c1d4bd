"""Data sets: readers of JSONL, CSV and Parquet, some sets by name, splits; `open_data` by name or path."""

from simdx.datasets.dataset import Benchmark, Dataset, make_splits
from simdx.datasets.files import Columns, read_cases
from simdx.datasets.multicare import load_multicare, read_rule
from simdx.datasets.named import load_oral, load_symptoms, open_data
