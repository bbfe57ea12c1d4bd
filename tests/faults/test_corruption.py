"""One byte changed, or the end cut off: found out with a line that names the file, or without any effect.

A bank, its manifest, its answers and a network carry digests of all they say, so that every change shows. A
panel and a policy are written by people: a change in them that is still a panel is an edit, and no program
can tell; but whatever is in the file, it is read or refused in one line.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.amortised import network as networks
from simdx.bank.files import problems_of, read_bank, write_bank
from simdx.bank.store import AnswerStore
from simdx.baselines.replies import Reply, ReplyStore
from simdx.classifier import Classifier
from simdx.cli import audit
from simdx.decide.policy import policy_text, read_policy
from simdx.embedders import embed_cached, get_embedder
from simdx.errors import BadInput, SimdxError
from simdx.panels import load_panel
from simdx.runs import Record, Store
from simdx.service.audit import Entry, KeyRing, open_store
from simdx.types import Bank
from tests.faults.conftest import Cli
from tests.faults.networks import toy_network
from tests.faults.workloads import simdx


def flips(data: bytes, every: int = 1, mask: int = 0) -> Iterator[tuple[int, bytes]]:
    """The data with one byte changed, for each `every`-th byte; one bit of it, another from byte to byte."""
    for i in range(0, len(data), every):
        yield i, data[:i] + bytes([data[i] ^ (mask or 1 << (i * 5 + 3) % 8)]) + data[i + 1 :]


def cuts(data: bytes, every: int = 1) -> Iterator[tuple[int, bytes]]:
    for i in range(0, len(data), every):
        yield i, data[:i]


def damages(data: bytes, every: int = 1) -> Iterator[tuple[str, bytes]]:
    yield from ((f"byte {i}", changed) for i, changed in flips(data, every))
    yield from ((f"cut at {i}", changed) for i, changed in cuts(data, every))


def one_line(error: SimdxError, *names: str) -> None:
    """One clear line that says which file, or which folder of them, is meant."""
    assert "\n" not in str(error)
    assert any(name in str(error) for name in names), str(error)


# --------------------------------------------------------------------------- banks


def small_bank(folder: Path, world: Path) -> Bank:
    panel = load_panel(world / "panel.yaml")
    texts = ("red fruit", "wet wäter", "hot oil")
    bank = Bank("toy", panel.names, texts, np.arange(3), ("other words",), {"refusal": 2}, name="b")
    write_bank(folder, bank, panel, {"simulator": "scripted", "settings": {"temperature": 0.8}})
    return bank


@pytest.mark.parametrize("name", ["bank.jsonl", "background.jsonl", "manifest.json"])
def test_every_byte_of_a_bank(world: Path, name: str) -> None:
    """Each byte once with one bit changed, and the file cut at every length: verify and read notice all."""
    folder = world / "b"
    small_bank(folder, world)
    panel = load_panel(world / "panel.yaml")
    original = (folder / name).read_bytes()
    for where, changed in damages(original):
        (folder / name).write_bytes(changed)
        try:
            found = list(problems_of(folder))
        except BadInput as error:
            found = [str(error)]
        assert found, (name, where)
        with pytest.raises(BadInput) as caught:
            read_bank(folder, panel)
        one_line(caught.value, "'b'")
    (folder / name).write_bytes(original)
    assert list(problems_of(folder)) == []


@pytest.mark.slow
def test_every_bit_of_a_bank(world: Path) -> None:
    folder = world / "b"
    small_bank(folder, world)
    for name in ("bank.jsonl", "background.jsonl", "manifest.json"):
        original = (folder / name).read_bytes()
        for bit in range(8):
            for where, changed in flips(original, mask=1 << bit):
                (folder / name).write_bytes(changed)
                with contextlib.suppress(BadInput):
                    assert list(problems_of(folder)), (name, bit, where)
        (folder / name).write_bytes(original)


def test_the_command_line_names_a_damaged_bank(world: Path, cli: Cli) -> None:
    small_bank(world / "b", world)
    path = world / "b" / "bank.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    verified = cli("bank", "verify", world / "b")
    assert verified.code == 1
    assert "bank.jsonl was changed" in verified.err
    used = cli("classify", "red fruit", "--panel", world / "panel.yaml", "--bank", world / "b")
    assert "'b' does not hold: bank.jsonl was changed" in used.complaint


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_the_answers_of_a_build(world: Path, every: int) -> None:
    """A changed answer is refused by its line; only the end of the file may be cut, where a kill cuts it."""
    out = world / "built"
    simdx("bank", "build", "--panel", f"{world}/panel.yaml", "--simulator", "scripted", "--per-label", "1",
          "--out", str(out))  # fmt: skip
    original = (out / "answers.jsonl").read_bytes()
    with AnswerStore(out) as store:
        expected = dict(store.answers)
    for where, changed in flips(original, every):
        (out / "answers.jsonl").write_bytes(changed)
        try:
            with AnswerStore(out) as store:
                # The last line feed is no part of an answer, and a torn last answer is asked for again.
                lost = set(expected) - set(store.answers)
                assert store.answers.items() <= expected.items()
                assert len(lost) <= (where >= original.rindex(b"\n", 0, -1)), where
        except BadInput as error:
            one_line(error, "answers.jsonl line")


# --------------------------------------------------------------------------- networks


def test_every_byte_of_a_networks_card_and_many_of_its_weights(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    networks.save(toy_network(1), folder)
    whole = networks.load(folder)
    card = folder / networks.CARD_FILE
    weights = next(folder.glob("weights-*"))
    for path, every in ((card, 1), (weights, 20_011)):
        original = path.read_bytes()
        for where, changed in damages(original, every):
            path.write_bytes(changed)
            try:
                back = networks.load(folder)
            except BadInput as error:
                one_line(error, str(folder))
            else:  # a blank between two words of the card
                assert path == card, where
                assert back.card == whole.card, where
        path.write_bytes(original)


# --------------------------------------------------------------------------- caches, chunks, replies, records


def test_a_damaged_embedding_is_made_again(world: Path) -> None:
    embedder = get_embedder("hashing")
    texts = ["red fruit", "wet water"]
    good = embed_cached(embedder, texts).copy()
    (path,) = (world / "home" / "embeddings").glob("*.safetensors")
    original = path.read_bytes()
    for where, changed in damages(original, 29):
        path.write_bytes(changed)
        assert np.array_equal(embed_cached(embedder, texts), good), where
        assert path.read_bytes() == original  # mended on the way


def test_a_damaged_policy_in_the_cache_is_made_again(world: Path) -> None:
    expected = Classifier(world / "with-bank.yaml").policy
    (path,) = (world / "home" / "policies").glob("*.yaml")
    original = path.read_bytes()
    assert b"confident: " in original
    changed = original.replace(b"confident: 0.", b"confident: 1.", 1)
    path.write_bytes(changed if changed != original else original[:-9])
    assert Classifier(world / "with-bank.yaml").policy == expected
    assert path.read_bytes() == original


def test_a_damaged_chunk_is_computed_again(tmp_path: Path) -> None:
    def compute(texts: object) -> dict[str, np.ndarray]:
        return {"posterior": np.array([[0.25, 0.75], [0.5, 0.5]])}

    good = Store(tmp_path).answers("run", ["a", "b"], compute)["posterior"]
    (path,) = tmp_path.rglob("*.safetensors")
    original = path.read_bytes()
    for where, changed in damages(original):
        path.write_bytes(changed)
        found = Store(tmp_path).answers("run", ["a", "b"], compute)["posterior"]
        assert np.array_equal(found, good), where


def test_a_damaged_reply_is_asked_again_and_never_believed(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    store = ReplyStore(path)
    kept = {f"k{i}": Reply((0.25, 0.75), None, i, 2, 0.5) for i in range(2)}
    for key, reply in kept.items():
        store.keep(key, reply)
    original = path.read_bytes()
    for where, changed in damages(original):
        path.write_bytes(changed)
        found = ReplyStore(path)
        for key in ("k0", "k1"):
            assert found.get(key) in (None, kept[key]), where


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    rows = {"id": ["a", "ü"], "posterior": [[0.25, 0.75], [0.5, 0.5]]}
    store, good = Store(tmp_path), Record("cell", "done", {"metrics": {"ece": 0.125}}, rows=rows)
    store.write(good)
    path = tmp_path / "cells" / "cell.json"
    for where, changed in damages(path.read_bytes()):
        path.write_bytes(changed)
        found = store.read("cell")
        if found is not None:  # a blank, or the seal's own name: the content is the same
            assert (found.found | good.found, found.rows) == (found.found, good.rows), where


# --------------------------------------------------------------------------- what people write


def readable(path: Path, read: Callable[[Path], object], every: int) -> tuple[int, int]:
    """How many damaged versions are still read, and how many are refused in one line that names the file."""
    original, read_count, refused = path.read_bytes(), 0, 0
    for _, changed in damages(original, every):
        path.write_bytes(changed)
        try:
            read(path)
            read_count += 1
        except BadInput as error:
            one_line(error, path.name)
            refused += 1
    path.write_bytes(original)
    return read_count, refused


def test_a_damaged_panel_is_read_or_refused_in_one_line(world: Path) -> None:
    read, refused = readable(world / "panel.yaml", load_panel, 1)
    assert refused > 20
    assert read > 0  # a letter of a label changed is another label: an edit like any other


def test_a_damaged_policy_is_read_or_refused_in_one_line(world: Path) -> None:
    path = world / "policy.yaml"
    path.write_text(policy_text(Classifier(world / "with-bank.yaml").policy), "utf-8")
    panel = load_panel(world / "panel.yaml")
    _, refused = readable(path, lambda p: read_policy(p, panel), 31)
    assert refused > 20


# --------------------------------------------------------------------------- the audit log


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path]:
    """An audit log at rest, and its key."""
    key = tmp_path / "audit.key"
    path = tmp_path / "audit.sqlite3"
    store = open_store(f"sqlite:///{path}", KeyRing.from_file(key, create=True))
    store.append([Entry(f"{i}.0", "answer", "me", "toy", answer={"label": "apple"}) for i in range(4)])
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path, key


def content_of(path: Path, key: Path) -> list[object]:
    store = open_store(f"sqlite:///{path}", KeyRing.from_file(key))
    return [*store.records(), store.head(), *(store.find(f"{i}.0") for i in range(4))]


def verified(**options: Any) -> SimdxError | None:
    """What `simdx audit verify` finds, without the cost of a command line; None where the log holds."""
    asked = {"source": None, "head": None, "checkpoints": None, "without": None, "url": None, "key": None,
             "json": False, **options}  # fmt: skip
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            audit.verify(**asked)
    except SimdxError as error:
        return error
    return None


def audit_flips(log: tuple[Path, Path], places: Iterable[int]) -> int:
    """How many changed bytes were told of; the others must be without effect."""
    path, key = log
    good, original = content_of(path, key), path.read_bytes()
    noticed = 0
    for i in places:
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink(missing_ok=True)
        path.write_bytes(original[:i] + bytes([original[i] ^ 1 << (i * 5 + 3) % 8]) + original[i + 1 :])
        error = verified(url=f"sqlite:///{path}", key=key)
        if error is None:
            assert content_of(path, key) == good, f"byte {i} is changed, and nothing says so"
        else:
            one_line(error, "audit log")
            noticed += 1
    return noticed


def used_bytes(path: Path) -> list[int]:
    """Where the file says something: elsewhere pages are blank."""
    return [i for i, byte in enumerate(path.read_bytes()) if byte]


def test_damage_to_the_audit_log_is_told_or_without_effect(log: tuple[Path, Path]) -> None:
    chosen = random.Random(5).sample(used_bytes(log[0]), 60)
    assert audit_flips(log, [*range(0, 100, 4), *chosen]) > 20


@pytest.mark.slow
def test_every_used_byte_of_the_audit_log(log: tuple[Path, Path]) -> None:
    audit_flips(log, used_bytes(log[0]))


def test_a_cut_audit_log_is_told(log: tuple[Path, Path]) -> None:
    path, key = log
    original = path.read_bytes()
    for size in (0, 1, 50, 99, 100, 511, *range(512, len(original), 4099)):
        path.write_bytes(original[:size])
        error = verified(url=f"sqlite:///{path}", key=key)
        assert error is not None, size
        one_line(error, "audit log")


def test_an_export_with_a_changed_byte_does_not_hold(log: tuple[Path, Path], cli: Cli) -> None:
    path, key = log
    out = path.with_name("log.jsonl")
    told = cli("audit", "export", "--out", out, "--url", f"sqlite:///{path}", "--key", key, "--json").json
    original = out.read_bytes()
    lines = [json.loads(line) for line in original.splitlines()]
    for i, changed in flips(original, 5):
        out.write_bytes(changed)
        error = verified(source=out, key=key, head=told["head"])
        if error is None:
            assert [json.loads(line) for line in changed.splitlines()] == lines, i
        else:
            one_line(error, "audit log", out.name)
