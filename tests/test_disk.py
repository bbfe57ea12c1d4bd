"""Files that are whole or not there, folders made in one go, and seals."""

import fcntl
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from simdx.disk import (
    UNFINISHED,
    CannotWrite,
    create_once,
    filling,
    refuse_occupied,
    replacing,
    save_arrays,
    seal_holds,
    sealed,
    write_atomically,
)
from simdx.errors import BadInput


def test_a_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    write_atomically(path, "nëw", 0o600)
    assert path.read_text("utf-8") == "nëw"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("umask", "expected"), [(0o077, 0o600), (0o027, 0o640), (0o022, 0o644)])
def test_the_umask_says_who_may_read_a_file(tmp_path: Path, umask: int, expected: int) -> None:
    """Reports with patients' words were written 0644 under `umask 077`."""
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "text", "x")
        save_arrays(tmp_path / "arrays", {"a": np.zeros(2)})
        with replacing(tmp_path / "table") as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == expected
        write_atomically(tmp_path / "text", "y")  # in the place of one
        assert create_once(tmp_path / "key", "x")
        assert not create_once(tmp_path / "key", "second")
    finally:
        os.umask(before)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert found == {"text": expected, "arrays": expected, "table": expected, "key": 0o600}
    assert (tmp_path / "key").read_text() == "x"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        assert file.write(b"half") // 0
    with pytest.raises(CannotWrite, match=r"file' cannot be written: No space"), replacing(path) as file:
        raise OSError(28, os.strerror(28))
    with pytest.raises(CannotWrite, match="No such file"):
        write_atomically(tmp_path / "absent" / "file", "x")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_of_someone_else_is_refused_and_an_unfinished_one_of_ours_is_not(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "bank.jsonl").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        refuse_occupied(theirs)
    ours = tmp_path / "ours"
    with pytest.raises(ZeroDivisionError), filling(ours, "bank.jsonl"):
        assert (ours / "bank.jsonl").write_text("half") // 0
    assert (ours / UNFINISHED).exists()
    refuse_occupied(ours)
    with filling(ours, "bank.jsonl"):
        assert not (ours / "bank.jsonl").exists()  # what the first attempt left is gone
        (ours / "bank.jsonl").write_text("whole")
    assert os.listdir(ours) == ["bank.jsonl"]
    with pytest.raises(BadInput, match="not empty"):
        refuse_occupied(ours)


def test_seals_are_over_all_but_themselves() -> None:
    record = sealed({"a": 1, "b": [0.1, None], "ü": "ß"})
    assert seal_holds(record)
    assert seal_holds(dict(reversed(record.items())))
    assert sealed(record) == record
    assert not seal_holds({**record, "a": 2})
    assert not seal_holds({**record, "c": 0})


def test_a_living_writers_scratch_file_is_left_alone(tmp_path: Path) -> None:
    """A second writer removes what a dead one left, and nothing that is held."""
    dead, living, other = (f".file.json-{end}" for end in ("aaaaaaaa", "bbbbbbbb", "not-ours-at-all"))
    for name in (dead, living, other):
        (tmp_path / name).write_text("half")
    with (tmp_path / living).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(tmp_path / "file.json", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"file.json", living, other}
