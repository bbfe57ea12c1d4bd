"""A finished bank is extended or left alone: no build puts another or a smaller one in its place."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simdx.bank.builder import BuildLimits, build_bank
from simdx.bank.files import problems_of, read_bank, read_manifest
from simdx.bank.plan import BuildSettings
from simdx.disk import sealed
from simdx.errors import BadInput
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Panel

SETTINGS = BuildSettings(per_label=4, background=3)


@pytest.fixture
def finished(toy_panel: Panel, tmp_path: Path) -> Path:
    assert build_bank(toy_panel, ScriptedSimulator(), SETTINGS, tmp_path / "bank").complete
    return tmp_path / "bank"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0.3}, "--temperature 0.8, not 0.3: choose another --out"),
        ({"voice": "short"}, "--voice full, not short"),
        ({"facets": False}, "--facets True, not False"),
        ({"max_tokens": 50}, "--max-new 120, not 50"),
        ({"options": {"min_p": 0.1}}, "--options {}, not {'min_p': 0.1}"),
        ({"seed": 1, "top_p": 0.5}, "--top-p 0.95, not 0.5; --seed 0, not 1"),
        ({"simulator": "another"}, "simulator scripted, not the one given: choose another --out"),
        ({"per_label": 3}, "give at least --per-label 4, or another --out"),
        ({"per_label": 9, "background": 2}, "give at least --background 3, or"),
        ({"per_label": 1, "background": 0}, "--per-label 4 and --background 3"),
    ],
)
def test_another_or_a_smaller_bank_is_refused(
    change: dict[str, Any], said: str, finished: Path, toy_panel: Panel
) -> None:
    before, simulator = contents(finished), ScriptedSimulator()
    simulator.id = change.get("simulator", simulator.id)
    settings = replace(SETTINGS, **{name: value for name, value in change.items() if name != "simulator"})
    with pytest.raises(BadInput) as refused:
        build_bank(toy_panel, simulator, settings, finished)
    assert said in str(refused.value)
    assert "nothing was changed" in str(refused.value)
    assert simulator.calls == 0
    assert contents(finished) == before


@pytest.mark.parametrize("change", [{"per_label": 6}, {"background": 5}, {"max_tokens": 120}, {}])
def test_growing_keeps_every_text(change: dict[str, Any], finished: Path, toy_panel: Panel) -> None:
    old, before, simulator = read_bank(finished, toy_panel), contents(finished), ScriptedSimulator()
    assert build_bank(toy_panel, simulator, replace(SETTINGS, **change), finished).complete
    new = read_bank(finished, toy_panel)
    assert set(old.texts) <= set(new.texts)
    assert set(old.background) <= set(new.background)
    assert simulator.calls == len(new.texts) + len(new.background) - len(old.texts) - len(old.background)
    assert list(problems_of(finished)) == []
    assert bool(change) or contents(finished) == before  # the same again changes no byte


def test_a_bank_that_finished_while_the_lock_was_awaited_is_kept(
    finished: Path, toy_panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look found no manifest; the look under the lock does."""
    from simdx.bank import builder

    looks: list[Path] = []

    def second_look_only(out: Path, *rest: Any) -> None:
        looks.append(out)
        if len(looks) == 2:
            real(out, *rest)

    real = builder.refuse_lesser
    monkeypatch.setattr(builder, "refuse_lesser", second_look_only)
    before = contents(finished)
    with pytest.raises(BadInput, match="larger finished bank"):
        build_bank(toy_panel, ScriptedSimulator(), replace(SETTINGS, per_label=1), finished)
    assert contents(finished) == before


def test_a_manifest_that_does_not_say_how_is_not_replaced(finished: Path, toy_panel: Panel) -> None:
    kept = {k: v for k, v in read_manifest(finished).items() if k not in ("settings", "seal")}
    (finished / "manifest.json").write_text(json.dumps(sealed(kept)), encoding="utf-8")
    with pytest.raises(BadInput, match="does not say how it was built"):
        build_bank(toy_panel, ScriptedSimulator(), SETTINGS, finished)


def test_a_background_without_a_manifest_does_not_stay(toy_panel: Panel, tmp_path: Path) -> None:
    """As a kill leaves it between the background's file and the manifest."""
    out = tmp_path / "bank"
    build_bank(toy_panel, ScriptedSimulator(), SETTINGS, out, BuildLimits(max_requests=3))
    (out / "background.jsonl").write_text('{"condition": "x", "text": "a stone"}\n')
    assert build_bank(toy_panel, ScriptedSimulator(), replace(SETTINGS, background=0), out).complete
    assert not (out / "background.jsonl").exists()
    assert read_bank(out, toy_panel).background == ()
