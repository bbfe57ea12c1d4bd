"""Has anything that was measured changed? `make validate`.

    python -m benchmarks.validate [--data ../shared/data] [--out out/validate.json]

Measures the figures of `validate_figures.py` again and compares each with its committed interval in
`validate.yaml`, which says where the interval comes from. Prints a table, writes a record, and exits 1 with
one line for every figure outside its interval, measured without one, or missing. Figures of panels whose
cases are not at hand are reported as absent: absent is not passed.
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from simdx import __version__
from simdx.runs.record import current_commit

ROOT = Path(__file__).resolve().parents[1]
INTERVALS = Path(__file__).with_name("validate.yaml")


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    source: str
    needs: str | None = None  # the data folder without which the figure is absent


@dataclass(frozen=True, slots=True)
class Row:
    figure: str
    value: float | None
    low: float | None
    high: float | None
    outcome: str  # inside | outside | absent | missing | no interval


def read_intervals(path: Path = INTERVALS) -> dict[str, Interval]:
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))["figures"]
    return {
        name: Interval(float(i["low"]), float(i["high"]), i["from"], i.get("needs"))
        for name, i in listed.items()
    }


def compare(measured: Mapping[str, float], intervals: Mapping[str, Interval], data: Path | None) -> list[Row]:
    """One row for every figure that was measured or has an interval."""
    rows = []
    for name in [*intervals, *(name for name in measured if name not in intervals)]:
        value, interval = measured.get(name), intervals.get(name)
        if interval is None:
            rows.append(Row(name, value, None, None, "no interval"))
            continue
        if value is None:
            at_hand = interval.needs is None or (data is not None and (data / interval.needs).is_dir())
            outcome = "missing" if at_hand else "absent"
        else:  # a NaN is inside nothing
            outcome = "inside" if interval.low <= value <= interval.high else "outside"
        rows.append(Row(name, value, interval.low, interval.high, outcome))
    return rows


def complaints(rows: list[Row]) -> list[str]:
    """One line for every figure that fails."""
    return [
        f"{row.figure}: {_number(row.value)} is {row.outcome}"
        + (f" [{_number(row.low)}, {_number(row.high)}]" if row.low is not None else " in validate.yaml")
        for row in rows
        if row.outcome not in ("inside", "absent")
    ]


def table(rows: list[Row]) -> str:
    lines = [f"{'figure':44} {'value':>9} {'low':>9} {'high':>9}  outcome"]
    lines += [
        f"{r.figure:44} {_number(r.value):>9} {_number(r.low):>9} {_number(r.high):>9}  {r.outcome}"
        for r in rows
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def measure(data: Path | None) -> Iterator[tuple[str, float, float]]:
    """(figure, value, seconds of its group so far)."""
    from benchmarks import validate_figures as figures

    started = time.monotonic()
    for group in (
        figures.exact_calibration(),
        figures.noisy_calibration(),
        figures.simplex_calibration(),
        figures.pyabc_agreement(),
        figures.panel_quality(data),
    ):
        for name, value in group:
            yield name, float(value), time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--out", type=Path, default=Path("out/validate.json"))
    arguments = parser.parse_args()
    measured, elapsed = {}, 0.0
    for name, value, elapsed in measure(arguments.data):
        measured[name] = value
        print(f"{elapsed:6.0f} s  {name}", file=sys.stderr, flush=True)
    intervals = read_intervals()
    rows = compare(measured, intervals, arguments.data)
    failed = complaints(rows)
    record: dict[str, Any] = {
        "command": "python -m benchmarks.validate --data DATA",
        "commit": current_commit(),
        "simdx": __version__,
        "python": platform.python_version(),
        "seconds": round(elapsed),
        "failed": len(failed),
        "absent": sum(row.outcome == "absent" for row in rows),
        "figures": [
            {**asdict(row), "value": row.value if row.value is None or math.isfinite(row.value) else None,
             "from": intervals[row.figure].source if row.figure in intervals else None}
            for row in rows
        ],
    }  # fmt: skip
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    for line in failed:
        print(line)
    return 1 if failed else 0


def default_data() -> Path | None:
    """$SIMDX_DATA, else the shared data beside the checkout, where there is any."""
    shared = Path(os.environ.get("SIMDX_SHARED", ROOT.parent / "shared")) / "data"
    given = os.environ.get("SIMDX_DATA")
    for candidate in (Path(given) if given else None, shared):
        if candidate is not None and candidate.is_dir():
            return candidate
    return None


if __name__ == "__main__":
    sys.exit(main())
