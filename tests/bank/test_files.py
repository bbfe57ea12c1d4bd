"""Bank folders: what is written is read back, and anything that changed afterwards is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.bank import problems_of, read_bank, write_bank
from simdx.errors import BadInput
from simdx.types import Bank, Label, Panel


def test_round_trip(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    bank = replace(toy_bank, background=("something else", "another thing"), rejected={"too short": 3})
    write_bank(tmp_path / "b", bank, toy_panel)
    back = read_bank(tmp_path / "b", toy_panel)
    assert back.texts == bank.texts
    assert np.array_equal(back.label_index, bank.label_index)
    assert back.background == bank.background
    assert back.rejected == {"too short": 3}
    assert back.hash == bank.hash
    assert list(problems_of(tmp_path / "b")) == []


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


def test_every_flipped_byte_of_a_small_bank_is_noticed(tmp_path: Path, toy_panel: Panel) -> None:
    bank = Bank("toy", toy_panel.names, ("red fruit", "wet water", "hot oil"), np.arange(3), name="b")
    folder = tmp_path / "b"
    write_bank(folder, bank, toy_panel)
    original = (folder / "bank.jsonl").read_bytes()
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= 0x01
        (folder / "bank.jsonl").write_bytes(bytes(damaged))
        with pytest.raises(BadInput):
            read_bank(folder, toy_panel)
    for cut in range(len(original)):
        (folder / "bank.jsonl").write_bytes(original[:cut])
        with pytest.raises(BadInput):
            read_bank(folder, toy_panel)


def test_a_damaged_manifest_is_one_clear_line(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    folder = tmp_path / "b"
    write_bank(folder, toy_bank, toy_panel)
    good = json.loads((folder / "manifest.json").read_text())
    for bad in ("", "[]", "{}", "null", json.dumps({**good, "files": 3}), json.dumps({**good, "format": 99})):
        (folder / "manifest.json").write_text(bad)
        with pytest.raises(BadInput) as caught:
            read_bank(folder, toy_panel)
        assert "\n" not in str(caught.value)
    for key, value in (("hash", "0" * 64), ("labels", {**good["labels"], "apple": 1})):
        (folder / "manifest.json").write_text(json.dumps({**good, key: value}))
        with pytest.raises(BadInput, match="does not hold"):
            read_bank(folder, toy_panel)


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
        ("not json", "line 2: not valid JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('{"label": 3, "text": "x"}', "line 2"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, toy_panel: Panel, line: str, problem: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"label": "apple", "text": "red"}\n' + line + "\n")
    with pytest.raises(BadInput, match=problem):
        read_bank(path, toy_panel)


def test_a_label_without_descriptions_is_named(tmp_path: Path, toy_panel: Panel) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"label": "apple", "text": "red"}\n{"label": "river", "text": "wet"}\n')
    with pytest.raises(BadInput, match="no description of 'engine'"):
        read_bank(path, toy_panel)
