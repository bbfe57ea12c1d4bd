"""The head of a log noted outside it: what shows, and what the clock does."""

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import RunFailed
from simdx.service import audit
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import GENESIS
from tests.service.audit_logs import KEY, Open, Raw, entry, open_log, raw, server, url

__all__ = ["open_log", "raw", "server", "url"]  # fixtures

MOVE = "UPDATE chain_head SET seq = {0}, hash = coalesce((SELECT hash FROM records WHERE seq = {0}), '{1}')"


def filled(open_log: Open, file: Path, batches: int = 4) -> AuditStore:
    """A log with a checkpoint after each of its batches of two."""
    log = open_log(checkpoints=file)
    start = log.head()[0]
    for i in range(batches):
        log.append([entry(start + 2 * i), entry(start + 2 * i + 1)])
        log.checkpoint()
    return log


def cut(raw: Raw, records: int) -> None:
    """What a writer of the database does who wants the newest records gone."""
    raw(MOVE.format(records, GENESIS))
    raw(f"DELETE FROM records WHERE seq > {records}")


def refused(log: AuditStore, words: str, **options: Any) -> None:
    verdict = log.verify(**options)
    assert not verdict.ok
    assert words in str(verdict.problem)


def test_a_cut_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    running = filled(open_log, file)
    cut(raw, 3)
    assert open_log().verify().ok  # the chain alone says nothing
    refused(open_log(checkpoints=file), "the log ends at record 3")
    for goes_on in (open_log(checkpoints=file).checkpoint, running.checkpoint):
        with pytest.raises(RunFailed, match="cut off"):
            goes_on()
    cut(raw, 0)
    refused(open_log(checkpoints=file), "the log ends at record 0")


def test_a_rewritten_end_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    """Even by someone who has the key and writes the database alone: others in the place of the cut ones."""
    file = tmp_path / "noted"
    filled(open_log, file).close()
    cut(raw, 5)
    open_log().append([entry(100 + i) for i in range(9)])
    refused(open_log(checkpoints=file), "does not match record 6")


def test_a_line_that_was_changed_shows(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    log = filled(open_log, file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert (len(lines), log.verify().checkpoints) == (4, 4)
    for name, value in (("records", 3), ("records", 9), ("head", "f" * 64)):
        row = json.dumps({**json.loads(lines[1]), name: value}).encode()
        file.write_bytes(lines[0] + row + b"\n" + lines[2] + lines[3])
        refused(log, "checkpoint")
    file.write_bytes(b"".join(lines[:2]))  # fewer lines lose no record: the next one follows
    log.append([entry(100)])
    log.checkpoint()
    assert (log.verify().ok, log.verify().checkpoints) == (True, 3)


def test_where_no_checkpoint_can_be_written_nothing_more_is_recorded(
    open_log: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noted").mkdir()
    log = open_log(checkpoints=tmp_path / "noted")
    log.append([entry(1)])
    monkeypatch.setattr(audit, "CHECKPOINT_SECONDS", 0.0)  # its time is over
    for refuses in (log.checkpoint, log.ready, lambda: log.append([entry(2)])):
        with pytest.raises(RunFailed, match=r"noted cannot be written: Is a directory"):
            refuses()
    (tmp_path / "noted").rmdir()
    log.append([entry(2)])


def test_a_torn_line_is_passed_over(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    filled(open_log, file, batches=2).close()
    with file.open("ab") as end:
        end.write(file.read_bytes()[:60])
    log = open_log(checkpoints=file)
    log.checkpoint()
    log.append([entry(100)])
    log.close()
    verdict = open_log(checkpoints=file).verify()
    assert (verdict.ok, verdict.checkpoints, verdict.records) == (True, 3, 5)


def test_several_writers(open_log: Open, tmp_path: Path) -> None:
    """Four services, two on each of two machines: a file for each machine."""
    files = [tmp_path / "one", tmp_path / "one", tmp_path / "two", tmp_path / "two"]
    logs = [open_log(checkpoints=file) for file in files]

    def write(n: int) -> None:
        for i in range(10):
            logs[n].append([entry(1000 * n + i)])
            logs[n].tend()
        logs[n].close()

    for log in logs:
        log.checkpoint()
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write, n) for n in range(4)]
        while not all(done.done() for done in written):  # who verifies meanwhile sees nothing amiss
            verdict = logs[0].verify(files=[tmp_path / "two"])
            assert (verdict.ok, verdict.problem) == (True, None)
        for done in written:
            done.result()
    verdict = logs[0].verify(files=[tmp_path / "two"])
    assert (verdict.ok, verdict.records) == (True, 40)
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_refusals(open_log: Open) -> None:
    """A flood makes counts large and the log a little longer."""
    log = open_log()
    log.note_refusal("10.0.0.1", "bad-token")
    log.tend()
    for i in range(50_000):
        log.note_refusal(f"10.1.{i % 200}.{i % 7}", "bad-token" if i % 2 else "no-token")
    log.tend()  # not yet: it was only just written
    assert log.head()[0] == 1
    log.close()
    told = [r.to_json()["context"] for r in log.records()]
    assert (told[0]["address"], told[0]["reason"], told[0]["count"]) == ("10.0.0.1", "bad-token", 1)
    assert sum(t["count"] for t in told) == 50_001
    assert 10 < len(told) < 25
    assert log.verify().ok


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
    head, earlier = filled(open_log, file, batches=2).head()[1], file.read_bytes()
    later = filled(open_log, file, batches=2).head()[1]
    cut(raw, 4)
    file.write_bytes(earlier)
    fresh = open_log(checkpoints=file)
    assert fresh.verify(noted=head).ok
    refused(fresh, "the head noted earlier is not in the chain", noted=later)


def test_two_logs_do_not_share_a_file(open_log: Open, tmp_path: Path) -> None:
    filled(open_log, tmp_path / "noted", batches=1).close()
    other = AuditStore(f"sqlite:///{tmp_path / 'other.sqlite3'}", KEY, checkpoints=tmp_path / "noted")
    other.append([entry(8), entry(9)])
    for write in (other.checkpoint, other.close):
        with pytest.raises(RunFailed, match="another log"):
            write()
