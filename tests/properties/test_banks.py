"""Banks: any JSONL is read or refused, and what is written comes back the same, background and all."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.bank.conditions import outside
from simdx.bank.exchange import export_bank, merge_banks, read_any_bank
from simdx.bank.files import background_texts, problems_of, read_bank, read_manifest, write_bank
from simdx.bank.plan import choose, facets_of
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.bank.store import read_answers
from simdx.errors import BadInput
from simdx.types import Bank, Label, Panel
from tests.properties.strategies import accepted, bounded, broken_texts, few, filled_texts, texts, trees

PANEL = Panel("toy", (Label("a"), Label("b")))
rows = st.lists(
    st.one_of(
        st.fixed_dictionaries({"label": st.sampled_from(["a", "b"]), "text": filled_texts}),
        st.fixed_dictionaries({"label": trees, "text": trees}),
        trees,
    ),
    max_size=6,
)
banks = st.tuples(
    st.lists(filled_texts, min_size=1, max_size=4),
    st.lists(filled_texts, min_size=1, max_size=4),
    st.lists(filled_texts, max_size=2),
)


def bank_of(parts: tuple[list[str], list[str], list[str]]) -> Bank:
    a, b, background = parts
    index = np.array([0] * len(a) + [1] * len(b))
    return Bank("toy", PANEL.names, (*a, *b), index, background=tuple(background), name="toy")


def check(path: Path) -> None:
    for read in (read_bank, read_any_bank):
        bank = accepted(lambda read=read: read(path, PANEL))
        if bank is not None:
            assert set(bank.counts) == {"a", "b"}
            assert min(bank.counts.values()) >= 1
            assert all(text.strip() for text in bank.texts)
            bank.hash.encode()
            "".join(bank.texts).encode()  # nothing that cannot be written again
    accepted(lambda: background_texts(path))
    accepted(lambda: list(read_answers(path)))


@bounded
@given(rows)
def test_any_rows(tmp_path: Path, found: list[object]) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in found), encoding="utf-8")
    check(path)


@bounded
@given(broken_texts)
def test_half_characters_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.jsonl"
    good = [{"label": "a", "text": "x"}, {"label": "b", "text": "y"}]
    path.write_text("\n".join(json.dumps(row) for row in [*good, {"label": "a", "text": text}]))
    with pytest.raises(BadInput, match="line 3"):
        read_bank(path, PANEL)


@few
@given(banks)
def test_written_banks_come_back(tmp_path_factory: pytest.TempPathFactory, parts: tuple) -> None:
    folder = tmp_path_factory.mktemp("bank")
    bank = bank_of(parts)
    write_bank(folder / "bank", bank, PANEL)
    assert list(problems_of(folder / "bank")) == []
    again = read_bank(folder / "bank", PANEL)
    assert (again.texts, again.background, again.hash) == (bank.texts, bank.background, bank.hash)
    for name in ("out.jsonl", "out.parquet"):
        export_bank(folder / "bank", folder / name)
        assert read_any_bank(folder / name, PANEL).hash == bank.hash
    merged = merge_banks([folder / "out.jsonl", folder / "out.parquet"], PANEL, folder / "merged")
    assert sum(merged["labels"].values()) == len(set(zip(bank.label_index.tolist(), bank.texts, strict=True)))


@bounded
@given(trees)
def test_any_manifest(tmp_path: Path, tree: object) -> None:
    if not (tmp_path / "bank").exists():
        write_bank(tmp_path / "bank", bank_of((["x"], ["y"], [])), PANEL)
    manifest = json.loads((tmp_path / "bank" / "manifest.json").read_text())
    keys = [key for key in manifest if key != "format"]
    folder = tmp_path / "damaged"
    write_bank(folder, bank_of((["x"], ["y"], [])), PANEL)
    for damaged in (tree, *({**manifest, key: tree} for key in keys)):
        (folder / "manifest.json").write_text(json.dumps(damaged))
        accepted(lambda: read_manifest(folder))
        accepted(lambda: list(problems_of(folder)))
        accepted(lambda: read_bank(folder, PANEL))


@bounded
@given(
    st.dictionaries(filled_texts, st.lists(filled_texts, max_size=4).map(tuple), max_size=4),
    texts,
    st.integers(0, 10**6),
)
def test_every_value_of_a_facet_comes_up_once_a_cycle(
    facets: dict[str, tuple[str, ...]], stratum: str, start: int
) -> None:
    panel = Panel("toy", (Label("a"), Label("b")), facets=facets)
    everything = facets_of(panel)
    assert set(choose(everything, stratum, start)) == set(everything)
    for name, values in everything.items():
        first = start * len(values)
        drawn = [choose({name: values}, stratum, first + i)[name] for i in range(len(values))]
        assert sorted(drawn) == sorted(values)


@bounded
@given(texts, texts, st.sampled_from(["stop", "length", "odd"]))
def test_scrubbing_any_reply(text: str, name: str, ending: str) -> None:
    tidied = tidy(text, ending)
    assert len(tidied) <= len(text) * 4
    scrubber = Scrubber([name], "patient")
    assert scrubber.reason(tidied) is None or isinstance(scrubber.reason(tidied), str)
    memory = Duplicates()
    assert not memory.seen(tidied)
    assert memory.seen(tidied)
    outside(Panel("toy", (Label(name or "x"), Label("b"))))
