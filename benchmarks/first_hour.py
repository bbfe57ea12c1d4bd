"""Three panels of one's own, made as the README says, in an empty folder with an empty cache.

    python benchmarks/first_hour.py        writes the part `three_panels` of results/first_hour/record.json

Cases and replies (`results/first_hour/`) were written before any of them was asked: the cases from the labels
alone, the replies from the printed prompts alone.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simdx.bench import records

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "results/first_hour"
SURE = 0.8
NONE = "none of these"
LABELS = {
    "facial-pain": ["medication-overuse headache", "giant cell arteritis", "trigeminal neuralgia"],
    "provider": ["slow connection", "no connection", "invoice question", "moving house", "cancel contract"],
    "knees": ["meniscal tear", "ACL rupture", "knee osteoarthritis", "patellar dislocation", "runner's knee"],
}
ANSWER = """
import json, sys
from simdx import Classifier
classifier = Classifier(sys.argv[1])
texts = [json.loads(line)["text"] for line in open(sys.argv[2], encoding="utf-8")]
frame = classifier.infer_batch(texts, decisions=True).to_frame()
for label, action, row in zip(frame["label"], frame["action"], frame[list(classifier.classes_)].to_numpy()):
    print(json.dumps({"label": label, "action": action, "probability": round(float(row.max()), 2)}))
"""


def main() -> None:
    cases = [json.loads(line) for line in (HERE / "cases.jsonl").read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        os.environ["SIMDX_HOME"] = str(where / "home")
        rows, answers = [], {}
        for name in LABELS:
            own = [case for case in cases if case["panel"] == name]
            written = "".join(json.dumps({k: case[k] for k in ("text", "label")}) + "\n" for case in own)
            (where / f"{name}.jsonl").write_text(written, "utf-8")
            rows += [typed(args, where) for args in commands(name, own[0]["text"])]
            asked = [sys.executable, "-c", ANSWER, f"{name}.yaml", f"{name}.jsonl"]
            said = subprocess.run(asked, cwd=where, capture_output=True, text=True, check=True).stdout
            answers[name] = counted(own, [json.loads(line) for line in said.splitlines()])
    record = json.loads((HERE / "record.json").read_text("utf-8"))
    made = records.heading("python benchmarks/first_hour.py")
    record["three_panels"] = made | {"rows": rows, "answers": answers}
    records.write_record(HERE / "record.json", record)


def commands(name: str, text: str) -> Iterator[list[str]]:
    file, reply = f"{name}.yaml", HERE / f"reply-{name}.txt"
    labels = [part for label in LABELS[name] for part in ("--label", label)]
    yield ["panel", "new", file, *(["--register", "general"] if name == "provider" else []), *labels]
    if reply.exists():
        yield ["bank", "ask", "--panel", file, "--out", f"{name}-prompt.txt"]
        yield ["bank", "import", file, str(reply)]
    yield ["classify", text, "--panel", file]
    yield ["panel", "status", file]
    yield ["evaluate", "--panel", file, "--data", f"{name}.jsonl"]


def typed(args: list[str], where: Path) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "simdx", *args]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = shlex.join(["simdx", *args]).replace(f"{HERE}/", "")
    last = (done.stdout + done.stderr).strip().splitlines()[-1]
    return {"command": said, "exit": done.returncode, "cpu_s": round(spent, 1), "last_line": last}


def counted(cases: list[dict[str, Any]], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """How many were right; and what was wrong although it was sure."""
    rows = [{**a, "text": c["text"], "truth": c["label"]} for c, a in zip(cases, answers, strict=True)]
    wrong = [row for row in rows if row["label"] != row["truth"]]
    outside = [row for row in rows if row["truth"] == NONE]
    missed = [row for row in wrong if row["truth"] == NONE]
    return {
        "inside": len(rows) - len(outside),
        "inside_right": len(rows) - len(outside) - (len(wrong) - len(missed)),
        "outside": len(outside),
        "outside_right": len(outside) - len(missed),
        "accepted": sum(row["action"] == "accept" for row in rows),
        "sure_and_wrong": [row for row in wrong if row["probability"] >= SURE],
    }


if __name__ == "__main__":
    main()
