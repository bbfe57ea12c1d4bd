"""The head of a log noted outside it, its keys, and what the clock does."""

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.service.audit import AuditKey, AuditStore, KeyRing, checkpoints, open_store
from simdx.service.audit.checkpoints import CheckpointFile
from simdx.service.audit.record import GENESIS
from simdx.service.audit.ring import add_key
from simdx.service.audit.store import prepare, rotate
from tests.service.audit_logs import RING, Open, Raw, entry, open_log, opener, raw, server, url

__all__ = ["open_log", "raw", "server", "url"]  # fixtures

CUT = "DELETE FROM records WHERE seq > {0}"
MOVE = "UPDATE chain_head SET seq = {0}, hash = coalesce((SELECT hash FROM records WHERE seq = {0}), '{1}')"


def filled(open_log: Open, file: Path, ring: KeyRing = RING, batches: int = 4, **options: Any) -> AuditStore:
    """A log with a checkpoint after each of its batches of two."""
    store = open_log(ring, checkpoints=file, **options)
    start = store.head()[0]
    for i in range(batches):
        store.append([entry(start + 2 * i), entry(start + 2 * i + 1)])
        store.checkpoint()
    return store


def cut(raw: Raw, records: int) -> None:
    """What a writer of the database does who wants the newest records gone: they, and every trace of them."""
    raw(MOVE.format(records, GENESIS))
    raw("DELETE FROM texts")
    raw(CUT.format(records))
    raw("DELETE FROM checkpoints")


def refused(store: AuditStore, words: str, **options: Any) -> None:
    verdict = store.verify(**options)
    assert not verdict.ok
    assert words in str(verdict.problem)


def test_a_cut_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    filled(open_log, file).close()
    plain = open_log()
    cut(raw, 3)
    assert plain.verify().ok  # the chain alone says nothing
    store = open_log(checkpoints=file)
    refused(store, "the log ends at record 3, checkpoint 2")
    with pytest.raises(RunFailed, match="cut off"):
        store.resume()  # nor does a service go on with it
    cut(raw, 0)
    refused(store, "the log ends at record 0")


def test_a_rewritten_end_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    """Even by someone who has the key and writes the database alone: others in the place of the cut ones."""
    file = tmp_path / "noted"
    filled(open_log, file).close()
    cut(raw, 5)
    open_log().append([entry(100 + i) for i in range(9)])
    refused(open_log(checkpoints=file), "does not match record 6")


def test_meddling_with_the_file_shows(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    store = filled(open_log, file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert (len(lines), store.verify().checkpoints) == (4, 4)
    other = AuditKey(bytes(32))
    for name in ("number", "records", "head", "at", "file", "previous", "mac", "key"):
        row = json.loads(lines[1])
        row[name] = row[name] + 1 if isinstance(row[name], int) else "f" * len(row[name])
        file.write_bytes(lines[0] + json.dumps(row).encode() + b"\n" + lines[2] + lines[3])
        refused(store, "checkpoint 2")
    for kept in ([1, 2, 3], [0, 2, 3], [0, 1, 3], [1, 0, 2, 3], [0, 0, 1, 2, 3], [0, 1, 1, 2, 3]):
        file.write_bytes(b"".join(lines[i] for i in kept))
        refused(store, "checkpoint")
    for left in (lines[:3], [*lines[:3], lines[3][:40]], [*lines[:3], b"x" + lines[3]]):
        file.write_bytes(b"".join(left))
        refused(store, "was cut: it holds 3 checkpoints, there were 4")
    file.write_bytes(b"nonsense " * 2_000)
    refused(store, "its checkpoints are missing")
    file.unlink()
    refused(store, "its checkpoints are missing")
    CheckpointFile(tmp_path / "forged").append(8, store.head()[1], other, KeyRing(other))
    refused(store, "written with another key", files=[tmp_path / "forged"])
    file.write_bytes(b"".join(lines))
    assert store.verify().ok


def test_a_cut_file_stops_its_writer(open_log: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running service notices, and one that starts: otherwise a cut file would grow over the gap."""
    file = tmp_path / "noted"
    store = filled(open_log, file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]))
    store.append([entry(100)])
    with pytest.raises(RunFailed, match="was cut or replaced"):
        store.checkpoint()
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0.0)  # its time is over
    for refuses in (lambda: store.append([entry(101)]), store.ready):
        with pytest.raises(RunFailed, match="was cut or replaced"):
            refuses()  # nothing more is answered than the window allows
    with pytest.raises(RunFailed, match="was cut"):
        open_log(checkpoints=file).resume()
    file.write_bytes(b"".join(lines))
    store.append([entry(101)])
    store.checkpoint()
    assert store.verify().ok


def test_a_torn_line_is_passed_over(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    filled(open_log, file, batches=2).close()
    with file.open("ab") as end:
        end.write(file.read_bytes()[:100])
    store = open_log(checkpoints=file)
    store.resume()
    store.append([entry(100)])
    store.close()
    assert [json.loads(x)["number"] for x in file.read_bytes().splitlines() if x.endswith(b"}")] == [1, 2, 3]
    verdict = open_log(checkpoints=file).verify()
    assert (verdict.ok, verdict.checkpoints, verdict.records) == (True, 3, 5)


def test_several_writers(open_log: Open, tmp_path: Path) -> None:
    """Four services, two on each of two machines: a file for each machine, and verify wants both."""
    files = [tmp_path / "one", tmp_path / "one", tmp_path / "two", tmp_path / "two"]
    stores = [open_log(checkpoints=file) for file in files]

    def write(n: int) -> None:
        for i in range(10):
            stores[n].append([entry(1000 * n + i)])
            stores[n].tend()
        stores[n].close()

    for store in stores:
        store.resume()
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write, n) for n in range(4)]
        while not all(done.done() for done in written):  # who verifies meanwhile sees nothing amiss
            verdict = stores[0].verify(files=[tmp_path / "two"])
            assert (verdict.ok, verdict.problem) == (True, None)
        for done in written:
            done.result()
    verdict, alone = stores[0].verify(files=[tmp_path / "two"]), stores[0].verify()
    assert (verdict.ok, verdict.records, verdict.unseen) == (True, 40, ())
    assert (alone.ok, len(alone.unseen)) == (True, 1)
    assert stores[0].verify(without=alone.unseen).unseen == ()


def test_rotation(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    key_file, file = tmp_path / "audit.key", tmp_path / "noted"
    first = KeyRing.from_file(key_file, create=True)
    running = filled(open_log, file, first, keep_text=True)
    before = {r.id: r.hash for r in running.records()}
    person = entry(50, people={"patient": "Patient/42"})
    running.append([person])
    done = rotate(open_log(KeyRing.from_file(key_file), checkpoints=file), key_file)
    assert (done.texts, done.stuck) == (9, 0)
    ring = KeyRing.from_file(key_file)
    assert (len(ring.keys), ring.retired, ring.newest.id) == (2, {first.newest.id}, done.key)
    # A service that was running goes on with the new key, and nothing that was written is lost to it.
    running.append([entry(60), entry(61, people={"patient": "Patient/42"})])
    running.checkpoint()
    verdict = running.verify()
    assert (verdict.ok, verdict.problem, verdict.records) == (True, None, 12)
    assert {r.id: r.hash for r in running.records() if r.id in before} == before
    assert [r.kind for r in running.records()].index("key") == 9
    assert all(running.text_of(f"{i:032x}.0") for i in (0, 7, 50, 60))
    assert {row[0] for row in raw("SELECT DISTINCT key_id FROM texts")} == {done.key}
    hashes = ring.all_hashes("patient", "Patient/42")
    about = [r.id for r in running.records() if (r.to_json()["context"] or {}).get("patient_hash") in hashes]
    assert about == [person.id, entry(61).id]
    running.close()
    # Who has the old key and the database, and cuts the log back to that key's time, can add nothing to it.
    cut(raw, 8)
    raw(f"UPDATE chain_head SET key_id = '{first.newest.id}'")
    open_log(first).append([entry(70)])
    refused(open_log(ring), "under a key that was rotated out")
    refused(open_log(ring, checkpoints=file), "checkpoint 5")


def test_a_rotation_for_several_machines(open_log: Open, tmp_path: Path) -> None:
    """The next key is put into the file and copied first; without it a service stops and loses nothing."""
    here, there = tmp_path / "here.key", tmp_path / "there.key"
    KeyRing.from_file(here, create=True)
    there.write_bytes(here.read_bytes())
    one = open_log(KeyRing.from_file(here), checkpoints=tmp_path / "one")
    two = open_log(KeyRing.from_file(there), checkpoints=tmp_path / "two")
    two.append([entry(1)])
    waiting = prepare(one, here)
    assert prepare(one, here) == waiting  # asked twice, made once
    two.append([entry(2)])
    assert rotate(one, here).key == waiting
    with pytest.raises(RunFailed, match="another key"):
        two.append([entry(3)])
    there.write_bytes(here.read_bytes())
    two.append([entry(3)])
    two.close()
    verdict = one.verify(files=[tmp_path / "two"])
    assert (verdict.ok, verdict.problem, verdict.records) == (True, None, 4)


def test_an_interrupted_rotation(open_log: Open, tmp_path: Path) -> None:
    """A key that is in the file and not in use is used by the next rotation; texts left behind are sealed."""
    key_file = tmp_path / "audit.key"
    store = filled(open_log, tmp_path / "noted", KeyRing.from_file(key_file, create=True), keep_text=True)
    second = add_key(key_file).newest.id
    assert store.verify().ok
    store.switch_key(KeyRing.from_file(key_file))  # and here the command was killed
    assert store.verify().ok
    assert store.text_of(entry(3).id)
    done = rotate(open_log(KeyRing.from_file(key_file), checkpoints=tmp_path / "noted"), key_file)
    assert (done.key, done.texts, len(KeyRing.from_file(key_file).keys)) == (second, 8, 2)
    assert store.verify().ok


def test_refusals(open_log: Open) -> None:
    """A flood makes counts large and the log a little longer."""
    store = open_log()
    store.note_refusal("10.0.0.1", "bad-token")
    store.tend()
    for i in range(50_000):
        store.note_refusal(f"10.1.{i % 200}.{i % 7}", "bad-token" if i % 2 else "no-token")
    store.tend()  # not yet: it was only just written
    assert store.head()[0] == 1
    store.close()
    told = [r.to_json()["context"] for r in store.records()]
    assert (told[0]["address"], told[0]["reason"], told[0]["count"]) == ("10.0.0.1", "bad-token", 1)
    assert sum(t["count"] for t in told) == 50_001
    assert 10 < len(told) < 25
    assert store.verify().ok


@pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_an_older_dump_shows(server: str, url: str, open_log: Open, tmp_path: Path) -> None:
    """A database restored from a dump of an hour ago."""
    import psycopg

    filled(open_log, tmp_path / "noted").close()
    name = url.split("/")[3].split("?")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_old TEMPLATE {name}")
    filled(open_log, tmp_path / "noted").close()
    (old,) = (store(checkpoints=tmp_path / "noted") for store in opener(url.replace(name, f"{name}_old")))
    refused(old, "an older copy was put back")
    old.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_older_copy_of_the_file_shows(open_log: Open, tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite3"
    filled(open_log, tmp_path / "noted").close()
    shutil.copy(path, tmp_path / "copy")
    filled(open_log, tmp_path / "noted").close()
    for beside in tmp_path.glob("audit.sqlite3-*"):
        beside.unlink()
    shutil.copy(tmp_path / "copy", path)
    refused(open_log(checkpoints=tmp_path / "noted"), "an older copy was put back")


def test_both_rolled_back_together_shows_only_against_a_head_noted_elsewhere(
    open_log: Open, raw: Raw, tmp_path: Path
) -> None:
    """What is not detectable: whoever writes the database and the file can put both back to one moment."""
    file = tmp_path / "noted"
    store = filled(open_log, file, batches=2)
    head, earlier = store.head()[1], file.read_bytes()
    store = filled(open_log, file, batches=2)
    later = store.head()[1]
    store.close()
    cut(raw, 4)
    file.write_bytes(earlier)
    fresh = open_log(checkpoints=file)
    assert fresh.verify(noted=head).ok
    refused(fresh, "the head noted earlier is not in the chain", noted=later)


def test_a_log_that_was_there_before_checkpoints_gets_its_first_when_a_service_starts(
    open_log: Open, tmp_path: Path
) -> None:
    open_log().append([entry(1), entry(2)])
    store = open_log(checkpoints=tmp_path / "new" / "noted")
    assert store.verify().checkpoints == 0
    store.resume()
    verdict = store.verify()
    assert (verdict.ok, verdict.checkpoints) == (True, 1)
    assert stat.S_IMODE((tmp_path / "new" / "noted").stat().st_mode) == 0o600


def test_a_checkpoint_file_that_cannot_be_written_is_one_clear_line(open_log: Open, tmp_path: Path) -> None:
    (tmp_path / "noted").mkdir()
    store = open_log(checkpoints=tmp_path / "noted")
    store.append([entry(1)])
    with pytest.raises(Exception, match=r"noted cannot be (read|written): Is a directory"):
        store.checkpoint()
    (tmp_path / "noted").rmdir()


def test_two_logs_do_not_share_a_file(open_log: Open, tmp_path: Path) -> None:
    """Neither a log that has records, nor two that grow beside each other."""
    filled(open_log, tmp_path / "noted", batches=1).close()
    store = open_store(f"sqlite:///{tmp_path / 'other.sqlite3'}", RING, checkpoints=tmp_path / "noted")
    with pytest.raises(RunFailed, match="another log"):
        store.resume()
    store.append([entry(8), entry(9)])
    for write in (store.checkpoint, store.close):
        with pytest.raises(RunFailed, match="another log"):
            write()


def test_a_key_file_with_nonsense_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    good = "ab" * 32
    for text in (f"{good} gone\n", f"{good}\nxyz\n", f"{good} retired again\n", "\n", f"{good[:-2]}\n"):
        path.write_text(text)
        with pytest.raises(BadInput, match="hexadecimal digits"):
            KeyRing.from_file(path)
    path.write_text(f"{good} retired\n{'cd' * 32}\n")
    ring = KeyRing.from_file(path)
    assert ring.retired == {ring.keys[0].id}
