"""A run killed without warning goes on where it stopped and ends with the same numbers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from simdx.runs import Store
from simdx.runs.store import PARTS

SCRIPT = """
import sys, time
from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.evaluate import evaluate

classifier = Classifier("oral-lesions", embedder="hashing")
answer, pause, calls = classifier.infer_batch_observed, float(sys.argv[3]), []

def slowly(observations, prior=None):
    time.sleep(pause)
    calls.append(len(observations.texts))
    return answer(observations, prior)

classifier.infer_batch_observed = slowly
evaluate(classifier, read_cases(sys.argv[1]), out=sys.argv[2], resamples=100)
print(len(calls))
"""


@pytest.mark.slow
def test_sigkill_and_resume(tmp_path):
    data = tmp_path / "cases.jsonl"
    labels = ("oral mucocele", "atrophic glossitis", "oral squamous cell carcinoma")
    rows = [{"id": str(i), "text": f"lump {i} of lip {i % 7}", "label": labels[i % 3]} for i in range(3000)]
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")

    def start(out, pause):
        command = [sys.executable, "-c", SCRIPT, str(data), str(out), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    killed = start(tmp_path / "a", 1.0)
    end = time.monotonic() + 60
    while not list((tmp_path / "a" / PARTS).glob("*/*.safetensors")) and time.monotonic() < end:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "a" / "metrics.json").exists()

    resumed, whole = start(tmp_path / "a", 0), start(tmp_path / "b", 0)
    computed = [int(p.communicate(timeout=120)[0]) for p in (resumed, whole)]
    assert 0 < computed[0] < computed[1] == 6
    first, second = (Store(tmp_path / d, "").read("metrics") for d in "ab")
    assert (first.found, first.identity) == (second.found, second.identity)
