"""Bank folders: what is written is read back, and anything that changed afterwards is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.bank import read_bank, write_bank
from simdx.errors import BadInput
from simdx.types import Bank, Label, Panel


def test_the_hash_ignores_row_order_and_sees_every_text(toy_bank: Bank) -> None:
    n = len(toy_bank.texts)
    order = np.random.default_rng(0).permutation(n)
    shuffled = replace(
        toy_bank, texts=tuple(toy_bank.texts[i] for i in order), label_index=toy_bank.label_index[order]
    )
    assert shuffled.hash == toy_bank.hash
    changed = replace(toy_bank, texts=(toy_bank.texts[0] + " ", *toy_bank.texts[1:]))
    assert changed.hash != toy_bank.hash
    relabelled = replace(toy_bank, label_index=np.roll(toy_bank.label_index, 1))
    assert relabelled.hash != toy_bank.hash


def test_a_bank_of_another_panel_is_refused(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    write_bank(tmp_path / "b", toy_bank, toy_panel)
    other = Panel("other", (Label("x"), Label("y")))
    with pytest.raises(BadInput, match="other labels"):
        read_bank(tmp_path / "b", other)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"label": "apple"}', "line 2"),
        ('{"label": "apple", "text": "  "}', "line 2"),
        ('{"label": "pear", "text": "x"}', "row 2: its label is not in panel"),
        ("not json", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ('{"label": 3, "text": "x"}', "line 2"),
        ('{"label": "river", "text": "wet"}', "no description of 'engine'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, toy_panel: Panel, line: str, problem: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"label": "apple", "text": "red"}\n' + line + "\n")
    with pytest.raises(BadInput, match=problem):
        read_bank(path, toy_panel)
