"""The head of a SQLite log noted outside it, its keys, and what the clock does."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.service.audit import KeyRing
from tests.service import anchor_checks, audit_checks
from tests.service.audit_checks import Open, entry
from tests.service.test_audit import open_log, path, raw

__all__ = ["open_log", "path", "raw"]


def test_a_cut_shows(open_log: Open, raw: Any, tmp_path: Path) -> None:
    anchor_checks.check_a_cut_shows(open_log, raw, tmp_path)


def test_a_rewritten_end_shows(open_log: Open, raw: Any, tmp_path: Path) -> None:
    anchor_checks.check_a_rewritten_end_shows(open_log, raw, tmp_path)


def test_an_older_copy_shows(open_log: Open, path: Path, tmp_path: Path) -> None:
    anchor_checks.filled(open_log, tmp_path / "noted").close()
    shutil.copy(path, tmp_path / "copy")
    anchor_checks.filled(open_log, tmp_path / "noted").close()
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy", path)
    anchor_checks.refused(open_log(checkpoints=tmp_path / "noted"), "an older copy was put back")


def test_both_rolled_back_together_shows_only_against_a_head_noted_elsewhere(
    open_log: Open, raw: Any, tmp_path: Path
) -> None:
    """What is not detectable: whoever writes the database and the file can put both back to one moment."""
    file = tmp_path / "noted"
    store = anchor_checks.filled(open_log, file, batches=2)
    head, earlier = store.head()[1], file.read_bytes()
    store = anchor_checks.filled(open_log, file, batches=2)
    later = store.head()[1]
    store.close()
    anchor_checks.cut(raw, 4)
    file.write_bytes(earlier)
    fresh = open_log(checkpoints=file)
    assert fresh.verify(noted=head).ok
    anchor_checks.refused(fresh, "the head noted earlier is not in the chain", noted=later)


def test_meddling_with_the_file_shows(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_meddling_with_the_file_shows(open_log, tmp_path)


def test_a_cut_file_stops_its_writer(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_a_cut_file_stops_its_writer(open_log, tmp_path)


def test_a_torn_line_is_passed_over(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_a_torn_line_is_passed_over(open_log, tmp_path)


def test_several_writers(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_several_writers(open_log, tmp_path)


def test_rotation(open_log: Open, raw: Any, tmp_path: Path) -> None:
    anchor_checks.check_rotation(open_log, raw, tmp_path)


def test_a_rotation_for_several_machines(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_a_rotation_for_several_machines(open_log, tmp_path)


def test_an_interrupted_rotation(open_log: Open, tmp_path: Path) -> None:
    anchor_checks.check_an_interrupted_rotation(open_log, tmp_path)


def test_refusals(open_log: Open) -> None:
    anchor_checks.check_refusals(open_log)


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
    anchor_checks.filled(open_log, tmp_path / "noted", batches=1).close()
    for other in audit_checks.opener(f"sqlite:///{tmp_path / 'other.sqlite3'}"):
        store = other(checkpoints=tmp_path / "noted")
        with pytest.raises(RunFailed, match="another log"):
            store.resume()
        store.append([entry(8), entry(9)])
        with pytest.raises(RunFailed, match="another log"):
            store.checkpoint()
        store._anchor = None


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
