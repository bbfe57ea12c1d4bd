"""Does `--device cuda` give the answers of numpy? The whole way, from texts to answers, on every panel.

    SIMDX_DATA=… python benchmarks/front_door.py --out benchmarks/results/gpu_front_door.json

Hard kernels are computed in single precision and soft ones by the fused kernel in reduced precision, so the
differences are those of the arithmetic; `same_top_label` is the share of cases whose likeliest label is the
same. Typicality is a p-value, a rank among the bank's own distances: rounding moves it by a rank. ABI's
network is trained on the spot, the same for both. Panels whose cases are not at hand are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simdx.amortised.network import save
from simdx.amortised.train import TrainSettings, train
from simdx.classifier import Classifier
from simdx.datasets.files import read_cases
from simdx.datasets.oral import load_oral
from simdx.experiments.records import versions
from simdx.types import SecondOrder


def texts_by_panel(data: str | None) -> dict[str, tuple[str, ...]]:
    found = {"oral-lesions": load_oral().cases.texts}
    for panel, folder in (("symptom-to-diagnosis", "sd"), ("case-reports", "pmc")):
        if data and (path := Path(data) / folder / "cases.jsonl").is_file():
            found[panel] = read_cases(path).texts
    return found


def compare(
    panel: str, texts: tuple[str, ...], method: str, kernel: str | None, device: str, **about: Any
) -> dict[str, Any]:
    on_host = Classifier(panel, method=method, kernel=kernel, **about).infer_batch(texts)
    on_device = Classifier(panel, method=method, kernel=kernel, device=device, **about).infer_batch(texts)
    host, there = on_host.posterior_in_class, on_device.posterior_in_class
    gap = np.abs(host - there)
    return {
        "panel": panel,
        "method": method,
        "kernel": kernel,
        "cases": len(texts),
        "largest_difference": float(gap.max()),
        "mean_difference": float(gap.mean()),
        "same_top_label": float((host.argmax(1) == there.argmax(1)).mean()),
        "typicality_largest_difference": float(np.abs(on_host.typicality - on_device.typicality).max()),
        "typicality_mean_difference": float(np.abs(on_host.typicality - on_device.typicality).mean()),
        **second_order_gap(on_host.second_order, on_device.second_order),
    }


def second_order_gap(host: SecondOrder | None, there: SecondOrder | None) -> dict[str, float]:
    if host is None or there is None:
        return {}
    pairs = {n: (getattr(host, n), getattr(there, n)) for n in ("aleatoric_bits", "epistemic_bits")}
    return {f"{name}_largest_difference": float(np.abs(a - b).max()) for name, (a, b) in pairs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def add(row: dict[str, Any]) -> None:
        print(row, flush=True)
        rows.append(row)
        record = {"device": device, "versions": versions(), "rows": rows}  # after every row: machines go away
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    device = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    for panel, texts in texts_by_panel(os.environ.get("SIMDX_DATA")).items():
        for method in ("m-smc", "d-smc"):
            for kernel in ("soft", "hard"):
                add(compare(panel, texts, method, kernel, args.device))
        with tempfile.TemporaryDirectory() as folder:
            save(train(Classifier(panel, method="d-smc").material, TrainSettings()), Path(folder) / "net")
            network = str(Path(folder) / "net")
            add(compare(panel, texts, "abi", None, args.device, network=network))


if __name__ == "__main__":
    main()
