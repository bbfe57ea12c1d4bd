"""Files that are whole or not there, and damage that shows.

Whatever simdx writes under a name goes through here. The content is put into a scratch file beside the
target, brought to the disk and renamed over it, so a reader sees the old file or the new one and a killed
process leaves at most a hidden scratch file. Who writes it holds a lock on its scratch file; the next writer
of the same target removes those nobody holds. A write that fails says in one line which file and why, and
what was there before is untouched.

A *seal* is a digest a file carries of its own content. It does not protect against a forger; it shows that a
disk or a copy changed a byte, where the changed file would still be read without complaint.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import hmac
import json
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from simdx.errors import BadInput, RunFailed
from simdx.types import Float

try:
    import fcntl
except ImportError:  # no such locks on this platform: scratch files of killed writers then stay
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"
_RANDOM = 8  # characters `mkstemp` adds
_LONGEST_STEM = 60


class CannotWrite(RunFailed):
    """The disk is full, read-only, or not ours to write."""


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file to write into that takes the place of `path` when the block ends well."""
    file, scratch = _open_scratch(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
            os.replace(scratch, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """All of it or nothing."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with replacing(path, mode) as file:
        file.write(data)


def create_once(path: Path, content: str, mode: int = 0o600) -> bool:
    """Write a file nobody has written before, whole from its first moment; False where another was first."""
    file, scratch = _open_scratch(path)
    try:
        with file:
            file.write(content.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
            os.link(scratch, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
    return True


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"'{path}' cannot be written: {error.strerror or type(error).__name__}; what was there before is "
        "untouched"
    )


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One writer at a time in a folder, by a lock on the folder itself: no file of ours is left in it."""
    handle = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    try:
        if handle is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"the folder '{folder}' cannot be made: {error.strerror}") from None


def refuse_unwritable(folder: Path) -> None:
    """BadInput where no folder can be made or written: said before anything slow is done for it."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise BadInput(f"the folder '{folder}' cannot be made: '{there}' is a file")
    if not os.access(there, os.W_OK):
        locked = os.statvfs(there).f_flag & os.ST_RDONLY
        reason = os.strerror(errno.EROFS if locked else errno.EACCES)
        raise BadInput(f"'{folder}' cannot be written: '{there}': {reason}")


def _open_scratch(path: Path) -> tuple[BinaryIO, str]:
    """A scratch file of our own beside `path`, locked; those of dead writers go."""
    prefix = f".{path.name[:_LONGEST_STEM]}-"
    try:
        sweep(path.parent, glob.escape(prefix) + "?" * _RANDOM)
        while True:
            handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=prefix)
            file = os.fdopen(handle, "wb")
            if fcntl is None:
                return file, scratch
            with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # another writer may have swept it before we held the lock
                return file, scratch
            file.close()
    except OSError as error:
        raise cannot_write(path, error) from None


def sweep(folder: Path, pattern: str) -> None:
    """Remove the scratch files that match and that no living writer holds."""
    if fcntl is None:
        return
    for path in list(folder.glob(pattern)):
        with contextlib.suppress(OSError):  # held, or gone by now
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(handle)


def refuse_occupied(folder: Path) -> None:
    """BadInput unless the folder is absent, empty, or one that an interrupted run of ours left unfinished."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if folder.is_dir() and (folder / UNFINISHED).is_file():
            return
        raise BadInput(f"{folder} exists and is not empty: choose a new folder, nothing was written")


@contextlib.contextmanager
def filling(folder: Path, *patterns: str) -> Iterator[None]:
    """Fill a folder that `refuse_occupied` let pass: a marker says that it is unfinished until it is whole.

    What an interrupted run left there under our own names (`patterns`) goes first.
    """
    make_folder(folder)
    marker = folder / UNFINISHED
    try:
        if marker.is_file():
            for pattern in patterns:
                sweep(folder, f".{pattern}-*")
                for left in folder.glob(pattern):
                    left.unlink(missing_ok=True)
        else:
            marker.touch()
    except OSError as error:
        raise CannotWrite(f"the folder '{folder}' cannot be written: {error.strerror}") from None
    yield
    with contextlib.suppress(OSError):
        marker.unlink(missing_ok=True)


# --------------------------------------------------------------------------- seals


def seal_of(value: Any) -> str:
    """The digest of a JSON value, whatever its spelling on disk."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in record.items() if key != "seal"}
    return {**bare, "seal": seal_of(bare)}


def seal_holds(record: Mapping[str, Any]) -> bool:
    return record.get("seal") == seal_of({key: value for key, value in record.items() if key != "seal"})


def save_arrays(path: Path, arrays: Mapping[str, Float], key: bytes | None = None) -> None:
    """Arrays as safetensors, with a seal over names, types, shapes and every number.

    With a key the seal does protect against a forger who does not have it.
    """
    from safetensors.numpy import save

    if key == b"":
        raise CannotWrite(f"'{path}' cannot be sealed: there is no key that only its user can read")
    whole = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    write_atomically(path, save(whole, metadata={"seal": _array_seal(whole, key)}))


def load_arrays(path: Path, key: bytes | None = None) -> dict[str, Float] | None:
    """What `save_arrays` wrote, mapped into memory; None where a file is absent or not as it was written."""
    try:
        arrays, stated = _mapped(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if key == b"":  # no seal can hold
        return None
    return arrays if hmac.compare_digest(str(stated.get("seal")), _array_seal(arrays, key)) else None


def read_safetensors(path: Path) -> dict[str, Float]:
    """The arrays of a file that carries no seal of ours, mapped into memory; its hash is the caller's."""
    return _mapped(path)[0]


def _mapped(path: Path) -> tuple[dict[str, Float], dict[str, str]]:
    """Arrays and metadata of a safetensors file. The library would copy it all, and takes long to import."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    stated = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        low, high = entry["data_offsets"]
        kind, shape = np.dtype(_KINDS[entry["dtype"]]), tuple(entry["shape"])
        if not 0 <= low <= high <= len(data) - start or high - low != kind.itemsize * math.prod(shape):
            raise ValueError(f"'{name}' does not lie in the file")
        arrays[name] = np.frombuffer(data, kind, math.prod(shape), start + low).reshape(shape)
    return arrays, stated


# Names of types in a safetensors header.
_KINDS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U16": "<u2", "U8": "|u1",
    "BOOL": "|b1",
}  # fmt: skip


def _array_seal(arrays: Mapping[str, Float], key: bytes | None) -> str:
    digest = arrays_hash(arrays)
    return digest if key is None else hmac.new(key, digest.encode("ascii"), hashlib.sha256).hexdigest()


def arrays_hash(arrays: Mapping[str, Float]) -> str:
    """Of names, types, shapes and every number."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
