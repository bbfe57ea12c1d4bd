"""The unit of work: a block, some successive rows of one row group of one input file.

Blocks are cut from the input alone. Which rows are embedded and compared together therefore depends
neither on the number of workers nor on what failed before, and since the last bits of a matrix product
depend on the shape of the matrices, this is what makes answers identical bit for bit.

A block travels between workers as one row of a data set, its rows inside as Arrow IPC bytes: nothing on
the way can split it or join it to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from simdx.errors import BadInput, MissingExtra
from simdx.scale.storage import Place

if TYPE_CHECKING:
    import pyarrow as pa

ID, TEXT = "id", "text"  # the names a block's columns have whatever the input calls them


@dataclass(frozen=True, slots=True)
class Piece:
    """One row group of one input file, and the offsets of those of its blocks that are still to be done."""

    path: str
    file: str  # short hash of the path relative to the input: part of every block's name
    row_group: int
    starts: tuple[int, ...]

    def name(self, start: int) -> str:
        return f"part-{self.file}-{self.row_group:05d}-{start:010d}.parquet"


@dataclass(frozen=True, slots=True)
class Block:
    """Rows with their place; `problem` is set where the whole block could not be worked on."""

    name: str
    table: bytes = b""
    problem: str = ""

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Block:
        return cls(str(row["name"]), bytes(row["table"]), str(row["problem"]))


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Where the text and its id stand; `id` None gives every row its file and number as id."""

    text: str = "text"
    id: str | None = "id"


@dataclass(frozen=True, slots=True)
class Cut:
    """An input cut into blocks."""

    pieces: tuple[Piece, ...]
    blocks: dict[str, int]  # name → rows, of every block, done or not
    digest: str  # changes with the paths, sizes and row counts of the input

    @property
    def rows(self) -> int:
        return sum(self.blocks.values())

    def without(self, done: Iterable[str]) -> tuple[Piece, ...]:
        """What is left to do when the blocks of these names are there."""
        there = set(done)
        left = (replace(p, starts=tuple(s for s in p.starts if p.name(s) not in there)) for p in self.pieces)
        return tuple(piece for piece in left if piece.starts)


def cut(source: Place, columns: RowColumns, block_rows: int) -> Cut:
    """List the input and read its footers; no text is read."""
    parquet = _parquet()
    files = source.files(".parquet")
    if not files:
        raise BadInput(f"there is no Parquet file at '{source.url}'")
    root = _common_folder(list(files))
    pieces: list[Piece] = []
    blocks: dict[str, int] = {}
    digest = hashlib.sha256()
    for path, size in files.items():
        relative = path[len(root) :]
        with source.open(path) as file:
            try:
                footer = parquet.ParquetFile(file).metadata
                names = set(footer.schema.to_arrow_schema().names)
            except Exception as error:
                raise BadInput(f"'{relative}' is not a Parquet file ({type(error).__name__})") from None
        for column in filter(None, (columns.text, columns.id)):
            if column not in names:
                raise BadInput(f"'{relative}' has no column '{column}': it has {', '.join(sorted(names))}")
        digest.update(f"{relative}\0{size}\0{footer.num_rows}\0".encode())
        short = hashlib.sha256(relative.encode()).hexdigest()[:12]
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group).num_rows
            piece = Piece(path, short, group, tuple(range(0, rows, block_rows)))
            if piece.starts:
                pieces.append(piece)
            blocks.update({piece.name(s): min(block_rows, rows - s) for s in piece.starts})
    return Cut(tuple(pieces), blocks, digest.hexdigest())


def read(source: Place, piece: Piece, columns: RowColumns, block_rows: int) -> Iterator[Block]:
    """The blocks of a piece that are still to be done; those that cannot be read carry a problem."""
    wanted = {start: piece.name(start) for start in piece.starts}
    try:
        with source.open(piece.path) as file:
            yield from _read_open(file, piece, columns, block_rows, wanted)
    except Exception as error:
        # Damaged bytes or a store that is out of reach: these blocks wait for another run.
        for name in wanted.values():
            yield Block(name, problem=f"could not be read ({type(error).__name__})")


def _read_open(
    file: Any, piece: Piece, columns: RowColumns, block_rows: int, wanted: dict[int, str]
) -> Iterator[Block]:
    import pyarrow as pa

    asked = [c for c in (columns.text, columns.id) if c is not None]
    batches = _parquet().ParquetFile(file).iter_batches(
        batch_size=block_rows, row_groups=[piece.row_group], columns=asked, use_threads=False
    )  # fmt: skip
    for start, batch in _in_blocks(batches, block_rows):
        name = wanted.pop(start, None)
        if name is None:
            continue
        if columns.id is None:
            ids = pa.array([f"{piece.file}:{piece.row_group}:{start + i}" for i in range(batch.num_rows)])
        else:
            ids = batch.column(columns.id)
        table = pa.table({ID: ids, TEXT: batch.column(columns.text)})
        yield Block(name, to_bytes(table))


def _in_blocks(batches: Iterable[Any], block_rows: int) -> Iterator[tuple[int, pa.Table]]:
    """A reader may hand over less than was asked for: join and cut again, so that blocks keep their size."""
    import pyarrow as pa

    held: pa.Table | None = None
    start = 0
    for batch in batches:
        more = pa.Table.from_batches([batch])
        held = more if held is None else pa.concat_tables([held, more])
        while held.num_rows >= block_rows:
            yield start, held.slice(0, block_rows)
            start += block_rows
            held = held.slice(block_rows)
    if held is not None and held.num_rows:
        yield start, held


def to_bytes(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


def _common_folder(paths: list[str]) -> str:
    """What all paths share up to a slash, so that moving the whole input changes no block's name."""
    folders = (path.split("/")[:-1] for path in (min(paths), max(paths)))
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(*folders, strict=False))
    return "".join(f"{folder}/" for folder, _ in shared)


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtra("working on Parquet", "scale") from None
    return parquet
