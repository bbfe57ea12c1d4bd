"""The data sheets' counts are those of the packaged files."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter

import pytest

from simdx.panels import PACKAGED, load_source
from tests.conftest import ROOT

_ROW = re.compile(r"^\| `(\w+\.jsonl)` \| ([^|]+) \| ([^|]*) \|", re.M)


@pytest.mark.parametrize("panel", PACKAGED)
def test_counts(panel: str) -> None:
    sheet = (ROOT / f"docs/datasheets/{panel}.md").read_text(encoding="utf-8")
    folder = load_source(panel).folder
    told = {name: (count, words) for name, count, words in _ROW.findall(sheet)}
    packaged = sorted(path.name for path in folder.glob("*.jsonl"))
    assert packaged
    assert set(packaged) <= set(told)
    for name in packaged:
        rows = [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        words = [len(row["text"].split()) for row in rows]
        count, lengths = told[name]
        assert int(count.split(":")[0].split(",")[0]) == len(rows)
        assert lengths == f"{min(words)}, {statistics.median(words):g}, {max(words)}"
        if name == "background.jsonl":
            conditions = len({row["condition"] for row in rows})
            said = len(rows) if "as many" in count else int(re.findall(r"\d+", count)[1])
            assert said == conditions
        else:
            each = set(Counter(row["label"] for row in rows).values())
            assert {int(re.findall(r"\d+", count)[1])} == each
    assert "o clinician has reviewed" in sheet
