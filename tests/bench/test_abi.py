"""The bench of the forward pass: its keys, and that overhead is a share and not a multiple."""

from __future__ import annotations

from simdx.bench import abi


def test_the_bench_reports_the_contract_keys() -> None:
    found = abi.run(width=512, batch=512, repeats=3)
    assert {"us_per_case", "gemm_us_per_case", "ratio", "d", "K", "batch", "single_case_us"} <= set(found)
    assert found["d"] == 512
    assert found["K"] == 7
    assert found["ratio"] > 0
    assert found["us_per_case"] > 0
