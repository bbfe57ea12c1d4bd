"""The HTTP service's rates: one process, then two replicas with one audit log. On an idle machine:

python benchmarks/service.py && python docs/tools/figures.py
"""

import json
from pathlib import Path

from simdx.bench import records
from simdx.bench.service import run

if __name__ == "__main__":
    record = records.heading("python benchmarks/service.py") | run() | {"two_replicas": run(replicas=2)}
    records.write_record(Path(__file__).parent / "results" / "service.json", record)
    print(json.dumps(record, indent=1))
