"""One byte changed, or the end cut off: found out with a line that names the file, or without any effect.

A bank, its manifest, its answers and a network carry digests of all they say, so that every change shows. A
panel and a policy are written by people: a change in them that is still a panel is an edit, and no program
can tell; but whatever is in the file, it is read or refused in one line.
"""

import contextlib
import io
import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
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
from simdx.service.audit import AuditKey, AuditStore, Entry
from simdx.types import Bank
from tests.faults.conftest import Cli
from tests.faults.networks import toy_network
from tests.faults.writers import simdx


def flips(data: bytes, every: int = 1) -> Iterator[tuple[int, bytes]]:
    """The data with one byte changed, for each `every`-th byte; one bit of it, another from byte to byte."""
    for i in range(0, len(data), every):
        yield i, data[:i] + bytes([data[i] ^ 1 << (i * 5 + 3) % 8]) + data[i + 1 :]


def damages(data: bytes, every: int = 1) -> Iterator[tuple[str, bytes]]:
    yield from ((f"byte {i}", changed) for i, changed in flips(data, every))
    yield from ((f"cut at {i}", data[:i]) for i in range(0, len(data), every))


def one_line(error: SimdxError, *names: str) -> None:
    """One clear line that says which file, or which folder of them, is meant."""
    assert "\n" not in str(error)
    assert any(name in str(error) for name in names), str(error)


# --------------------------------------------------------------------------- what digests vouch for


@pytest.mark.parametrize("name", ["bank.jsonl", "background.jsonl", "manifest.json"])
def test_every_byte_of_a_bank(world: Path, name: str) -> None:
    """Each byte once with one bit changed, and the file cut at every length: verify and read notice all."""
    folder, panel = world / "b", load_panel(world / "panel.yaml")
    texts = ("red fruit", "wet wäter", "hot oil")
    bank = Bank("toy", panel.names, texts, np.arange(3), ("other words",), {"refusal": 2}, name="b")
    write_bank(folder, bank, panel, {"simulator": "scripted", "settings": {"temperature": 0.8}})
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


def test_the_answers_of_a_build(world: Path) -> None:
    """A changed answer is refused by its line; only the end of the file may be cut, where a kill cuts it."""
    out = world / "built"
    simdx("bank", "build", "--panel", f"{world}/panel.yaml", "--simulator", "scripted", "--per-label", "1",
          "--out", str(out))  # fmt: skip
    original = (out / "answers.jsonl").read_bytes()
    with AnswerStore(out) as store:
        expected = dict(store.answers)
    for where, changed in flips(original, 11):
        (out / "answers.jsonl").write_bytes(changed)
        try:
            with AnswerStore(out) as store:
                # The last line feed is no part of an answer, and a torn last answer is asked for again.
                lost = set(expected) - set(store.answers)
                assert store.answers.items() <= expected.items()
                assert len(lost) <= (where >= original.rindex(b"\n", 0, -1)), where
        except BadInput as error:
            one_line(error, "answers.jsonl line")


def test_every_byte_of_a_networks_card_and_many_of_its_weights(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    networks.save(toy_network(1), folder)
    whole, path = networks.load(folder), folder / networks.NETWORK_FILE
    original = path.read_bytes()
    header = 8 + int.from_bytes(original[:8], "little")
    every_byte = ((w, c + original[header:]) for w, c in damages(original[:header], 1))
    for where, changed in chain(every_byte, damages(original, 20_011)):
        path.write_bytes(changed)
        try:
            back = networks.load(folder)
        except BadInput as error:
            one_line(error, str(folder))
        else:  # a blank between two words of the header
            assert back.card == whole.card, where
            pairs = zip(chain(*back.layers), chain(*whole.layers), strict=True)
            assert all(np.array_equal(*pair) for pair in pairs), where


# --------------------------------------------------------------------------- what is made or asked again

Kept = tuple[Path, Callable[[], Any]]  # the file, and what reading it gives


def an_embedding(world: Path) -> Kept:
    def read() -> Any:
        return embed_cached(get_embedder("hashing"), ["red fruit", "wet water"]).tolist()

    read()
    return next((world / "home" / "embeddings").glob("*.safetensors")), read


def a_chunk(world: Path) -> Kept:
    def read() -> Any:
        rows = {"posterior": np.array([[0.25, 0.75], [0.5, 0.5]])}
        return Store(world / "run").answers("run", ["a", "b"], lambda texts: rows)["posterior"].tolist()

    read()
    return next((world / "run").rglob("*.safetensors")), read


def replies(world: Path) -> Kept:
    path = world / "replies.jsonl"
    store = ReplyStore(path)
    for i in range(2):
        store.keep(f"k{i}", Reply((0.25, 0.75), None, i, 2, 0.5))
    return path, lambda: [ReplyStore(path).get(f"k{i}") for i in range(2)]


def a_record(world: Path) -> Kept:
    rows = {"id": ["a", "ü"], "posterior": [[0.25, 0.75], [0.5, 0.5]]}
    Store(world).write(Record("cell", "done", {"metrics": {"ece": 0.125}}, rows=rows))

    def read() -> Any:
        found = Store(world).read("cell")  # a blank, or the seal's own name: the content is the same
        return [found and (found.found.get("metrics"), found.rows)]

    return world / "cells" / "cell.json", read


@pytest.mark.parametrize(
    ("make", "every", "again"),
    [(an_embedding, 29, True), (a_chunk, 1, True), (replies, 1, False), (a_record, 1, False)],
)
def test_what_is_damaged_is_never_believed(
    world: Path, make: Callable[[Path], Kept], every: int, again: bool
) -> None:
    """Caches are made anew, and mended on the way; of a reply or a record nothing is left."""
    path, read = make(world)
    original, good = path.read_bytes(), read()
    for where, changed in damages(original, every):
        path.write_bytes(changed)
        found = read()
        assert found == good if again else all(f in (None, g) for f, g in zip(found, good, strict=True)), (
            where
        )
        assert not again or path.read_bytes() == original, where


# --------------------------------------------------------------------------- what people write


@pytest.mark.parametrize(("name", "every"), [("panel.yaml", 1), ("policy.yaml", 31)])
def test_what_people_write_is_read_or_refused_in_one_line(world: Path, name: str, every: int) -> None:
    panel, path = load_panel(world / "panel.yaml"), world / name
    if name == "policy.yaml":
        path.write_text(policy_text(Classifier(world / "with-bank.yaml").policy), "utf-8")
    read = refused = 0
    for _, changed in damages(path.read_bytes(), every):
        path.write_bytes(changed)
        try:
            load_panel(path) if name == "panel.yaml" else read_policy(path, panel)
            read += 1  # a letter of a label changed is another label: an edit like any other
        except BadInput as error:
            one_line(error, path.name)
            refused += 1
    assert refused > 20
    assert read > 0


# --------------------------------------------------------------------------- the audit log


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path]:
    """An audit log at rest, and its key."""
    key = tmp_path / "audit.key"
    path = tmp_path / "audit.sqlite3"
    store = AuditStore(f"sqlite:///{path}", AuditKey.from_file(key, create=True))
    store.append([Entry(f"{i}.0", "answer", "me", "toy", answer={"label": "apple"}) for i in range(4)])
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path, key


def content_of(path: Path, key: Path) -> list[object]:
    store = AuditStore(f"sqlite:///{path}", AuditKey.from_file(key))
    return [*store.records(), store.head(), *(store.find(f"{i}.0") for i in range(4))]


def verified(**options: Any) -> SimdxError | None:
    """What `simdx audit verify` finds, without the cost of a command line; None where the log holds."""
    asked = {"source": None, "head": None, "checkpoints": None, "url": None, "key": None,
             "json": False, **options}  # fmt: skip
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            audit.verify(**asked)
    except SimdxError as error:
        one_line(error, "audit log", "log.jsonl")
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
        if verified(url=f"sqlite:///{path}", key=key) is None:
            assert content_of(path, key) == good, f"byte {i} is changed, and nothing says so"
        else:
            noticed += 1
    return noticed


def used_bytes(path: Path) -> list[int]:
    """Where the file says something: elsewhere pages are blank."""
    return [i for i, byte in enumerate(path.read_bytes()) if byte]


def test_damage_to_the_audit_log_is_told_or_without_effect(log: tuple[Path, Path]) -> None:
    chosen = random.Random(5).sample(used_bytes(log[0]), 60)
    assert audit_flips(log, [*range(0, 100, 4), *chosen]) > 20


def test_a_cut_audit_log_is_told(log: tuple[Path, Path]) -> None:
    path, key = log
    original = path.read_bytes()
    for size in (0, 1, 50, 99, 100, 511, *range(512, len(original), 4099)):
        path.write_bytes(original[:size])
        assert verified(url=f"sqlite:///{path}", key=key) is not None, size


def test_an_export_with_a_changed_byte_does_not_hold(log: tuple[Path, Path], cli: Cli) -> None:
    path, key = log
    out = path.with_name("log.jsonl")
    told = cli("audit", "export", "--out", out, "--url", f"sqlite:///{path}", "--key", key, "--json").json
    original = out.read_bytes()
    lines = [json.loads(line) for line in original.splitlines()]
    for i, changed in flips(original, 5):
        out.write_bytes(changed)
        if verified(source=out, key=key, head=told["head"]) is None:
            assert [json.loads(line) for line in changed.splitlines()] == lines, i
