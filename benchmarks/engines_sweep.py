"""How the exact engines scale: cases, labels, simulations, memory. Writes a record and a plot.

    OMP_NUM_THREADS=2 python benchmarks/engines_sweep.py [--quick] [--out benchmarks/results]

Three sweeps around K=6, 1000 simulations per label, d=384: 1,000 to 100,000 cases, 3 to 1,000 labels
(100 simulations each) and 10 to 10,000 simulations per label. Cost per case must stay flat in the first
and grow no faster than linearly in the others; peak extra memory is read from the kernel in a child
process that does nothing else, at 100,000 cases.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.exact import dirichlet, multinomial, prepare
from simdx.bench.engines import Workload, make_problem

WIDTH = 384
ENGINES = ("m_hard", "m_soft", "d_hard")


def seconds_per_case(problem: Workload, repeats: int) -> dict[str, float]:
    """Median over repeats of each engine; set-up (shared draws) excluded."""
    n = problem.cases.shape[0]
    bank = (problem.bank, problem.labels, problem.n_labels, problem.cases, problem.prior)
    shared = prepare(problem.means, problem.prior, seed=0)
    jobs = {
        "m_hard": lambda: multinomial(*bank, kernel="hard"),
        "m_soft": lambda: multinomial(*bank),
        "d_hard": lambda: dirichlet(problem.means, problem.cases, problem.prior, seed=0, shared=shared),
    }
    out = {}
    for name, job in jobs.items():
        seen = []
        for turn in range(repeats + 1):
            start = time.perf_counter()
            job()
            if turn or repeats == 1:
                seen.append(time.perf_counter() - start)
        out[name] = float(np.median(seen)) / n
    return out


def grow(problem: Workload, n_cases: int) -> Workload:
    """The same bank with observations repeated to `n_cases`."""
    rows = np.resize(np.arange(problem.cases.shape[0]), n_cases)
    return Workload(
        problem.bank, problem.labels, problem.n_labels, problem.cases[rows], problem.means, problem.prior
    )


def peak_extra_megabytes(n_cases: int) -> dict[str, float]:
    """Peak memory beyond inputs and outputs held, each engine in a process of its own."""
    out = {}
    for engine in ENGINES:
        command = [sys.executable, __file__, "--memory", engine, str(n_cases)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        out[engine] = float(done.stdout)
    return out


def memory_child(engine: str, n_cases: int) -> None:
    problem = grow(make_problem(6, 1000, WIDTH, 1000), n_cases)
    shared = prepare(problem.means, problem.prior, seed=0)
    bank = (problem.bank, problem.labels, 6, problem.cases, problem.prior)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building the problem
    before = _status("VmRSS")
    if engine == "m_hard":
        multinomial(*bank, kernel="hard")
    elif engine == "m_soft":
        multinomial(*bank)
    else:
        dirichlet(problem.means, problem.cases, problem.prior, seed=0, shared=shared)
    print((_status("VmHWM") - before) / 1024)


def _status(name: str) -> int:
    """A memory figure of this process in kilobytes, as Linux keeps it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"{name} is not in /proc/self/status; this measurement needs Linux")


def sweep(quick: bool) -> dict[str, Any]:
    scale = 10 if quick else 1
    base = make_problem(6, 1000, WIDTH, 1000)
    cases = [1000, 3000, 10_000, 30_000, 100_000]
    labels = [3, 10, 30, 100, 300, 1000]
    simulations = [10, 30, 100, 300, 1000, 3000, 10_000]
    record: dict[str, Any] = {"cases": [], "labels": [], "simulations_per_label": []}
    for n in cases:
        n = max(100, n // scale)
        repeats = 5 if n <= 3000 else 1
        record["cases"].append({"cases": n, **seconds_per_case(grow(base, n), repeats)})
        say(record["cases"][-1])
    for k in labels[: 4 if quick else None]:
        problem = make_problem(k, 100, WIDTH, 512)
        record["labels"].append({"labels": k, **seconds_per_case(problem, 3 if k < 300 else 1)})
        say(record["labels"][-1])
    for m in simulations[: 5 if quick else None]:
        problem = make_problem(6, m, WIDTH, 512)
        row = {"simulations_per_label": m, **seconds_per_case(problem, 3)}
        record["simulations_per_label"].append(row)
        say(row)
    n = 100_000 // scale
    record["memory"] = {"cases": n, "extra_megabytes": peak_extra_megabytes(n)}
    say(record["memory"])
    return record


def verdicts(record: dict[str, Any]) -> dict[str, Any]:
    """The claims, checked: flat in cases, at most linear in labels and simulations, memory bounded."""
    flat = {e: max(r[e] for r in record["cases"]) / min(r[e] for r in record["cases"]) for e in ENGINES}
    slopes = {}
    for axis in ("labels", "simulations_per_label"):
        size = np.log([r[axis] for r in record[axis]])
        # The steepest stretch between a size and one at least ten times larger.
        slopes[axis] = {
            e: max(
                (np.log(b[e]) - np.log(a[e])) / (y - x)
                for a, x in zip(record[axis], size, strict=True)
                for b, y in zip(record[axis], size, strict=True)
                if y - x > np.log(9.9)
            )
            for e in ENGINES
        }
    return {"slowest_over_fastest_in_cases": flat, "steepest_growth_exponent": slopes}


def plot(record: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {"m_hard": "M-SMC, hard", "m_soft": "M-SMC, soft", "d_hard": "D-SMC"}
    axes_of = {
        "cases": "cases in the call",
        "labels": "labels (100 simulations each)",
        "simulations_per_label": "simulations per label (6 labels)",
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True, constrained_layout=True)
    for axis, (key, title) in zip(axes, axes_of.items(), strict=True):
        x = np.array([r[key] for r in record[key]], dtype=float)
        for engine, marker in zip(ENGINES, "osd", strict=True):
            y = 1e6 * np.array([r[engine] for r in record[key]])
            axis.loglog(x, y, marker=marker, label=names[engine])
        if key != "cases":
            top = 1e6 * record[key][-1]["m_hard"]
            axis.loglog(x, top * x / x[-1], color="grey", linestyle=":", label="linear growth")
        axis.set_xlabel(title)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("microseconds per case")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=130)


def say(row: dict[str, Any]) -> None:
    print(json.dumps(row), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases, no extreme sizes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--memory", nargs=2, metavar=("ENGINE", "CASES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        memory_child(options.memory[0], int(options.memory[1]))
        return
    record = sweep(options.quick)
    record["verdicts"] = verdicts(record)
    record["conditions"] = {
        "width": WIDTH,
        "populations": 5,
        "draws": 100,
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "engines_sweep.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    plot(record, options.out / "engines_sweep.png")
    print(json.dumps(record["verdicts"]))


if __name__ == "__main__":
    main()
