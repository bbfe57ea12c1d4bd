"""The toy job as a process of its own, to be killed: INPUT OUTPUT ADDRESS, or `processes` as the address."""

import sys

from simdx.abc.prior import Prior
from simdx.methods import Settings
from simdx.scale.blocks import ParquetSource
from simdx.scale.classify import Job, classify_parquet
from simdx.scale.cluster import InProcesses, OnRay, connected
from tests.builders import toy_bank, toy_panel

if __name__ == "__main__":
    source, output, address = sys.argv[1:]
    panel = toy_panel()
    bank = toy_bank()
    job = Job(panel, bank, Settings(), None, Prior.uniform(3))
    if address == "processes":
        classify_parquet(job, ParquetSource(source), output, InProcesses(2), block_rows=5)
        sys.exit()
    with connected(address, allow_remote=True):
        classify_parquet(job, ParquetSource(source), output, OnRay(1, 1, 0.5), block_rows=40)
