"""The HTTP service's rates: one process, then two replicas with one audit log. On an idle machine:

python benchmarks/service.py && python docs/tools/figures.py
"""

import json
from pathlib import Path

from simdx.bench.service import run
from simdx.runs import current_commit

if __name__ == "__main__":
    record = {"command": "python benchmarks/service.py", "commit": current_commit(), **run()}
    record["two_replicas"] = run(replicas=2)
    text = json.dumps(record, indent=1) + "\n"
    (Path(__file__).parent / "results" / "service.json").write_text(text, encoding="utf-8")
    print(text, end="")
