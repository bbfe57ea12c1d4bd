"""The benches: their JSON, and that what they measure is what they say."""

import json
import math

import numpy as np
import pytest

from simdx.bench import abi, engines, service


def test_the_problem_overlaps_as_promised():
    problem = engines.make_problem(6, 1000, 384, 64)
    answer = engines.multinomial(
        problem.bank, problem.labels, 6, problem.cases, problem.prior, kernel="hard", populations=5
    )
    assert 0.4 < answer.probabilities.max(axis=1).mean() < 0.8
    np.testing.assert_allclose(np.linalg.norm(problem.bank, axis=1), 1, atol=1e-5)
    again = engines.make_problem(6, 1000, 384, 64)
    np.testing.assert_array_equal(problem.bank, again.bank)


def test_own_measurements_are_positive_and_ordered():
    """The least of several runs: whatever else the machine does only adds to a time."""
    problem = engines.make_problem(3, 50, 16, 32)
    runs = [engines.measure_own(problem, 50, 3, 2, 0) for _ in range(5)]
    for name in ("m", "d"):
        exact, floor, particles = (min(run[part][name] for run in runs) for part in range(3))
        assert 0 < floor < particles
        assert 0 < exact < particles
    assert all(1 / 3 < top <= 1 for *_, top in runs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_small_run_has_the_promised_shape():
    sizes = {"labels": 3, "per_label": 30, "width": 16, "particles": 30, "populations": 2, "batch": 32}
    record = engines.run(**sizes, repeats=2, pyabc_cases=1, agreement_particles=100, agreement_cases=1)
    json.dumps(record)
    for group in ("pyabc", "exact", "particles", "floor"):
        assert set(record[group]) == {"m", "d"}
        assert all(seconds > 0 for seconds in record[group].values())
    assert set(record["ratio"]) == {"m_exact", "d_exact", "m_particles", "d_particles", "m_floor", "d_floor"}
    assert record["ratio"]["m_exact"] == pytest.approx(record["pyabc"]["m"] / record["exact"]["m"])
    assert record["ratio"]["d_floor"] == pytest.approx(record["exact"]["d"] / record["floor"]["d"])
    assert set(record["agreement"]) == {"m_tv", "d_mean_abs"}
    assert record["agreement"]["m_tv"] < 0.3
    assert record["conditions"]["pyabc"]["version"].startswith("0.")


def test_the_bench_reports_the_contract_keys() -> None:
    found = abi.run(width=512, batch=512, repeats=3)
    assert {"us_per_case", "gemm_us_per_case", "ratio", "d", "K", "batch", "single_case_us"} <= set(found)
    assert (found["d"], found["K"]) == (512, 7)
    assert found["ratio"] > 0
    assert found["us_per_case"] > 0


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
    """A leak of one answer (3 kB) a request would show as 18 MB; allocator slack stays below half of that."""
    result = service.run(requests=6_000, clients=32)
    assert result["errors"] == 0
    assert result["rss_end_mb"] - result["rss_start_mb"] < 9
