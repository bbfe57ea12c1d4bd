"""Thresholds are tuned for code: every module that decides what an answer is must be in their fingerprint."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from simdx.decide import desk
from simdx.methods import background, comparison, outside, recipe, strangeness

source_of = inspect.getsource


@pytest.mark.parametrize("module", [background, comparison, outside, recipe, strangeness])
def test_a_change_there_asks_for_new_thresholds(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = desk._code_of("auto")
    assert desk._code_of("auto") == before
    changed = source_of(module) + "\nBANDWIDTH = 0.5\n"
    monkeypatch.setattr(inspect, "getsource", lambda m: changed if m is module else source_of(m))
    assert desk._code_of("auto") != before
