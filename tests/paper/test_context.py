"""Shared computation: what is at hand, what is left out with a note, what is computed once."""

import gzip
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paper.context import Bootstrap, Context
from paper.scores import temperature_ablation, unreadable
from paper.world import SECOND_ORDER, TIMES, Spec, Variant, pool, written_by_variants
from simdx.bank.files import packaged_bank
from simdx.errors import BadInput
from simdx.methods import fitted
from simdx.metrics import headline_values
from simdx.panels import load_source
from tests.conftest import ROOT
from tests.paper.conftest import PANEL, SMALL, small_context, write_banks


def test_a_panel_without_its_data_is_left_out_with_a_note(tmp_path: Path) -> None:
    found = Context("smoke", tmp_path, size=SMALL, data=tmp_path / "nothing", banks=tmp_path, asking=tmp_path)
    assert found.panels == (PANEL,)
    assert set(found.skipped) == {"symptom-to-diagnosis", "case-reports"}
    assert all("SIMDX_DATA" in reason for reason in found.skipped.values())
    with pytest.raises(BadInput, match="SIMDX_DATA"):
        found.cases("case-reports")


def test_where_own_banks_are_the_question_a_model_without_one_is_left_out(
    tmp_path: Path, banks: Path, asking: Path
) -> None:
    found = [
        {one.model for one in small_context(tmp_path, place, asking, embedder="wordllama").asked(PANEL)}
        for place in (banks, tmp_path)
    ]
    assert found == [{"small"}, set()]
    assert small_context(tmp_path, tmp_path, asking).asked(PANEL)


def test_answers_are_the_method_s_own_and_scored_with_intervals(context: Context) -> None:
    spec = Spec(PANEL, "m-smc")
    posterior = context.fitted(spec).infer(context.observations(PANEL), context.prior(spec)).posterior
    assert np.allclose(context.probabilities(spec), posterior.probabilities)
    scores = context.scores(spec)
    own = headline_values(posterior.probabilities, context.labels(PANEL))
    assert scores["accuracy"] == own["accuracy"].value
    low, high = scores["ci"]["accuracy"]
    assert low <= scores["accuracy"] <= high


def test_answers_are_read_back_from_disk(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec(PANEL, "d-smc")
    first, outside = context.answers(spec), context.answers(spec, True)
    again = small_context(context.out, context.banks_folder, context.asking_folder)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr("paper.context.fit_method", refuse)
    second = again.answers(spec)
    assert set(first) == set(second) == {"probabilities", *TIMES, *SECOND_ORDER}
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    assert np.array_equal(outside["probabilities"], again.answers(spec, True)["probabilities"])
    with pytest.raises(AssertionError, match="fitted again"):
        again.answers(replace(spec, seed=1))
    monkeypatch.setattr(fitted, "RECIPE_VERSION", fitted.RECIPE_VERSION + 1)
    with pytest.raises(AssertionError, match="fitted again"):  # of a changed method nothing is taken over
        small_context(context.out, context.banks_folder, context.asking_folder).answers(spec)


def test_banks_by_models_stand_beside_the_packaged_parts(context: Context, tmp_path: Path) -> None:
    assert context.banks(PANEL) == ("bank_a", "bank_b", "small")
    assert set(context.bank(PANEL, "small").counts.values()) == {10}
    parts = [context.bank(PANEL, name) for name in ("bank_a", "bank_b", "reference")]
    assert len(parts[0].texts) + len(parts[1].texts) == len(parts[2].texts)
    with pytest.raises(BadInput, match="no bank of oral-lesions by nobody"):
        context.bank(PANEL, "nobody")
    # One run in another way stands for no simulator of its own.
    write_banks(tmp_path, {"m": 3, "m-q8_0": 3, "m-t0.4": 3, "m-n90": 3})
    assert written_by_variants(PANEL, tmp_path) == {
        "m-n90": Variant("m", "n90", "pool"),
        "m-q8_0": Variant("m", "q8_0", "weights"),
        "m-t0.4": Variant("m", "t0.4", "temperature"),
    }


def test_pools_of_one_seed_are_nested() -> None:
    bank = packaged_bank(load_source(PANEL))
    small, large = pool(bank, 5, 0), pool(bank, 20, 0)
    assert set(small.texts) < set(large.texts)
    assert set(small.counts.values()) == {5}
    assert set(pool(bank, 5, 1).texts) != set(small.texts)


def test_what_models_answered_is_matched_by_id(context: Context) -> None:
    asked = context.asked(PANEL)
    assert {one.way: one.method for one in asked} == {
        "EF": "fidelity", "EP": "elicited", "ML": "logits", "PE": "ensemble",
    }  # fmt: skip
    one = asked[0]
    assert one.positions.tolist() == list(range(60))
    assert (one.calls_per_case, one.seconds_per_case) == (pytest.approx(3.0), pytest.approx(0.1))
    assert np.allclose(one.probabilities.sum(axis=1), 1)
    assert context.own_bank(PANEL, one) == "small"


def replies_file(folder: Path, name: str, lines: list[dict[str, Any]]) -> None:
    place = folder / "replies-m"
    place.mkdir(exist_ok=True)
    with gzip.open(place / f"{name}-{PANEL}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_raw_replies_are_read_as_the_product_reads_them(tmp_path: Path) -> None:
    context = small_context(tmp_path / "out", tmp_path, tmp_path)
    ids = [case.id for case in context.cases(PANEL).dataset.cases[:4]]
    # Of options A, B, C the first is always likeliest: in order i that is label i.
    top = [["A", math.log(0.5)], [" B", math.log(0.3)], ["C", math.log(0.1)], ["The", math.log(0.01)]]
    letters = [{"case": i, "order": o, "top": top} for i in ids for o in range(3)]
    words = ("B", "B. oral mucocele", "The correct answer is B.", "A")
    said = [{"case": i, "question": 0, "sample": n, "text": t} for i in ids for n, t in enumerate(words)]
    guesses = ["A: 0.20\nB: 0.70\nC: 0.10", "B: sure", "A: B", ""]
    free = [{"case": i, "question": 0, "sample": 0, "text": t} for i, t in zip(ids, guesses, strict=True)]
    for name, lines in {
        "letters": letters, "fidelity-t0.2": said, "fidelity-t0.6": said, "elicited-t0.2": free,
        "letters-4bit": letters,
    }.items():  # fmt: skip
        replies_file(tmp_path, name, lines)
    replies_file(tmp_path, "latency", [{"together": s, "letters": s / 10} for s in (1.0, 2.0, 9.0)])
    asked = {one.way: one for one in context.asked(PANEL)}
    # One of four guesses can be read: no row. Neither rounded weights nor other temperatures give one.
    assert set(asked) == {"ML", "ML, all orders", "EF"}
    sharp = np.array([5.0, 3, 1]) ** 5  # logits at temperature .2
    assert asked["ML"].probabilities[0] == pytest.approx(sharp / sharp.sum())
    assert asked["ML, all orders"].probabilities[0] == pytest.approx(np.ones(3) / 3)
    assert asked["EF"].probabilities[0] == pytest.approx([1 / 3, 2 / 3, 0])
    assert asked["EF"].readable.tolist() == [3.0] * 4
    assert (asked["EF"].seconds_per_case, asked["ML"].seconds_per_case) == (2.0, pytest.approx(0.2))
    orders = next(one for one in context.replies(PANEL) if one.method == "logits")
    assert orders.at(1)[0].argmax() == 1
    (series,) = [s for s in temperature_ablation(context).data["series"] if s["what"] != "ML"]
    assert (series["what"], [p["temperature"] for p in series["points"]]) == ("EF", [0.2, 0.6])
    (note,) = unreadable(context)
    assert "EP of hf:m" in note
    assert "1 of 4 can be read" in note


def test_the_stream_of_one_thing_does_not_depend_on_another(context: Context) -> None:
    assert context.rng("a").integers(1 << 30) == context.rng("a").integers(1 << 30)
    assert context.rng("a").integers(1 << 30) != context.rng("b").integers(1 << 30)


def test_intervals_hold_what_they_are_of() -> None:
    x = np.random.default_rng(0).normal(size=400)
    boot = Bootstrap(np.random.default_rng(1), 2000)
    half = 1.96 * x.std() / 20
    assert boot.of(np.mean, x) == pytest.approx([x.mean() - half, x.mean() + half], abs=0.02)
    low, high = boot.of(np.median, x)
    assert low < np.median(x) < high
    assert boot.of(np.median, np.zeros(0)) is boot.of(lambda _: None, x) is None


def test_nothing_installed_knows_of_the_paper() -> None:
    imports = re.compile(r"^\s*(?:from|import) paper\b", re.M)
    assert not [f for f in (ROOT / "src").rglob("*.py") if imports.search(f.read_text("utf-8"))]
