"""The plan's banks and questions by a simulator without a model, read back as the artefacts read them."""

from pathlib import Path

import numpy as np
import pytest

from paper import gpu
from paper.replies import read_replies
from paper.world import read_panel, written_by_models, written_by_variants
from simdx.bank.files import read_bank
from simdx.panels import load_source
from simdx.simulators.base import Completion, TokenLogprobs
from simdx.simulators.scripted import ScriptedSimulator

PANEL = "oral-lesions"


class Asked(ScriptedSimulator):
    """Always the second option; of three guesses the third is out of the list."""

    def complete(self, requests):  # type: ignore[no-untyped-def]
        for i, request in enumerate(requests):
            text = "G1: 2, P1: 70%\nG2: 1, P2: 10%" if "guesses" in request.prompt else "2. that one"
            top = (("2", -0.1), ("1", -3.0), ("the", -5.0)) if request.logprobs else ()
            yield i, Completion(text, logprobs=(TokenLogprobs("2", -0.1, top),) if top else None)


@pytest.fixture
def _one_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "PANELS", (PANEL,))


@pytest.mark.usefixtures("_one_panel")
def test_three_draws_of_both_settings_are_written_once_and_name_no_label(tmp_path: Path) -> None:
    simulator = ScriptedSimulator(concurrency=30, leak=0.2)
    gpu.write_banks(tmp_path, "small", simulator, lambda: False, 20)
    assert written_by_models(PANEL, tmp_path / "banks") == ("small",)
    assert {one.kind for one in written_by_variants(PANEL, tmp_path / "banks").values()} == {"draw"}
    panel = load_source(PANEL).panel
    banks = [read_bank(tmp_path / "banks" / f"{PANEL}-small{end}", panel) for end in ("", "-s1", "-s2")]
    assert all(set(bank.counts.values()) == {20} for bank in banks)
    assert sum(banks[0].rejected.values()) > 0
    assert not any("mucocele" in text.lower() for bank in banks for text in bank.texts)
    assert len({bank.hash for bank in banks}) == 3
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}
    gpu.write_banks(tmp_path, "small", simulator, lambda: False, 20)
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}


@pytest.mark.usefixtures("_one_panel")
def test_no_bank_is_written_after_the_time(tmp_path: Path) -> None:
    gpu.write_banks(tmp_path, "small", ScriptedSimulator(), lambda: True, 20)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.usefixtures("_one_panel")
def test_numbered_replies_are_read_back(tmp_path: Path) -> None:
    gpu.ask(tmp_path, "small", Asked(), lambda: False, None)
    cases = read_panel(PANEL, None, None, None)
    found = {one.method: one for one in read_replies(tmp_path / "asking", PANEL, cases)}
    assert {name: one.calls for name, one in found.items()} == {
        "logits": 1, "elicited": 1, "ensemble": 8, "fidelity": 10,
    }  # fmt: skip
    assert all(len(one.positions) == cases.n and one.answered == 1 for one in found.values())
    np.testing.assert_allclose(found["fidelity"].probabilities[0], [0, 1, 0])
    np.testing.assert_allclose(found["elicited"].probabilities[0], [0.1, 0.7, 0.2])
    letters = found["logits"].scores[0, 0]
    np.testing.assert_allclose(letters / letters.sum(), np.exp([-3, -0.1, -5]) / np.exp([-3, -0.1, -5]).sum())


def test_the_questions_hold_the_case_and_every_option() -> None:
    for way in gpu.questions(("one", "two"), "a text").values():
        for request in way:
            assert all(part in request.prompt for part in ("1. one", "2. two", "a text"))
