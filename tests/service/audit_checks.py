"""Checks that hold for an audit log in any database: run over SQLite always, over PostgreSQL when slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.service.audit import AuditKey, AuditStore, Entry, KeyRing, open_store, verify
from simdx.service.audit.migrate import migrate
from simdx.service.audit.record import COLUMNS, GENESIS, content_bytes

Open = Callable[..., AuditStore]
KEY = AuditKey(bytes(range(32)))
RING = KeyRing(KEY)


def opener(url: str) -> Iterator[Open]:
    """Opens logs at one address and closes them all in the end."""
    opened: list[AuditStore] = []

    def open_log(ring: KeyRing = RING, **options: Any) -> AuditStore:
        opened.append(open_store(url, ring, **options))
        return opened[-1]

    yield open_log
    for store in opened:
        store.close()


def entry(i: int, **changes: Any) -> Entry:
    made = Entry(
        id=f"{i:032x}.0", kind="answer", caller="me", panel="p", prior={"a": 0.5, "b": 0.5},
        answer={"label": "a", "posterior": {"a": 0.9, "b": 0.1}}, versions={"simdx": "1"},
        text=f"case {i} é\x00",
    )  # fmt: skip
    return replace(made, **changes)


def check_chain(open_log: Open) -> None:
    store = open_log()
    store.append([entry(1), entry(2)])
    store.append([entry(3, kind="feedback", about=entry(1).id, text=None)])
    records = list(store.records())
    assert [r.seq for r in records] == [1, 2, 3]
    assert records[0].previous == "0" * 64
    assert [r.previous for r in records[1:]] == [r.hash for r in records[:-1]]
    assert store.head() == (3, records[-1].hash)
    verdict = store.verify()
    assert (verdict.ok, verdict.records) == (True, 3)
    found = store.find(entry(2).id)
    assert found is not None
    assert found.to_json()["answer"]["label"] == "a"
    assert found.text_hash == KEY.text_hash("case 2 é\x00")
    assert "case" not in str(found)
    assert store.find("nothing") is None
    assert [r.seq for r in store.page(limit=2)] == [3, 2]
    assert [r.seq for r in store.page(before=3, kind="answer", panel="p")] == [2, 1]
    # A log that is opened again goes on where it stopped.
    store.close()
    again = open_log()
    again.append([entry(4)])
    assert again.verify().records == 4


def check_all_or_nothing(open_log: Open) -> None:
    store = open_log()
    store.append([entry(1)])
    with pytest.raises(RunFailed, match="audit log") as raised:
        store.append([entry(2), entry(1)])  # the id is taken
    assert "case" not in str(raised.value)
    assert store.head()[0] == 1
    store.append([entry(3)])
    assert store.verify().ok


def check_tampering(open_log: Open, meddle: Callable[[str], None]) -> None:
    """Every kind of meddling is seen, and where."""
    store = open_log()
    store.append([entry(i) for i in range(1, 6)])
    good = list(store.records())
    head = store.head()
    assert verify(good, RING, head).ok
    for changed in (
        "at",
        "caller",
        "panel",
        "answer",
        "prior",
        "versions",
        "text_hash",
        "kind",
        "about",
        "id",
        "context",
    ):
        bad = [replace(r, **{changed: '{"x":1}'}) if r.seq == 3 else r for r in good]
        verdict = verify(bad, RING, head)
        assert not verdict.ok
        assert "record 3" in str(verdict.problem)
    assert "record 2 is missing" in str(verify([r for r in good if r.seq != 2], RING, head).problem)
    swapped = [good[0], replace(good[2], seq=2), replace(good[1], seq=3), *good[3:]]
    assert not verify(swapped, RING, head).ok
    assert "ends at record 4" in str(verify(good[:4], RING, head).problem)
    # Rebuilding the chain with another key does not help.
    other = AuditKey(bytes(32))
    assert not verify(_rebuilt(good, other), RING).ok
    assert verify(_rebuilt(good, other), KeyRing(other)).ok
    meddle('UPDATE records SET answer = \'{"label":"b"}\' WHERE seq = 2')
    assert "record 2" in str(store.verify().problem)


def _rebuilt(records: list, key: AuditKey) -> list:
    out, previous = [], "0" * 64
    for record in records:
        changed = replace(record, caller="nobody", previous=previous)
        previous = key.chain_hash(previous, changed.content())
        out.append(replace(changed, hash=previous))
    return out


def check_texts(open_log: Open, raw: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Texts are kept only when asked for, sealed, and go when their time is over; the chain stays whole."""
    plain = open_log()
    plain.append([entry(1)])
    assert plain.text_of(entry(1).id) is None
    keeping = open_log(keep_text=True, keep_text_days=10)
    keeping.append([entry(2)])
    assert keeping.text_of(entry(2).id) == "case 2 é\x00"
    sealed = bytes(raw("SELECT sealed FROM texts")[0][0])
    assert b"case" not in sealed
    with pytest.raises(RunFailed, match="does not open"):
        KEY.unseal(sealed, entry(1).id)  # a text moved to another record
    late = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="seconds")
    raw(f"UPDATE texts SET expires_at = '{late}'")
    assert keeping.text_of(entry(2).id) is None
    keeping.append([entry(3)])
    assert keeping.purge() == 1
    assert [r[0] for r in raw("SELECT id FROM texts")] == [entry(3).id]
    assert keeping.verify().ok


def check_an_old_log(open_log: Open, database: Any) -> None:
    """A log with records and texts from before keys were rotated and heads noted: it holds, and goes on."""
    connection = database.connect()
    assert migrate(database, connection, upto=2) == 2
    with database.writing(connection):
        database.execute(connection, "INSERT INTO settings (name, value) VALUES ('key_id', ?)", [KEY.id])
        columns = [c for c in COLUMNS if c != "context"]
        previous = GENESIS
        for i in (1, 2):
            row = {"seq": i, "id": entry(i).id, "at": "2026-01-01T00:00:00.000Z", "kind": "answer",
                   "caller": "me", "panel": "p", "about": None, "text_hash": KEY.text_hash(f"case {i}"),
                   "prior": None, "answer": '{"label":"a"}', "versions": None}  # fmt: skip
            row |= {"previous": previous, "hash": KEY.chain_hash(previous, content_bytes(row))}
            previous = row["hash"]
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            values = [row[c] for c in columns]
            database.execute(connection, f"INSERT INTO records ({names}) VALUES ({marks})", values)
            database.execute(
                connection, "INSERT INTO texts (id, sealed, expires_at) VALUES (?, ?, '2999-01-01')",
                [row["id"], KEY.seal(f"case {i}", row["id"])],
            )  # fmt: skip
        database.execute(connection, "UPDATE chain_head SET seq = 2, hash = ?", [previous])
    connection.close()
    store = open_log(keep_text=True)
    store.append([entry(3, context={"sent": "x"})])
    verdict = store.verify()
    assert (verdict.ok, verdict.records, verdict.problem) == (True, 3, None)
    assert [store.text_of(entry(i).id) for i in (1, 2)] == ["case 1", "case 2"]
    with pytest.raises(BadInput, match="another key"):
        open_log(KeyRing(AuditKey(bytes(32))))


def check_other_key(open_log: Open) -> None:
    open_log().append([entry(1)])
    with pytest.raises(BadInput, match="another key"):
        open_log(KeyRing(AuditKey(bytes(32))))


def check_many_writers(open_log: Open) -> None:
    """Several services on one log make one chain."""
    stores = [open_log() for _ in range(4)]

    def write(n: int) -> None:
        for i in range(15):
            stores[n].append([entry(1000 * n + i), entry(1000 * n + 500 + i)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    verdict = stores[0].verify()
    assert (verdict.ok, verdict.records) == (True, 120)
