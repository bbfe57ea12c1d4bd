"""The unit of work: a block, at most so many successive rows of one row group of one Parquet file.

Blocks are cut from the input alone, and a block's rows are always embedded and answered together. The last
bits of a matrix product depend on the shape of the matrices, so this is what makes answers identical bit
for bit for any number of workers.
"""

import hashlib
import os
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from simdx.disk import make_folder
from simdx.errors import BadInput, MissingExtra

ID, TEXT = "id", "text"  # the names a block's columns have whatever the input calls them


def folder_at(url: str) -> Any:
    """The folder at a URL (`s3://bucket/cases`, `/data/cases`) as a file system of its own."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.dirfs import DirFileSystem

    try:
        fs, path = url_to_fs(url)
    except ImportError as error:  # fsspec names the package its protocol needs
        raise BadInput(f"'{url}' needs a package of its own: {error}") from None
    except ValueError as error:
        raise BadInput(f"'{url}' is not a place fsspec knows: {error}") from None
    fs.invalidate_cache()
    return DirFileSystem(path.rstrip("/"), fs)


def write_whole(folder: Any, name: str, data: bytes) -> None:
    """Put a file into a folder, whole or not at all; one of that name is replaced."""
    if "file" not in folder.fs.protocol:
        folder.pipe_file(name, data)  # an object store shows an object once all of it is sent
        return
    path = Path(folder.path)
    make_folder(path)
    # Hidden, because a killed writer may leave a whole file, whose rows a reader would count twice.
    # Not through `disk`, which lists the folder at each write: this one may hold thousands of files.
    scratch = path / f".{name}.{uuid.uuid4().hex}.part"
    with scratch.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path / name)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Where the text and its id stand; `id` None gives every row its file and number as id."""

    text: str = "text"
    id: str | None = "id"


class RowSpan(NamedTuple):
    """Where the rows of a block are, and the name of the file its answers go to."""

    path: str
    row_group: int
    start: int
    rows: int
    name: str


def cut(source: str, columns: RowColumns, block_rows: int) -> tuple[list[RowSpan], str]:
    """All blocks of the input, and its digest; footers are read, no text."""
    try:
        import fsspec  # noqa: F401  # for `folder_at`
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("working on Parquet", "scale") from None
    folder = folder_at(source)
    files = {"": folder.info("")} if folder.isfile("") else folder.find("", detail=True)
    files = {path: files[path]["size"] for path in sorted(files) if (path or source).endswith(".parquet")}
    if not files:
        raise BadInput(f"there is no Parquet file at '{source}'")
    spans: list[RowSpan] = []
    digest = hashlib.sha256()
    for path, size in files.items():
        with folder.open(path) as file:
            try:
                footer = parquet.ParquetFile(file).metadata
                names = set(footer.schema.to_arrow_schema().names)
            except Exception as error:
                raise BadInput(f"'{path or source}' is not a Parquet file ({type(error).__name__})") from None
        for column in filter(None, (columns.text, columns.id)):
            if column not in names:
                raise BadInput(
                    f"'{path or source}' has no column '{column}': it has {', '.join(sorted(names))}"
                )
        digest.update(f"{path}\0{size}\0{footer.num_rows}\0".encode())
        short = hashlib.sha256(path.encode()).hexdigest()[:12]
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group).num_rows
            for start in range(0, rows, block_rows):
                name = f"part-{short}-{group:05d}-{start:010d}.parquet"
                spans.append(RowSpan(path, group, start, min(block_rows, rows - start), name))
    return spans, digest.hexdigest()


class Reader:
    """Rows of the input, a block at a time; the row group read last is kept for the blocks that follow."""

    def __init__(self, source: str, columns: RowColumns) -> None:
        self._source, self._columns = source, columns
        self._row_group = lru_cache(maxsize=1)(self._read_row_group)

    def __call__(self, span: RowSpan) -> Any:
        import pyarrow as pa

        rows = self._row_group(span.path, span.row_group).slice(span.start, span.rows)
        if self._columns.id is None:
            prefix = span.name.removeprefix("part-").rpartition("-")[0]
            ids = pa.array([f"{prefix}:{span.start + i}" for i in range(span.rows)])
        else:
            ids = rows.column(self._columns.id)
        return pa.table({ID: ids, TEXT: rows.column(self._columns.text)})

    def _read_row_group(self, path: str, number: int) -> Any:
        from pyarrow import parquet

        asked = [c for c in (self._columns.text, self._columns.id) if c is not None]
        with folder_at(self._source).open(path) as file:
            return parquet.ParquetFile(file).read_row_group(number, columns=asked, use_threads=False)
