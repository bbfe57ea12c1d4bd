"""Panel intervals of `validate.yaml`, made anew from the committed record of the panels.

    python -m benchmarks.validate_renew

To be run when a change of the recipe is meant and `results/panels` has been recorded again; the calibration
intervals come from theory and stay as they are.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.validate_figures import METRICS, PANELS

HERE = Path(__file__).resolve().parent
RECORD = HERE.parent / "results" / "panels" / "record.json"
INTERVALS = HERE / "validate.yaml"
HEAD = """# The intervals `make validate` holds figures to, and where each comes from.
# Calibration: p-values of rank uniformity at fixed seeds must not fall below one in a thousand (and must,
# where the observation is not perturbed); coverage lies within three binomial standard errors of .9.
# Panels: made by benchmarks/validate_renew.py from results/panels/record.json.
"""


def panel_intervals(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The bootstrap interval of every figure, and for out-of-class AUROC one by its standard error."""
    for panel, folder in PANELS.items():
        for method, metrics in METRICS.items():
            run = default_run(record, panel, method)
            needs = {"needs": folder} if folder else {}
            for metric in metrics:
                low, high = run["ci"][metric]
                source = f"95 % bootstrap, results/panels/record.json at {record['commit']}"
                yield f"{panel}/{method}/{metric}", {"low": low, "high": high, "from": source, **needs}
            if method == "auto":
                area = run["ood"]["auroc"]
                reach = 1.96 * auroc_error(area, run["ood"]["n"], run["n"])
                source = f"95 % by Hanley and McNeil, results/panels/record.json at {record['commit']}"
                bounds = {"low": area - reach, "high": min(1.0, area + reach), "from": source}
                yield f"{panel}/{method}/ood_auroc", {**bounds, **needs}


def default_run(record: Mapping[str, Any], panel: str, method: str) -> Mapping[str, Any]:
    """The run with nothing chosen: the panel's own embedder, exact, the method's own kernel."""
    (run,) = (
        run
        for run in record["runs"]
        if (run["panel"], run["method"]) == (panel, method)
        and not (run.get("engine") or run.get("kernel"))
        and run["embedder"].startswith("wordllama/")
        and "+" not in run["embedder"]
    )
    return run


def auroc_error(area: float, n_positive: int, n_negative: int) -> float:
    """Hanley and McNeil's standard error of an AUROC."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (n_positive - 1) * (q1 - area**2) + (n_negative - 1) * (q2 - area**2)
    return math.sqrt(spread / (n_positive * n_negative))


def main() -> None:
    figures = yaml.safe_load(INTERVALS.read_text(encoding="utf-8"))["figures"]
    kept = {name: interval for name, interval in figures.items() if "/" not in name}
    new = dict(panel_intervals(json.loads(RECORD.read_text(encoding="utf-8"))))
    lines = [HEAD, "figures:\n"]
    for name, interval in {**kept, **new}.items():
        bounds = f"low: {interval['low']:.4g}, high: {interval['high']:.4g}"
        needs = f", needs: {interval['needs']}" if "needs" in interval else ""
        lines.append(f"  {name}: {{{bounds}, from: {json.dumps(interval['from'])}{needs}}}\n")
    INTERVALS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
