"""One byte changed, or the end cut off: found out with a line that names the file, or without any effect.

A bank, a network and the audit log carry digests of all they say, so that every change shows. A cache is made
anew. What people write (panels, policies) may be any bytes: tests/properties.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.amortised import network as networks
from simdx.bank.files import problems_of, read_bank, write_bank
from simdx.baselines.interview import Reply, ReplyStore
from simdx.embedders import embed_cached, get_embedder
from simdx.errors import BadInput, SimdxError
from simdx.panels import load_panel
from simdx.runs import Record, Store
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditKey, Entry
from simdx.types import Bank
from tests.faults.world import toy_network


def damages(data: bytes, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """For each `every`-th byte the data with one bit of it changed, and the data cut there."""
    for i in range(0, len(data), every):
        yield f"byte {i}", data[:i] + bytes([data[i] ^ 1 << (i * 5 + 3) % 8]) + data[i + 1 :]
        yield f"cut at {i}", data[:i]


def one_line(error: SimdxError, *names: str) -> None:
    """One clear line that says which file, or which folder of them, is meant."""
    assert "\n" not in str(error)
    assert any(name in str(error) for name in names), str(error)


@pytest.mark.parametrize("name", ["bank.jsonl", "background.jsonl", "manifest.json"])
def test_every_byte_of_a_bank(world: Path, name: str) -> None:
    """Each byte once with one bit changed, and the file cut at every length: verify and read notice all."""
    folder, panel = world / "b", load_panel(world / "panel.yaml")
    texts = ("red fruit", "wet wäter", "hot oil")
    bank = Bank("toy", panel.names, texts, np.arange(3), ("other words",), {"refusal": 2}, name="b")
    write_bank(folder, bank, panel, {"simulator": "scripted", "settings": {"temperature": 0.8}})
    for where, changed in damages((folder / name).read_bytes()):
        (folder / name).write_bytes(changed)
        try:
            found = list(problems_of(folder))
        except BadInput as error:
            found = [str(error)]
        assert found, (name, where)
        with pytest.raises(BadInput) as caught:
            read_bank(folder, panel)
        one_line(caught.value, "'b'")


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


def a_network(world: Path) -> Kept:
    networks.save(toy_network(1), world / "net")

    def read() -> Any:
        try:
            found = networks.load(world / "net")
        except BadInput as error:
            one_line(error, "net")
            return [None]
        return [(found.card, [values.tolist() for pair in found.layers for values in pair])]

    return world / "net" / networks.NETWORK_FILE, read


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


def an_audit_log(world: Path) -> Kept:
    path = world / "audit.sqlite3"

    def read() -> Any:
        """All that it holds; None where it does not hold."""
        for beside in world.glob("audit.sqlite3-*"):
            beside.unlink()
        if not path.stat().st_size:
            return [None]  # of an empty one only a checkpoint can tell
        try:
            with closing(AuditStore(f"sqlite:///{path}", AuditKey(bytes(32)))) as store:
                return [(list(store.records()), store.head()) if store.verify().ok else None]
        except SimdxError as error:
            one_line(error, "audit log")
            return [None]

    with closing(AuditStore(f"sqlite:///{path}", AuditKey(bytes(32)))) as store:
        store.append([Entry(f"{i}.0", "answer", "me", "toy", answer={"label": "apple"}) for i in range(4)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path, read


@pytest.mark.parametrize(
    ("make", "every", "again"),
    [
        (an_embedding, 29, True), (a_chunk, 1, True), (replies, 1, False), (a_record, 1, False),
        (a_network, 6_007, False),
        (an_audit_log, 307, False),
    ],
)  # fmt: skip
def test_what_is_damaged_is_never_believed(
    world: Path, make: Callable[[Path], Kept], every: int, again: bool
) -> None:
    """Caches are made anew, and mended on the way; of a reply, a record or a log nothing is left."""
    path, read = make(world)
    original, good = path.read_bytes(), read()
    told = 0
    for where, changed in damages(original, every):
        path.write_bytes(changed)
        found = read()
        whole = found == good if again else all(f in (None, g) for f, g in zip(found, good, strict=True))
        assert whole, where
        assert not again or path.read_bytes() == original, where
        told += None in found
    assert again or told > 20
