"""The service bench, short: its shape, no errors, and its own arithmetic."""

from __future__ import annotations

import math

import pytest

from simdx.bench import service


@pytest.mark.slow
def test_a_short_run_has_the_documented_keys_and_no_errors() -> None:
    result = service.run(seconds=3, clients=16)
    for key in ("rps", "p50_ms", "p99_ms", "errors", "rss_start_mb", "rss_end_mb", "direct_cases_per_s"):
        assert math.isfinite(result[key])
    assert result["errors"] == 0
    assert result["requests"] == pytest.approx(result["rps"] * result["seconds"], rel=0.02)
    assert result["p50_ms"] <= result["p99_ms"]


@pytest.mark.slow
def test_memory_stays_flat() -> None:
    """A leak of one answer (3 kB) a request would show as 9 MB; allocator slack stays below half of that."""
    result = service.run(requests=3_000, clients=32)
    assert result["errors"] == 0
    assert result["rss_end_mb"] - result["rss_start_mb"] < 4.5
