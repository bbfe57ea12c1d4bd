"""Draw the sweeps of benchmarks/results/gpu.json: every engine beside its bare matrix product.

python benchmarks/gpu_plot.py
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results"
SWEEPS = {
    "cases": ("sweep_cases", "cases in a batch"),
    "K": ("sweep_labels", "labels (100 simulations each)"),
    "per_label": ("sweep_simulations", "simulations per label"),
    "d": ("sweep_dimensions", "dimensions"),
}
LINES = {
    "product_us": ("matrix product alone", "0.5"),
    "soft_us": ("soft M", "C0"),
    "hard_us": ("hard M", "C1"),
}


def main() -> None:
    record = json.loads((RESULTS / "gpu.json").read_text())
    plt.rcParams["svg.hashsalt"] = "simdx"  # the same record gives the same file
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.6))
    for panel, (field, (sweep, title)) in zip(panels, SWEEPS.items(), strict=True):
        rows = sorted(record[sweep], key=lambda row: row[field])
        for key, (name, colour) in LINES.items():
            for precision, style in (("float32", "-"), ("bfloat16", "--")):
                points = [(r[field], r[precision][key]) for r in rows if key in r.get(precision, {})]
                label = f"{name}, {'TF32' if precision == 'float32' else 'bf16'}"
                panel.plot(*zip(*points, strict=True), style, color=colour, marker=".", label=label)
        panel.set_xscale("log", base=2 if field in ("cases", "d") else 10)
        panel.set_yscale("log")
        panel.set_xlabel(title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("microseconds per case")
    panels[0].legend(frameon=False, fontsize=7)
    figure.suptitle(f"{record['device']}, torch {record['torch']}, commit {record['commit']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(RESULTS / "gpu.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
