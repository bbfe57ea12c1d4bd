"""Many cases, Parquet in and Parquet out: cut, do what is not done yet, count, and say so last.

    _job.json        written first: what is computed, from which input, in blocks of how many rows
    part-….parquet   one per block, written whole or not at all, always under the same name
    _done.json       written last: every row is there once

A run that was stopped, by whatever, goes on when the same command is given again: blocks whose part is
there are not done again. A block done twice, because a worker died after writing it, is the same file.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from simdx.errors import BadInput, RunFailed
from simdx.scale.blocks import Block, Cut, Piece, RowColumns, cut, read
from simdx.scale.job import Job, digest
from simdx.scale.stages import AnswerStage, EmbedStage, write
from simdx.scale.storage import Place

JOB_FILE, DONE_FILE = "_job.json", "_done.json"
NAMED_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that has no answer, by its id; the text is not quoted."""

    id: str
    error: str


@dataclass(frozen=True, slots=True)
class JobSummary:
    """How a run ended."""

    rows: int
    answered: int
    failed: int
    failures: tuple[Failure, ...]  # the first NAMED_FAILURES; all of them are in the output's error column
    blocks: int
    blocks_before: int  # done by earlier runs
    seconds: float
    output: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Work:
    """What an executor gets: pieces to do and all it needs to do them."""

    job: Job
    embedder: str
    source: Place
    output: Place
    columns: RowColumns
    block_rows: int
    pieces: tuple[Piece, ...]


# Does the work and hands over what `stages.write` says of each block, in any order.
Execute = Callable[[Work], Iterable[dict[str, Any]]]
Watch = Callable[[int, int], None]


def classify_parquet(
    job: Job,
    source: str,
    output: str,
    execute: Execute,
    *,
    columns: RowColumns | None = None,
    block_rows: int = 2048,
    watch: Watch = lambda done, total: None,
) -> JobSummary:
    """Answer every row of the Parquet files at `source` into the folder `output`."""
    started = time.monotonic()
    columns = columns or RowColumns()
    if block_rows < 1:
        raise BadInput(f"--block-rows is {block_rows}: give at least 1")
    place_in, place_out = Place(source), Place(output)
    work_cut = cut(place_in, columns, block_rows)
    classifier = job.classifier()  # refuses what cannot be answered before anything is written
    if job.top is not None and not 1 <= job.top <= len(classifier.panel.names):
        raise BadInput(f"--top is {job.top}: give a number from 1 to {len(classifier.panel.names)}")
    embedder = job.embedder or classifier.panel.embedder
    described = job.describe(classifier)
    described |= {"input": work_cut.digest, "block_rows": block_rows, "columns": asdict(columns)}
    del classifier
    _open_output(place_out, described)
    before = _parts(place_out) & work_cut.blocks.keys()
    pieces = work_cut.without(before)
    problems: dict[str, str] = {}
    done = sum(work_cut.blocks[name] for name in before)
    watch(done, work_cut.rows)
    if pieces:
        work = Work(job, embedder, place_in, place_out, columns, block_rows, pieces)
        for report in execute(work):
            if report["problem"]:
                problems[report["name"]] = report["problem"]
            done += report["rows"]
            watch(done, work_cut.rows)
    place_out.sweep()
    return _finish(place_out, work_cut, digest(described), problems, len(before), started)


def in_this_process(work: Work) -> Iterator[dict[str, Any]]:
    """The executor without a cluster: block after block, here."""
    embed, answer = EmbedStage(work.embedder, work.job.settings.allow_remote), AnswerStage(work.job)
    for block in blocks_of(work, work.pieces):
        yield write(answer(embed(block)), work.output)


def blocks_of(work: Work, pieces: Iterable[Piece]) -> Iterator[Block]:
    for piece in pieces:
        yield from read(work.source, piece, work.columns, work.block_rows)


# --------------------------------------------------------------------------- the output folder


def _open_output(output: Place, described: dict[str, Any]) -> None:
    found = output.read(JOB_FILE)
    if found is None:
        if not output.is_empty():
            raise BadInput(f"'{output.url}' is not empty and holds no run: choose a new folder")
        output.write(JOB_FILE, json.dumps(described, indent=1, ensure_ascii=False).encode())
        return
    try:
        earlier = json.loads(found)
        same = digest(earlier) == digest(described)
    except (ValueError, TypeError, AttributeError):
        raise BadInput(f"'{output.url}/{JOB_FILE}' is damaged: choose a new folder") from None
    if not same:
        named = sorted(k for k in described if earlier.get(k) != described[k])
        other = " and ".join(named) or "job"
        raise BadInput(f"'{output.url}' holds a run with another {other}: choose a new folder")


def _parts(output: Place) -> set[str]:
    return {path.rpartition("/")[2] for path in output.files(".parquet")}


def _finish(
    output: Place, work_cut: Cut, job: str, problems: dict[str, str], before: int, started: float
) -> JobSummary:
    missing = work_cut.blocks.keys() - _parts(output)
    if missing:
        first = problems.get(min(missing)) or next(iter(problems.values()), "its worker did not report")
        raise RunFailed(
            f"{len(missing)} of {len(work_cut.blocks)} blocks are not done (the first {first}): the rest is "
            f"kept in '{output.url}', run the same command again to go on"
        )
    failures, failed = _failures(output, work_cut)
    summary = JobSummary(
        rows=work_cut.rows, answered=work_cut.rows - failed, failed=failed, failures=tuple(failures),
        blocks=len(work_cut.blocks), blocks_before=before, seconds=round(time.monotonic() - started, 3),
        output=output.url,
    )  # fmt: skip
    done = {"job": job, "rows": summary.rows, "failed": failed, "blocks": summary.blocks}
    output.write(DONE_FILE, json.dumps(done, indent=1).encode())
    return summary


def _failures(output: Place, work_cut: Cut) -> tuple[list[Failure], int]:
    """Count failed rows over all parts, and name the first: from footers where nothing failed."""
    import pyarrow.parquet as parquet

    named: list[Failure] = []
    count = 0
    for path in output.files(".parquet"):
        name = path.rpartition("/")[2]
        if name not in work_cut.blocks:
            said = f"'{output.url}' holds '{name}', which is not part of this run"
            raise RunFailed(f"{said}: choose a new folder")
        with output.open(path) as file:
            part = parquet.ParquetFile(file)
            if part.metadata.num_rows != work_cut.blocks[name]:
                raise RunFailed(f"'{name}' has not the rows it should have: remove it and run again")
            failed = int((part.schema_arrow.metadata or {}).get(b"simdx.failed", b"0"))
            count += failed
            if failed and len(named) < NAMED_FAILURES:
                table = part.read(columns=["id", "error"])
                named += [Failure(str(row["id"]), row["error"]) for row in table.to_pylist() if row["error"]]
    return named[:NAMED_FAILURES], count
