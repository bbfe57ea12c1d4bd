"""The engines bench: its JSON shape, and that what it measures is what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simdx.bench import engines


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
    pytest.importorskip("pyabc")
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
