"""Shared computation: what is at hand, what is left out with a note, what is computed once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.bank.files import packaged_bank
from simdx.errors import BadInput
from simdx.experiments.paper import context as module
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.world import pool
from simdx.metrics import accuracy
from simdx.panels import load_source
from tests.experiments.paper.conftest import PANEL, SMALL


def test_a_panel_without_its_data_is_left_out_with_a_note(tmp_path: Path) -> None:
    found = Context("smoke", tmp_path, size=SMALL, data=tmp_path / "nothing", banks=tmp_path, asking=tmp_path)
    assert found.panels == (PANEL,)
    assert set(found.skipped) == {"symptom-to-diagnosis", "case-reports"}
    assert all("SIMDX_DATA" in note for note in found.notes)
    with pytest.raises(BadInput, match="SIMDX_DATA"):
        found.cases("case-reports")


def test_answers_are_the_method_s_own_and_scored_with_intervals(context: Context) -> None:
    spec = Spec(PANEL, "m-smc")
    posterior, _ = context.fitted(spec)(context.observations(PANEL), context.prior(spec))
    assert np.allclose(context.probabilities(spec), posterior.probabilities)
    scores = context.scores(spec)
    assert scores["accuracy"] == accuracy(posterior.probabilities, context.labels(PANEL)).value
    low, high = scores["ci"]["accuracy"]
    assert low <= scores["accuracy"] <= high


def test_answers_are_read_back_from_disk(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec(PANEL, "d-smc")
    first = context.answers(spec)
    again = Context(
        "smoke",
        context.out,
        panels=(PANEL,),
        size=SMALL,
        banks=context._banks_folder,
        asking=context._asking_folder,
    )

    def refuse(*_: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(module, "fit_method", refuse)
    second = again.answers(spec)
    assert np.array_equal(first.probabilities, second.probabilities)
    assert first.second is not None
    assert second.second is not None
    assert np.array_equal(first.second["epistemic_bits"], second.second["epistemic_bits"])
    with pytest.raises(AssertionError, match="fitted again"):
        again.answers(replace(spec, seed=1))


def test_a_damaged_cache_is_made_again(context: Context, tmp_path: Path) -> None:
    spec = Spec(PANEL, "m-smc")
    fresh = Context("smoke", tmp_path, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    first = fresh.probabilities(spec)
    (path,) = (tmp_path / "cache").glob("*.safetensors")
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 1
    path.write_bytes(bytes(damaged))
    again = Context("smoke", tmp_path, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    assert np.array_equal(again.probabilities(spec), first)


def test_banks_by_models_stand_beside_the_packaged_parts(context: Context) -> None:
    assert context.banks(PANEL) == ("bank_a", "bank_b", "small")
    counts = context.bank(Spec(PANEL, "m-smc", "small")).counts
    assert set(counts.values()) == {10}
    parts = [context.bank(Spec(PANEL, "m-smc", name)) for name in ("bank_a", "bank_b", "reference")]
    assert len(parts[0].texts) + len(parts[1].texts) == len(parts[2].texts)
    with pytest.raises(BadInput, match="no bank of oral-lesions by nobody"):
        context.bank(Spec(PANEL, "m-smc", "nobody"))


def test_pools_of_one_seed_are_nested() -> None:
    bank = packaged_bank(load_source(PANEL))
    small, large = pool(bank, 5, 0), pool(bank, 20, 0)
    assert set(small.texts) < set(large.texts)
    assert set(small.counts.values()) == {5}
    assert set(pool(bank, 5, 1).texts) != set(small.texts)


def test_what_models_answered_is_matched_by_id(context: Context) -> None:
    asked = context.asked(PANEL)
    assert [one.method for one in asked] == ["elicited", "ensemble", "fidelity", "logits"]
    one = asked[0]
    assert one.positions.tolist() == list(range(60))
    assert one.calls_per_case == pytest.approx(3.0)
    assert one.seconds_per_case == pytest.approx(0.1)
    assert np.allclose(one.probabilities.sum(axis=1), 1)


def test_the_stream_of_one_thing_does_not_depend_on_another(context: Context) -> None:
    assert context.rng("a").integers(1 << 30) == context.rng("a").integers(1 << 30)
    assert context.rng("a").integers(1 << 30) != context.rng("b").integers(1 << 30)
