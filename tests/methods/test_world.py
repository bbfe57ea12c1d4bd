"""The library beside the panels: what stands there, and what probes of other conditions get."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx import Classifier, library
from simdx.methods import PanelData
from simdx.methods.background import SLOPE
from simdx.methods.calibration_record import OutsideScale
from simdx.methods.world import NEAREST, world_log_odds, world_of
from simdx.types import Bank, Panel

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


PROBES = rows("outside_probes.jsonl")


def outside_of(panel: str) -> list[dict]:
    return [probe for probe in PROBES if panel not in probe["inside"]]


def test_a_panel_far_from_the_library_has_no_world(toy_panel: Panel, toy_bank: Bank) -> None:
    from simdx.embedders import get_embedder

    data = PanelData.prepare(toy_panel, toy_bank, get_embedder("hashing"))
    assert world_of(replace(data, panel=replace(toy_panel, world=True))) is None


def test_a_list_of_questions_is_not_weighed_against_the_library() -> None:
    scale = OutsideScale((0.0,), (1.0,), 1.0)
    features = np.array([[3.0], [3.0]])
    found = world_log_odds(features, ["Do you have a fever? Yes", "I have a fever"], scale)
    assert found[0] == -np.inf
    assert found[1] == pytest.approx(2 * SLOPE)


def test_a_panel_from_the_library_needs_no_model(tmp_path: Path, private_home: Path) -> None:
    (tmp_path / "headaches.yaml").write_text(
        "register: patient\nlabels: [migraine, tension headache, cluster headache]\n"
    )
    classifier = Classifier(tmp_path / "headaches.yaml")
    world = classifier.fitted.outside.world
    named = {library.texts()[i].condition for i in world.chosen}
    assert not named & library.related_to(classifier.panel.labels)
    assert NEAREST <= len(world.chosen) <= NEAREST + len(library.conditions())
    cases = rows("headache_cases.jsonl")
    table = classifier.infer_batch([case["text"] for case in cases])
    given = [classifier.outcomes[i] for i in table.posterior.argmax(axis=1)]
    right = np.mean([label == case["label"] for label, case in zip(given, cases, strict=True)])
    assert right >= 0.85
    none = classifier.infer_batch([probe["text"] for probe in outside_of("headaches")]).out_of_class
    assert none.mean() >= 0.35  # half of it: its own texts overlap with the library's
    answer = classifier.infer(cases[0]["text"])
    assert answer.label == "migraine"
    assert answer.decision.action != "accept"  # no labelled case has checked it
