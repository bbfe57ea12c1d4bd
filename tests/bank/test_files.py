"""Banks as files, banks joined, banks described, and simulations made on the spot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.bank import read_bank, write_bank
from simdx.bank.exchange import describe_bank, export_bank, merge_banks, read_descriptions
from simdx.bank.files import problems_of
from simdx.bank.plan import ATTEMPTS, LiveSimulations
from simdx.datasets import Columns
from simdx.embedders import embed_texts, get_embedder
from simdx.errors import BadInput, RunFailed
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Bank, Label, Panel


def test_the_hash_ignores_row_order_and_sees_every_text(toy_bank: Bank) -> None:
    texts, index = toy_bank.texts, toy_bank.label_index
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = replace(toy_bank, texts=tuple(texts[i] for i in order), label_index=index[order])
    assert shuffled.hash == toy_bank.hash
    assert replace(toy_bank, texts=(texts[0] + " ", *texts[1:])).hash != toy_bank.hash
    assert replace(toy_bank, label_index=np.roll(index, 1)).hash != toy_bank.hash


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"label": "apple"}', "line 2"),
        ('{"label": "apple", "text": "  "}', "line 2"),
        ('{"label": "pear", "text": "x"}', "row 2: its label is not in panel"),
        ("not json", "line 2: not valid JSON"),
        ('{"label": 3, "text": "x"}', "line 2"),
        ('{"label": "river", "text": "wet"}', "no description of 'engine'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, toy_panel: Panel, line: str, problem: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"label": "apple", "text": "red"}\n' + line + "\n")
    with pytest.raises(BadInput, match=problem):
        read_bank(path, toy_panel)


@pytest.fixture
def folder(tmp_path: Path, toy_bank: Bank, toy_panel: Panel) -> Path:
    write_bank(tmp_path / "bank", replace(toy_bank, background=("a cloud", "a stone")), toy_panel)
    return tmp_path / "bank"


def test_a_bank_of_another_panel_is_not_read_nor_a_damaged_one_exported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="other labels"):
        read_bank(folder, Panel("other", (Label("x"), Label("y"))))
    path = folder / "bank.jsonl"
    path.write_text(path.read_text().replace("fruit", "fruits", 1))
    with pytest.raises(BadInput, match="changed"):
        export_bank(folder, tmp_path / "one.jsonl")
    assert not (tmp_path / "one.jsonl").exists()
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"panel": "', '"panel": "\\ud800', 1))  # no such letter
    assert "its manifest.json was changed after it was written" in list(problems_of(folder))


def test_a_merge_takes_each_text_once(folder: Path, toy_panel: Panel, toy_bank: Bank, tmp_path: Path) -> None:
    more = replace(toy_bank, texts=(*toy_bank.texts[:-1], "a wholly new engine"))
    write_bank(tmp_path / "more", more, toy_panel)
    distinct = len(set(zip(toy_bank.label_index.tolist(), toy_bank.texts, strict=True)))
    manifest = merge_banks([folder, tmp_path / "more"], toy_panel, tmp_path / "merged")
    assert sum(manifest["labels"].values()) == distinct + 1
    assert manifest["rejected"]["same text in two banks"] == 72 - distinct - 1
    assert [m["name"] for m in manifest["merged"]] == ["bank", "more"]
    assert list(problems_of(tmp_path / "merged")) == []
    strange = tmp_path / "x.jsonl"
    strange.write_text('{"label": "cat", "text": "purrs"}\n')
    for sources, out, said in (
        ([folder, tmp_path / "more"], "merged", "not empty"),
        ([folder], "other", "at least two"),
        ([folder, strange], "other", "row 1"),
    ):
        with pytest.raises(BadInput, match=said):
            merge_banks(sources, toy_panel, tmp_path / out)
    with pytest.raises(BadInput, match="exists"):
        export_bank(folder, strange)


def test_statistics_tell_separate_labels_from_mixed_ones(toy_bank: Bank) -> None:
    vectors = embed_texts(get_embedder("hashing"), toy_bank.texts)
    found = describe_bank(toy_bank, vectors)
    assert found["labels"]["apple"]["n"] == 12
    assert found["labels"]["apple"]["words"] == {"mean": 6.0, "min": 6, "median": 6.0, "max": 6}
    assert all(found["confusion"][name][name] > 0.9 for name in toy_bank.labels)
    assert all(sum(row.values()) == pytest.approx(1, abs=1e-3) for row in found["confusion"].values())
    mixed = replace(toy_bank, label_index=np.arange(36) % 3)
    confused = describe_bank(mixed, vectors)["confusion"]
    assert all(confused[name][name] < 0.7 for name in toy_bank.labels)


def test_live_simulations_are_counted_seeded_and_scrubbed(toy_panel: Panel) -> None:
    embedder, labels = get_embedder("hashing"), np.array([0, 2, 1, 0, 0, 2] * 10)
    first = LiveSimulations(toy_panel, ScriptedSimulator(refusal=0.3), embedder)
    vectors = first(labels, np.random.default_rng(5))
    assert vectors.shape == (60, sum(embedder.blocks))
    assert first.usage.calls == 60 + first.usage.rejected["refusal"] > 60
    assert first.usage.completion_tokens > 0
    assert first.usage.costs()["llm_calls"] == first.usage.calls
    again = LiveSimulations(toy_panel, ScriptedSimulator(refusal=0.3, concurrency=1), embedder)
    assert np.array_equal(vectors, again(labels, np.random.default_rng(5)))
    assert not np.array_equal(vectors, again(labels, np.random.default_rng(6)))
    poor = LiveSimulations(toy_panel, ScriptedSimulator(refusal=1.0), embedder)
    assert len(poor(np.array([0, 1]), np.random.default_rng(1))) == 2  # rather than ask for ever
    assert (poor.usage.calls, poor.usage.taken_unscrubbed) == (2 * ATTEMPTS, 2)
    silent = LiveSimulations(toy_panel, ScriptedSimulator(empty=1.0), embedder)
    with pytest.raises(RunFailed, match="no text"):
        silent(np.array([0]), np.random.default_rng(1))


@pytest.mark.filterwarnings("ignore")  # of the library
def test_hugging_face_data_sets_in_and_out(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    """Read by their own library and written by it: distilabel's columns, class numbers, shards, failures."""
    import datasets

    datasets.disable_progress_bars()
    folder, out = tmp_path / "bank", tmp_path / "bank.parquet"
    write_bank(folder, replace(toy_bank, background=("a stone wall",)), toy_panel)
    export_bank(folder, out)
    theirs = datasets.Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert theirs.num_rows == 37
    assert [row["text"] for row in theirs if row["label"] == "apple"] == list(toy_bank.texts[:12])
    assert [row["text"] for row in theirs if row["label"] is None] == ["a stone wall"]
    names = datasets.ClassLabel(names=["engine", "apple", "river"])
    text = datasets.Value("string")
    features = datasets.Features({"task": text, "input_text": text, "label": names, "model_name": text})
    number = {name: i for i, name in enumerate(names.names)}
    rows = [
        {"task": "t", "input_text": text, "label": number[toy_panel.names[k]], "model_name": "m"}
        for k, text in zip(toy_bank.label_index, toy_bank.texts, strict=True)
    ]
    rows.append({**rows[0], "input_text": None})
    shards = tmp_path / "data.parquet"  # as Spark and dask name a folder
    shards.mkdir()
    for i, part in enumerate((rows[:20], rows[20:])):
        made = datasets.Dataset.from_list(part, features=features)
        made.to_parquet(str(shards / f"train-{i:05d}-of-00002.parquet"))
    columns = Columns(text="input_text", id=None)
    bank = read_descriptions(shards, toy_panel, columns)
    assert bank.hash == toy_bank.hash
    assert bank.rejected == {"no text": 1}
    with pytest.raises(BadInput, match="no text in"):
        read_descriptions(shards, toy_panel, Columns(text="text", id=None))
    other = replace(toy_panel, labels=toy_panel.labels[:2])
    with pytest.raises(BadInput, match="no label of panel"):
        read_descriptions(shards / "train-00001-of-00002.parquet", other, columns)
