"""The slider's figures in the documentation are those of the record, and the page's own constants hold."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib import resources
from types import ModuleType

import pytest

from tests.conftest import ROOT

pytest.importorskip("selenium")
RECORD = ROOT / "benchmarks" / "results" / "slider.json"


@pytest.fixture(scope="module")
def slider() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slider", ROOT / "benchmarks" / "slider.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documentation_quotes_the_record(slider: ModuleType) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert slider.sentence(record) in (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_medians_and_percentiles(slider: ModuleType) -> None:
    moves = [dict.fromkeys(slider.HOPS, float(i)) for i in range(1, 21)]
    found = slider.summary(moves)
    assert found["moves"] == 20
    assert found["painted"] == {"median_ms": 10.5, "p95_ms": 20.0}


def test_the_rest_is_the_pages(slider: ModuleType) -> None:
    script = (resources.files("simdx.service") / "static" / "case.js").read_text(encoding="utf-8")
    found = re.search(r"const REST = (\d+);", script)
    assert found is not None
    assert int(found.group(1)) == slider.REST_MS
