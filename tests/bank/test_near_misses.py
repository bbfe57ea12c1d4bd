"""Near misses: what a model's list is read as, and what a background built from a list describes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from simdx.bank.conditions import outside, read_conditions
from simdx.bank.near_misses import ROUNDS, names_in, near_misses
from simdx.bank.plan import BACKGROUND, BankPlan, BuildSettings
from simdx.errors import BadInput, RunFailed
from simdx.panels import load_panel
from simdx.simulators.base import Capabilities, Completion, Request, failed

LISTS = {
    "oral squamous cell carcinoma": "1. Leukoplakia\n2. **Traumatic ulcer** (from a denture)\n3. Oral cancer",
    "oral mucocele": "- Ranula: a larger cyst\n- Leukoplakia\n- Pyogenic granuloma",
    "atrophic glossitis": "1) Geographic tongue\n2) A very long explanation of what else it might be here",
}


class Lister:
    """Answers every question about a label with that label's list."""

    id, concurrency, remote, lockstep = "lister@1", 4, False, False
    capabilities = Capabilities(False, False, True, True)

    def __init__(self, lists: dict[str, str] | None = None) -> None:
        self.lists = LISTS if lists is None else lists
        self.asked: list[Request] = []

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            self.asked.append(request)
            answer = next((a for name, a in self.lists.items() if name in request.prompt), None)
            yield position, failed("silent") if answer is None else Completion(answer)

    def close(self) -> None:
        pass


def test_names_are_read_off_a_list() -> None:
    said = "1. Gout\n2) **Lyme disease** - a tick's gift\n\n- Crohn's disease (of the mouth)\n• HIV infection"
    assert names_in(said) == ["Gout", "Lyme disease", "Crohn's disease", "HIV infection"]
    assert names_in("I am sorry, but as a model I can name none of those conditions for you today.") == []
    assert names_in("1.\n2. 42\n3. <script>\n4. E") == []
    said = "1. H. pylori infection\n2. Ear, nose and throat\n3. Guillain–Barré syndrome."
    assert names_in(said) == ["H. pylori infection", "Ear", "Guillain–Barré syndrome"]
    assert names_in("Gout\nI hope this helps") == ["Gout"], "only the first line may lack its bullet"
    assert names_in("1. Gout\n2. Chronic obstr", "length") == ["Gout"]


def test_near_misses_are_outside_the_panel_and_named_once() -> None:
    panel, lister = load_panel("oral-lesions"), Lister()
    found = near_misses(panel, lister, per_label=5)
    assert found == {
        "oral squamous cell carcinoma": ("Leukoplakia", "Traumatic ulcer"),  # oral cancer is an alias
        "oral mucocele": ("Ranula", "Pyogenic granuloma"),
        "atrophic glossitis": ("Geographic tongue",),
    }
    assert len(lister.asked) == ROUNDS * len(panel.labels)
    assert len({request.seed for request in lister.asked}) == len(lister.asked)
    assert near_misses(panel, Lister(), per_label=1)["oral mucocele"] == ("Ranula",)


def test_a_silent_or_useless_model_is_one_line() -> None:
    panel = load_panel("oral-lesions")
    dead = Lister({})
    with pytest.raises(RunFailed, match="silent"):
        near_misses(panel, dead, per_label=3)
    assert len(dead.asked) <= dead.concurrency < ROUNDS * len(panel.labels)  # not for every label
    with pytest.raises(RunFailed, match="without naming"):
        near_misses(panel, Lister(dict.fromkeys(panel.names, "1. Oral cancer")), per_label=3)


def test_a_list_of_ones_own_loses_only_what_names_a_label() -> None:
    panel = load_panel("symptom-to-diagnosis")
    listed = (
        "malaria", "Dengue Fever", "asthma with wheeze", "asthmatic cough", "chronic fatigue",
        "скарлатина",
    )  # fmt: skip
    assert outside(panel, listed) == ("malaria", "chronic fatigue", "скарлатина")
    assert outside(panel, ()) == ()
    with pytest.raises(BadInput, match="belongs to the panel"):
        BankPlan(panel, "m", BuildSettings(1, 2, conditions=("dengue",))).planned(BACKGROUND, 0)


def test_a_list_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "near.txt"
    file.write_text("# near misses" + "!" * 200 + "\nmalaria\n\n  scurvy \nMalaria\n", encoding="utf-8-sig")
    assert read_conditions(file) == ("malaria", "scurvy")
    bad = {
        b"# nothing\n": "names no condition", b"x" * 121: "line 1", b"malaria\na\x00b\n": "line 2",
        b"\xff\xfe": "UTF-8",
    }  # fmt: skip
    for content, complaint in bad.items():
        file.write_bytes(content)
        with pytest.raises(BadInput, match=complaint):
            read_conditions(file)
    for place, complaint in {tmp_path: "is not a file", tmp_path / "absent": "cannot be read"}.items():
        with pytest.raises(BadInput, match=complaint):
            read_conditions(place)
