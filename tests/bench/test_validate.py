"""`make validate`: a figure that leaves its interval fails, and so does one that is gone or has none."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import validate
from benchmarks.validate import Interval, compare, complaints, read_intervals
from tests.conftest import ROOT

INTERVALS = {"a": Interval(0.0, 1.0, "theory"), "p/auto/ece": Interval(0.02, 0.08, "record", needs="sd")}
SOUND = {"a": 0.5, "p/auto/ece": 0.05}


def outcomes(measured: dict[str, float], data: Path | None = None) -> list[str]:
    return list(compare(measured, INTERVALS, data)["outcome"])


def test_inside_passes() -> None:
    assert outcomes(SOUND) == ["inside", "inside"]
    assert complaints(compare(SOUND, INTERVALS, None)) == []
    assert outcomes({"a": 1.0, "p/auto/ece": 0.02}) == ["inside", "inside"]


@pytest.mark.parametrize("value", [-1e-9, 1.01, math.nan, math.inf])
def test_a_perturbed_figure_fails(value: float) -> None:
    rows = compare({**SOUND, "a": value}, INTERVALS, None)
    assert list(rows["outcome"]) == ["outside", "inside"]
    (line,) = complaints(rows)
    assert line.startswith("a: ")
    assert line.endswith("is outside [0, 1]")


def test_a_figure_without_data_is_absent_and_one_without_reason_is_missing(tmp_path: Path) -> None:
    assert outcomes({"a": 0.5}) == ["inside", "absent"]
    (tmp_path / "sd").mkdir()
    assert outcomes({"a": 0.5}, tmp_path) == ["inside", "missing"]
    assert outcomes({"p/auto/ece": 0.05}) == ["missing", "inside"]
    rows = compare({**SOUND, "new": 1.0}, INTERVALS, None)
    assert rows["outcome"].iloc[-1] == "no interval"
    assert len(complaints(rows)) == 1
    assert "absent" in validate.table(compare({"a": 0.5}, INTERVALS, None))


def test_the_run_ends_with_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(validate, "read_intervals", lambda: INTERVALS)
    monkeypatch.setattr("sys.argv", ["validate", "--out", str(tmp_path / "v.json"), "--data", str(tmp_path)])
    for value, code in ((0.5, 0), (1.5, 1)):
        monkeypatch.setattr(validate, "measure", lambda data, value=value: iter([("a", value)]))
        assert validate.main() == code
        record = json.loads((tmp_path / "v.json").read_text())
        assert (record["failed"], record["absent"]) == (code, 1)
        assert ("is outside" in capsys.readouterr().out) == bool(code)


def test_every_committed_interval_says_where_it_comes_from() -> None:
    intervals = read_intervals()
    assert len(intervals) > 30
    for name, interval in intervals.items():
        assert interval.low <= interval.high, name
        assert interval.source, name


def test_intervals_of_panels_hold_the_record_they_come_from() -> None:
    record = json.loads((ROOT / "results" / "panels" / "record.json").read_text())
    for name, interval in validate.panel_intervals(record):
        panel, method, metric = name.split("/")
        run = validate.default_run(record, panel, method)
        value = run["ood"]["auroc"] if metric == "ood_auroc" else run[metric]
        assert interval.low <= value <= interval.high


def test_the_standard_error_of_an_auroc_is_that_of_a_simulation() -> None:
    """Two exponentials, for which the formula is exact."""
    rng = np.random.default_rng(0)
    n, scale = 60, 3.0
    positive, negative = rng.exponential(scale, (2000, n)), rng.exponential(1.0, (2000, n))
    areas = (positive[:, :, None] > negative[:, None, :]).mean(axis=(1, 2))
    expected = validate.auroc_error(scale / (1 + scale), n, n)
    assert areas.std() == pytest.approx(expected, rel=0.1)


def test_simplex_calibration_figures_are_what_the_intervals_say() -> None:
    """One group for real: a change of the engine would show here too."""
    intervals = read_intervals()
    for name, value in validate.simplex_calibration():
        assert intervals[name].low <= value <= intervals[name].high
