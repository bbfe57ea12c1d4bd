"""The unit of work: a block, at most so many successive rows of one row group of one Parquet file.

Blocks are cut from the input alone, and a block's rows are always embedded and answered together. The last
bits of a matrix product depend on the shape of the matrices, so this is what makes answers identical bit
for bit for any number of workers.
"""

import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from simdx.disk import make_folder
from simdx.errors import BadInput, MissingExtra


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


class Block(NamedTuple):
    """Where the rows of a block are, and the name of the file its answers go to."""

    path: str
    row_group: int
    start: int
    rows: int
    name: str


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """Parquet files at a URL, with the columns of text and id; `id` None numbers the rows of each file."""

    url: str
    text: str = "text"
    id: str | None = "id"

    @property
    def columns(self) -> list[str]:
        return [self.text] if self.id is None else [self.id, self.text]

    def cut(self, block_rows: int) -> tuple[list[Block], str]:
        """All blocks, and the digest of the input; footers are read, no text."""
        try:
            import fsspec  # noqa: F401  # for `folder_at`
            from pyarrow import parquet
        except ImportError:
            raise MissingExtra("working on Parquet", "scale") from None
        folder = folder_at(self.url)
        files = {"": folder.info("")} if folder.isfile("") else folder.find("", detail=True)
        files = {p: files[p]["size"] for p in sorted(files) if (p or self.url).endswith(".parquet")}
        if not files:
            raise BadInput(f"there is no Parquet file at '{self.url}'")
        blocks: list[Block] = []
        digest = hashlib.sha256()
        for path, size in files.items():
            with folder.open(path) as file:
                try:
                    footer = parquet.ParquetFile(file).metadata
                    names = set(footer.schema.to_arrow_schema().names)
                except Exception as error:
                    said = f"'{path or self.url}' is not a Parquet file ({type(error).__name__})"
                    raise BadInput(said) from None
            if missing := [column for column in self.columns if column not in names]:
                has = ", ".join(sorted(names))
                raise BadInput(f"'{path or self.url}' has no column '{missing[0]}': it has {has}")
            digest.update(f"{path}\0{size}\0{footer.num_rows}\0".encode())
            short = hashlib.sha256(path.encode()).hexdigest()[:12]
            for group in range(footer.num_row_groups):
                rows = footer.row_group(group).num_rows
                for start in range(0, rows, block_rows):
                    name = f"part-{short}-{group:05d}-{start:010d}.parquet"
                    blocks.append(Block(path, group, start, min(block_rows, rows - start), name))
        return blocks, digest.hexdigest()

    def row_group(self, path: str, number: int) -> Any:
        """A table of id and text, whatever the input calls them."""
        from pyarrow import parquet

        with folder_at(self.url).open(path) as file:
            table = parquet.ParquetFile(file).read_row_group(number, columns=self.columns, use_threads=False)
        table = table.select(self.columns)
        return table.rename_columns(["text"] if self.id is None else ["id", "text"])
