"""Does `--device cuda` give the answers of numpy? The whole way, from texts to posteriors, on every panel.

    SIMDX_DATA=… python benchmarks/front_door.py --out benchmarks/results/gpu_front_door.json

Hard kernels are computed in single precision and soft ones by the fused kernel in reduced precision, so the
differences are those of the arithmetic; `same_top_label` is the share of cases whose likeliest label is the
same. Panels whose cases are not at hand are left out.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simdx.classifier import Classifier
from simdx.datasets.files import read_cases
from simdx.datasets.oral import load_oral
from simdx.experiments.records import versions


def texts_by_panel(data: str | None) -> dict[str, tuple[str, ...]]:
    found = {"oral-lesions": load_oral().cases.texts}
    for panel, folder in (("symptom-to-diagnosis", "sd"), ("case-reports", "pmc")):
        if data and (path := Path(data) / folder / "cases.jsonl").is_file():
            found[panel] = read_cases(path).texts
    return found


def compare(panel: str, texts: tuple[str, ...], method: str, kernel: str, device: str) -> dict[str, Any]:
    host = Classifier(panel, method=method, kernel=kernel).infer_batch(texts).posterior_in_class
    there = (
        Classifier(panel, method=method, kernel=kernel, device=device).infer_batch(texts).posterior_in_class
    )
    gap = np.abs(host - there)
    return {
        "panel": panel,
        "method": method,
        "kernel": kernel,
        "cases": len(texts),
        "largest_difference": float(gap.max()),
        "mean_difference": float(gap.mean()),
        "same_top_label": float((host.argmax(1) == there.argmax(1)).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    rows = []
    for panel, texts in texts_by_panel(os.environ.get("SIMDX_DATA")).items():
        for method in ("m-smc", "d-smc"):
            for kernel in ("soft", "hard"):
                rows.append(compare(panel, texts, method, kernel, args.device))
                print(rows[-1], flush=True)
    device = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    record = {"device": device, "versions": versions(), "rows": rows}
    args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
