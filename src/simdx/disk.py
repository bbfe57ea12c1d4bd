"""Atomic file writes, and seals that reveal damage.

Whatever simdx writes under a name goes through here. The content is put into a scratch file beside the
target, brought to the disk and renamed over it, so a reader sees the old file or the new one and a killed
process leaves at most a hidden scratch file. Its writer holds a lock on it; the next writer of the same
target removes those nobody holds. A write that fails says in one line which file and why, and what was there
before is untouched. Files may hold patients' words: the user's umask says who may read them.

A *seal* is a digest a file carries of its own content. It does not protect against a forger; it shows that a
disk or a copy changed a byte, where the changed file would still be read without complaint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import hmac
import json
import math
import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from simdx.errors import BadInput, RunFailed
from simdx.types import Float

UNFINISHED = ".unfinished"
_LONGEST_STEM = 60


class CannotWrite(RunFailed):
    """The disk is full, read-only, or not ours to write."""


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write into that takes the place of `path` when the block ends well; `mode` less the umask."""
    with _scratch(path, mode) as (file, scratch):
        yield file
        _sync(file)
        os.replace(scratch, path)


def write_atomically(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write the whole file or nothing."""
    with replacing(path, mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def create_once(path: Path, content: str, mode: int = 0o600) -> bool:
    """Write a file nobody has written before, whole from its first moment; False where another was first."""
    with _scratch(path, mode) as (file, scratch):
        file.write(content.encode("utf-8"))
        _sync(file)
        try:
            os.link(scratch, path)
        except FileExistsError:
            return False
    return True


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _scratch(path: Path, mode: int) -> Iterator[tuple[BinaryIO, str]]:
    """A scratch file of our own beside `path`, locked. It goes in the end; those of dead writers go first."""
    prefix = f".{path.name[:_LONGEST_STEM]}-"
    scratch = ""
    try:
        sweep(path.parent, glob.escape(prefix) + "?" * 8)
        while True:
            scratch = str(path.parent / f"{prefix}{secrets.token_hex(4)}")
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
                    fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink:  # else another writer swept it before we held the lock
                    yield file, scratch
                    return
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)


def sweep(folder: Path, pattern: str) -> None:
    """Remove the scratch files that match and that no living writer holds."""
    for path in list(folder.glob(pattern)):
        with contextlib.suppress(OSError), path.open("rb") as file:  # held, or gone by now
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    why = error.strerror or type(error).__name__
    return CannotWrite(f"'{path}' cannot be written: {why}; the previous file is unchanged")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"the folder '{folder}' cannot be made: {error.strerror}") from None


def refuse_unwritable(folder: Path) -> None:
    """Raise BadInput if the folder cannot be made or written. Call it before slow work."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise BadInput(f"the folder '{folder}' cannot be made: '{there}' is a file")
    if not os.access(there, os.W_OK):
        locked = os.statvfs(there).f_flag & os.ST_RDONLY
        reason = os.strerror(errno.EROFS if locked else errno.EACCES)
        raise BadInput(f"'{folder}' cannot be written: '{there}': {reason}")


def refuse_occupied(folder: Path) -> None:
    """BadInput unless the folder is absent, empty, or one that an interrupted run of ours left unfinished."""
    if (folder / UNFINISHED).is_file():
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
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
    return record.get("seal") == sealed(record)["seal"]


def save_arrays(path: Path, arrays: Mapping[str, Float], key: bytes | None = None, about: str = "") -> None:
    """Arrays as safetensors, sealed over names, types, shapes, every number and what is said `about` them.

    With a key the seal does protect against a forger who does not have it.
    """
    from safetensors.numpy import save

    if key == b"":
        raise CannotWrite(f"'{path}' cannot be sealed: there is no key that only its user can read")
    whole = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    # In one entry: the library writes several in any order, and the same arrays must make the same file.
    said = _array_seal(whole, key, about) + (f"\n{about}" if about else "")
    write_atomically(path, save(whole, metadata={"seal": said}))


def load_arrays(path: Path, key: bytes | None = None) -> dict[str, Float] | None:
    """What `save_arrays` wrote, mapped into memory; None where a file is absent or not as it was written."""
    found = load_described(path, key)
    return None if found is None else found[0]


def load_described(path: Path, key: bytes | None = None) -> tuple[dict[str, Float], str] | None:
    """`load_arrays` with the metadata."""
    try:
        arrays, stated = _mapped(path)
        seal, _, about = str(stated.get("seal")).partition("\n")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    holds = hmac.compare_digest(seal.encode(), _array_seal(arrays, key, about).encode())
    return (arrays, about) if holds and key != b"" else None  # without a key no seal of a key can hold


def read_safetensors(path: Path) -> dict[str, Float]:
    """The arrays of a file that carries no seal of ours, mapped into memory; its hash is the caller's."""
    return _mapped(path)[0]


def _mapped(path: Path) -> tuple[dict[str, Float], dict[str, str]]:
    """Arrays and metadata of a safetensors file; the library would copy it all."""
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


def _array_seal(arrays: Mapping[str, Float], key: bytes | None, about: str) -> str:
    digest = arrays_hash(arrays)
    if about:
        digest = hashlib.sha256(f"{digest}\n{about}".encode("utf-8", "surrogatepass")).hexdigest()
    return digest if key is None else hmac.new(key, digest.encode("ascii"), hashlib.sha256).hexdigest()


def arrays_hash(arrays: Mapping[str, Float]) -> str:
    """Hash of names, types, shapes and every number."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
