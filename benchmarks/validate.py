"""Has anything that was measured changed? `make validate`.

    python -m benchmarks.validate [--data ../shared/data] [--out out/validate.json]

Measures calibration on known models, agreement with pyABC and the quality of the panels again, and
compares each figure with its interval: of theory in `validate.yaml`, of a panel in results/panels, which is
recorded again where a change of the recipe is meant. Prints a table, writes a record, and exits 1 with one
line for every figure outside its interval, measured without one, or missing. Figures of panels whose cases
are not at hand are reported as absent: absent is not passed.

Rank statistics are uniform only where ABC is exact or noisy, so calibration by simulation is asserted there.
Seeds are fixed, so a figure moves only when the code does.
"""

import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from scipy.stats import betabinom, kstest

from simdx import Classifier, __version__
from simdx.abc.dirichlet import dirichlet, prepare
from simdx.abc.multinomial import multinomial
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.abc.prior import Prior
from simdx.bench import records
from simdx.bench.engines import make_problem, run_pyabc
from simdx.datasets import load_oral, read_cases
from simdx.evaluate import evaluate
from simdx.types import Float, Int

ROOT = Path(__file__).resolve().parents[1]
INTERVALS = Path(__file__).with_name("validate.yaml")
RECORD = ROOT / "results" / "panels" / "record.json"


class Interval(NamedTuple):
    low: Any
    high: Any
    source: str | None
    needs: str | None = None  # the data folder without which the figure is absent


def read_intervals() -> dict[str, Interval]:
    listed = yaml.safe_load(INTERVALS.read_text(encoding="utf-8"))["figures"]
    theory = {name: Interval(float(i["low"]), float(i["high"]), i["from"]) for name, i in listed.items()}
    return theory | dict(panel_intervals(json.loads(RECORD.read_text(encoding="utf-8"))))


def compare(
    measured: Mapping[str, float], intervals: Mapping[str, Interval], data: Path | None
) -> pd.DataFrame:
    """One row for every figure that was measured or has an interval; `outcome` is inside, outside, absent
    (its data is not at hand), missing, or no interval."""
    rows = []
    for name in dict.fromkeys([*intervals, *measured]):
        value, interval = measured.get(name), intervals.get(name)
        if interval is None:
            outcome, interval = "no interval", Interval(None, None, None)
        elif value is None:
            at_hand = interval.needs is None or (data is not None and (data / interval.needs).is_dir())
            outcome = "missing" if at_hand else "absent"
        else:  # a NaN is inside nothing
            outcome = "inside" if interval.low <= value <= interval.high else "outside"
        value = value if value is not None and math.isfinite(value) else None
        rows.append((name, value, interval.low, interval.high, outcome, interval.source))
    return pd.DataFrame(rows, columns=["figure", "value", "low", "high", "outcome", "from"], dtype=object)


def complaints(rows: pd.DataFrame) -> list[str]:
    """One line for every figure that fails."""
    failed = rows[~rows["outcome"].isin(("inside", "absent"))]
    return [
        f"{row.figure}: {_number(row.value)} is {row.outcome}"
        + (f" [{_number(row.low)}, {_number(row.high)}]" if row.low is not None else " in validate.yaml")
        for row in failed.itertuples()
    ]


def table(rows: pd.DataFrame) -> str:
    cells = rows.assign(**{name: rows[name].map(_number) for name in ("value", "low", "high")})
    return cells.drop(columns="from").to_string(index=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def measure(data: Path | None) -> Iterator[tuple[str, float]]:
    for group in (exact_calibration(), noisy_calibration(), simplex_calibration(), pyabc_agreement()):
        yield from group
    yield from panel_quality(data)


# --------------------------------------------------------------------------- the figures

Figure = tuple[str, float]
PI = np.array([0.5, 0.3, 0.2])
SHAPES = np.array([[2.0, 6.0], [4.0, 4.0], [7.0, 2.0]])
TRIALS, SPACING = 20, 0.1  # counts of 20, a tenth of a radian apart
LEVEL = 0.9  # of credible sets and intervals
PANELS = {"oral-lesions": None, "symptom-to-diagnosis": "sd", "case-reports": "pmc"}
METRICS = {
    "auto": ("accuracy", "brier", "ece", "nll", "error_auroc"),
    "m-smc": ("accuracy", "ece"),
    "d-smc": ("accuracy", "ece"),
}


def exact_calibration() -> Iterator[Figure]:
    """M-SMC on draws from the bank's own model: ranks, coverage, distance from the conjugate posterior."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(3), 40_000)
    counts = rng.binomial(TRIALS, rng.beta(SHAPES[labels, 0], SHAPES[labels, 1]))
    truth = rng.choice(3, p=PI, size=3000)
    seen = rng.binomial(TRIALS, rng.beta(SHAPES[truth, 0], SHAPES[truth, 1]))
    values, back = np.unique(seen, return_inverse=True)
    answer = multinomial(
        _circle(counts * SPACING), labels, 3, _circle(values * SPACING), PI, kernel="hard", tolerance=1e-4
    )
    p = answer.probabilities
    yield "sbc_m_exact_p", kstest(_ranks(p[back], truth, rng), "uniform").pvalue
    yield "coverage_m_exact", _set_coverage(p[back], truth, rng)
    like = np.stack([betabinom.pmf(values, TRIALS, a, b) for a, b in SHAPES], axis=1) * PI
    exact = like / like.sum(axis=1, keepdims=True)
    yield "conjugate_m_exact_tv", float((0.5 * np.abs(p - exact).sum(axis=1))[back].mean())


def noisy_calibration() -> Iterator[Figure]:
    """M-SMC at a wide tolerance, the observation perturbed by the kernel; and without, which must show."""
    rng = np.random.default_rng(3)
    centre, spread, reach = np.array([-0.3, 0.0, 0.4]), 0.15, 0.5
    labels = np.repeat(np.arange(3), 10_000)
    bank = _circle(rng.normal(centre[labels], spread))
    truth = rng.choice(3, p=PI, size=2000)
    angle = rng.normal(centre[truth], spread)
    noise = rng.uniform(-reach, reach, angle.size)
    for name, seen in (("noisy", angle + noise), ("plain", angle)):
        tolerance = float(1 - np.cos(reach))
        p = multinomial(bank, labels, 3, _circle(seen), PI, kernel="hard", tolerance=tolerance).probabilities
        yield f"sbc_m_{name}_p", kstest(_ranks(p, truth, rng), "uniform").pvalue
        if name == "noisy":
            yield "coverage_m_noisy", _set_coverage(p, truth, rng)


def simplex_calibration() -> Iterator[Figure]:
    """D-SMC on draws from its own model: theta from the prior, the observation the perturbed mixture."""
    rng = np.random.default_rng(4)
    means, prior, reach = _circle(np.array([0.0, np.pi / 2])), Prior.uniform(2), 0.3
    theta = rng.dirichlet([1.0, 1.0], size=1000)
    mixed = theta @ means
    z = _circle(np.arctan2(mixed[:, 1], mixed[:, 0]) + rng.uniform(-reach, reach, len(theta)))
    options = {"seed": 5, "draws": 2000, "populations": 1}
    shared = prepare(means, prior, **options)
    tolerance = float(1 - np.cos(reach))
    answer = dirichlet(means, z, prior, **options, tolerance=tolerance, shared=shared)
    drawn = shared.features[:, 0].astype(float)
    points = drawn[:, None] * means[0] + (1 - drawn[:, None]) * means[1]
    gap = np.abs(np.arctan2(points[:, 1], points[:, 0]) - np.arctan2(z[:, 1], z[:, 0])[:, None])
    ranks, inside, off = np.empty(len(theta)), 0, 0.0
    for i, truth in enumerate(theta[:, 0]):
        kept = drawn[gap[i] <= reach]
        off = max(off, abs(float(answer.probabilities[i, 0]) - float(kept.mean())))
        ranks[i] = (np.sum(kept < truth) + rng.random()) / (kept.size + 1)
        low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        inside += low <= truth <= high
    yield "sbc_d_noisy_p", kstest(ranks, "uniform").pvalue
    yield "coverage_d_noisy", inside / len(theta)
    yield "d_mean_of_accepted_gap", off


def pyabc_agreement(particles: int = 300, populations: int = 4, cases: int = 3) -> Iterator[Figure]:
    """pyABC's distance from the exact answer over that of our own particles (mean + 5 sd, 20 seeds)."""
    import pyabc

    options = {"particles": particles, "populations": populations}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, seed in (("m", 3), ("d", 4)):
            np.random.seed(20261115)  # noqa: NPY002 (pyABC draws from numpy's global stream)
            problem = make_problem(4, 200, 384, cases, seed=seed)
            if kind == "m":
                bank = problem.of_labels()
                exact = multinomial(*bank, kernel="hard", boundary="whole", populations=populations)
                own = [multinomial_smc(*bank, range(cases), seed=s, **options)[0] for s in range(20)]
            else:
                simplex = problem.of_means()
                exact = dirichlet(*simplex, seed=0, draws=20_000, populations=populations)
                own = [dirichlet_smc(*simplex, range(cases), seed=s, **options)[0] for s in range(20)]
            truth = exact.probabilities
            gaps = np.stack([_variation(run.probabilities, truth) for run in own])
            theirs = [
                run_pyabc(pyabc, problem, i, kind, particles, populations, "SingleCoreSampler")[1]
                for i in range(cases)
            ]
            allowed = gaps.mean(axis=0) + 5 * gaps.std(axis=0, ddof=1)
            yield f"pyabc_{kind}_ratio", float((_variation(np.stack(theirs), truth) / allowed).max())


def panel_quality(data: Path | None) -> Iterator[Figure]:
    """Headline figures of the packaged panels: the shipped recipe and the paper's variants in closed form."""
    for panel, folder in PANELS.items():
        if folder is None:
            packaged = load_oral()
            cases, outside = packaged.cases, packaged.ood
        elif data is not None and (data / folder / "cases.jsonl").is_file():
            cases = read_cases(data / folder / "cases.jsonl", labels=Classifier(panel).panel.names)
            outside = read_cases(data / folder / "ood.jsonl", labelled=False)
        else:
            continue
        for run, metrics in METRICS.items():
            beyond = outside if run == "auto" else None
            record = evaluate(Classifier(panel, method=run), cases, ood=beyond, resamples=100).record
            for metric in metrics:
                yield f"{panel}/{run}/{metric}", float(record[metric])
            if beyond is not None:
                yield f"{panel}/{run}/ood_auroc", float(record["ood"]["auroc"])


def _circle(angle: Float) -> Float:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def _variation(a: Float, b: Float) -> Float:
    return 0.5 * np.abs(a - b).sum(axis=-1)


def _ranks(p: Float, truth: Int, rng: np.random.Generator) -> Float:
    """Randomised rank of a discrete truth: uniform exactly when the posterior is calibrated."""
    rows = np.arange(truth.size)
    below = (np.cumsum(p, axis=1) - p)[rows, truth]
    return below + rng.random(truth.size) * p[rows, truth]


def _set_coverage(p: Float, truth: Int, rng: np.random.Generator) -> float:
    """How often the smallest credible set of 90 % holds the truth, its last label in by chance."""
    order = np.argsort(-p, axis=1)
    ranked = np.take_along_axis(p, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    share = np.clip((LEVEL - before) / np.maximum(ranked, 1e-300), 0, 1)
    place = (order == truth[:, None]).argmax(axis=1)
    return float((rng.random(truth.size) < share[np.arange(truth.size), place]).mean())


# --------------------------------------------------------------------------- the panels' intervals


def panel_intervals(record: Mapping[str, Any]) -> Iterator[tuple[str, Interval]]:
    """The bootstrap interval of every figure, and for out-of-class AUROC one by its standard error."""
    source = f"results/panels/record.json at {record['commit']}"
    for panel, folder in PANELS.items():
        for method, metrics in METRICS.items():
            run = default_run(record, panel, method)
            for metric in metrics:
                found = Interval(*run["ci"][metric], f"95 % bootstrap, {source}", folder)
                yield f"{panel}/{method}/{metric}", found
            if method == "auto":
                area = run["ood"]["auroc"]
                reach = 1.96 * auroc_error(area, run["ood"]["n"], run["n"])
                by = f"95 % by Hanley and McNeil, {source}"
                yield f"{panel}/auto/ood_auroc", Interval(area - reach, min(1.0, area + reach), by, folder)


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


# --------------------------------------------------------------------------- the run


def main() -> int:
    parser = records.parser(__doc__)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--out", type=Path, default=Path("out/validate.json"))
    arguments = parser.parse_args()
    started, measured = time.monotonic(), {}
    for name, value in measure(arguments.data):
        measured[name] = float(value)
        print(f"{time.monotonic() - started:6.0f} s  {name}", file=sys.stderr, flush=True)
    rows = compare(measured, read_intervals(), arguments.data)
    failed = complaints(rows)
    record = {
        **records.heading("python -m benchmarks.validate --data DATA"),
        "simdx": __version__,
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - started),
        "failed": len(failed),
        "absent": int((rows["outcome"] == "absent").sum()),
        "figures": rows.to_dict("records"),
    }
    records.write_record(arguments.out, record)
    print("\n".join([table(rows), *failed]))
    return 1 if failed else 0


def default_data() -> Path | None:
    """$SIMDX_DATA, else the shared data beside the checkout, where there is any."""
    shared = Path(os.environ.get("SIMDX_SHARED", ROOT.parent / "shared")) / "data"
    places = (Path(os.environ.get("SIMDX_DATA") or shared), shared)
    return next((place for place in places if place.is_dir()), None)


if __name__ == "__main__":
    sys.exit(main())
