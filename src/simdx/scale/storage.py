"""Where Parquet lies: local folders and object stores alike, through fsspec.

A written file is there whole or not at all. On a file system that takes a rename; an object store does
it by itself, when the bytes are sent in one piece.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simdx.disk import make_folder
from simdx.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCAL = ("file", "local")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file on some file system, by its URL (`s3://bucket/cases`, `/data/cases`)."""

    url: str

    @property
    def _opened(self) -> tuple[AbstractFileSystem, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtra("working on Parquet", "scale") from None
        try:
            fs, path = url_to_fs(self.url)
        except ImportError as error:  # fsspec names the package its protocol needs
            raise BadInput(f"'{self.url}' needs a package of its own: {error}") from None
        except ValueError as error:
            raise BadInput(f"'{self.url}' is not a place fsspec knows: {error}") from None
        return fs, path

    def files(self, suffix: str) -> dict[str, int]:
        """Path under this place → size in bytes, of every file with that suffix, in the order of paths."""
        fs, path = self._opened
        path = path.rstrip("/")
        if fs.isfile(path):
            return {path: int(fs.size(path))}
        if not fs.isdir(path):
            return {}
        fs.invalidate_cache()
        found = fs.find(path, detail=True)
        return {p: int(found[p]["size"] or 0) for p in sorted(found) if p.endswith(suffix)}

    def open(self, path: str) -> Any:
        return self._opened[0].open(path, "rb")

    def read(self, name: str) -> bytes | None:
        """The bytes of a file in this folder, or None where there is none."""
        fs, path = self._opened
        full = f"{path.rstrip('/')}/{name}"
        if not fs.exists(full):
            return None
        content: bytes = fs.cat_file(full)
        return content

    def write(self, name: str, data: bytes) -> None:
        """Put a file into this folder, whole or not at all; one of that name is replaced."""
        fs, path = self._opened
        full = f"{path.rstrip('/')}/{name}"
        if not _is_local(fs):
            fs.pipe_file(full, data)
            return
        make_folder(Path(path))
        # Hidden: what a killed writer leaves is whole, and a reader of the folder would count its rows twice.
        # With the modes of the user's own files, and without a look at the folder, which may hold thousands.
        scratch = f"{path.rstrip('/')}/.{name}.{uuid.uuid4().hex}.part"
        try:
            with open(scratch, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, full)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise

    def sweep(self) -> None:
        """Remove what killed writers left in this folder."""
        fs, path = self._opened
        if _is_local(fs):
            for scratch in Path(path).glob(".*.part"):
                scratch.unlink(missing_ok=True)

    def is_empty(self) -> bool:
        fs, path = self._opened
        return not fs.exists(path) or (fs.isdir(path) and not fs.ls(path, detail=False))


def _is_local(fs: AbstractFileSystem) -> bool:
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
    return any(p in LOCAL for p in protocols)
