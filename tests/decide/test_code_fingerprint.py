"""Thresholds are tuned for code: modules that decide what an answer is must be in their fingerprint."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

import pytest

from simdx.decide import desk
from simdx.methods import background, comparison, outside, recipe, strangeness

source_of = inspect.getsource
# Names and containers, which decide no figure.
PLAIN = {"simdx.abc.prior", "simdx.methods.base", "simdx.methods.memo", "simdx.abc"}


def behind(*modules: ModuleType) -> set[str]:
    """Modules of the engines and methods that these import from, directly."""
    found = set()
    for value in (v for module in modules for v in vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if str(name).startswith(("simdx.abc", "simdx.methods")):
            found.add(str(name))
    return found - PLAIN


def test_everything_the_recipe_stands_on_is_in_it() -> None:
    needed = behind(recipe, comparison, background, outside, strangeness)
    assert {"simdx.methods.logistic", "simdx.abc.exact", "simdx.methods.lexical"} <= needed
    assert needed <= {module.__name__ for module in desk.CODE_BEHIND_ANSWERS} | {recipe.__name__}


@pytest.mark.parametrize("name", [*(m.__name__ for m in desk.CODE_BEHIND_ANSWERS), recipe.__name__])
def test_a_change_there_asks_for_new_thresholds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[name]
    before = desk._code_of("auto")
    assert desk._code_of("auto") == before
    changed = source_of(module) + "\nBANDWIDTH = 0.5\n"
    monkeypatch.setattr(inspect, "getsource", lambda m: changed if m is module else source_of(m))
    assert desk._code_of("auto") != before
