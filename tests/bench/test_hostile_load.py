"""The hostile load, short: every kind is hostile, and the honest client loses nothing."""

import json
import math
from pathlib import Path

import pytest

from benchmarks import hostile_load

RECORD = Path(__file__).resolve().parents[2] / "results" / "service" / "hostile_load.json"


@pytest.mark.slow
def test_an_honest_client_keeps_its_answers_among_hostile_connections() -> None:
    """How much slower it gets is measured, not tested: that depends on what else the machine does."""
    record = hostile_load.run(100, 5.0, 1, [*hostile_load.KINDS, hostile_load.ALL])
    for part in ("each_kind_alone", "all_at_once"):
        assert record[part]["errors"] == 0
        assert record[part]["growth_mb"] < hostile_load.AIM["growth_mb"]
    for found in record["kinds"].values():
        assert found["hostile"]["requests"] > 0
        assert math.isfinite(found["p99_ratio"])
        assert found["hostile_connections"]["opened"] >= 100


def test_the_committed_record_is_whole_and_says_whether_the_aim_was_reached() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert (record["connections_of_each_kind"], record["hostile_seconds_of_each_kind"]) == (1_000, 60)
    assert set(record["kinds"]) == {*hostile_load.KINDS, hostile_load.ALL}
    alone = [found for kind, found in record["kinds"].items() if kind != hostile_load.ALL]
    for said, kinds in (
        (record["each_kind_alone"], alone),
        (record["all_at_once"], [record["kinds"][hostile_load.ALL]]),
    ):
        assert said == hostile_load.verdict(kinds, record["rss_start_mb"])
