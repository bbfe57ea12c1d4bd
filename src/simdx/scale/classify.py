"""Many cases, Parquet in and Parquet out: cut, do what is not done yet, count, and say so last.

    _job.json        written first: what is computed, from which input, in blocks of how many rows
    part-….parquet   one per block, written whole or not at all, always under the same name
    _done.json       written last: every row is there once

A run that was stopped, by whatever, goes on when the same command is given again: blocks whose part is
there are not done again. A block done twice, because a worker died after writing it, is the same file.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from simdx.errors import BadInput, RunFailed
from simdx.scale.blocks import RowColumns, RowSpan, cut, folder_at, write_whole
from simdx.scale.workers import BlockWorker, Job, Report, digest

JOB_FILE, DONE_FILE = "_job.json", "_done.json"
NAMED_FAILURES = 20

# Does the blocks and hands over a report of each, in any order.
Execute = Callable[[BlockWorker, list[RowSpan]], Iterable[Report]]


@dataclass(frozen=True, slots=True)
class JobSummary:
    """How a run ended."""

    rows: int
    answered: int
    failed: int
    failures: list[dict[str, str]]  # id and error of the first; all are in the output's error column
    blocks: int
    blocks_before: int  # done by earlier runs
    seconds: float
    output: str


def classify_parquet(
    job: Job,
    source: str,
    output: str,
    execute: Execute,
    *,
    columns: RowColumns | None = None,
    block_rows: int = 2048,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> JobSummary:
    """Answer every row of the Parquet files at `source` into the folder `output`."""
    started = time.monotonic()
    columns = columns or RowColumns()
    if block_rows < 1:
        raise BadInput(f"--block-rows is {block_rows}: give at least 1")
    spans, input_digest = cut(source, columns, block_rows)
    classifier = job.classifier()  # refuses what cannot be answered before anything is written
    if job.top is not None and not 1 <= job.top <= len(classifier.outcomes):
        raise BadInput(f"--top is {job.top}: give a number from 1 to {len(classifier.outcomes)}")
    described = job.describe(classifier)
    described |= {"input": input_digest, "block_rows": block_rows, "columns": asdict(columns)}
    _open_output(output, described)
    worker = BlockWorker(job, job.embedder or classifier.panel.embedder, source, output, columns)
    rows = {span.name: span.rows for span in spans}
    before = _parts(output) & rows.keys()
    total, done = sum(rows.values()), sum(rows[name] for name in before)
    watch(done, total)
    problems: dict[str, str] = {}
    if left := [span for span in spans if span.name not in before]:
        for report in execute(worker, left):
            if report["problem"]:
                problems[report["name"]] = report["problem"]
            done += report["rows"]
            watch(done, total)
    folder = folder_at(output)
    for left_behind in folder.glob(".*.part"):  # by killed writers
        folder.rm_file(left_behind)
    failures, failed = _check(output, rows, problems)
    closing = {"job": digest(described), "rows": total, "failed": failed, "blocks": len(rows)}
    write_whole(folder, DONE_FILE, json.dumps(closing, indent=1).encode())
    seconds = round(time.monotonic() - started, 3)
    return JobSummary(total, total - failed, failed, failures, len(rows), len(before), seconds, output)


def _open_output(output: str, described: dict[str, Any]) -> None:
    folder = folder_at(output)
    if not folder.exists(JOB_FILE):
        if folder.exists("") and (folder.isfile("") or folder.ls("", detail=False)):
            raise BadInput(f"'{output}' is not empty and holds no run: choose a new folder")
        write_whole(folder, JOB_FILE, json.dumps(described, indent=1, ensure_ascii=False).encode())
        return
    try:
        earlier = json.loads(folder.cat_file(JOB_FILE))
        other = sorted(key for key in described if earlier.get(key) != described[key])
    except (ValueError, AttributeError):
        raise BadInput(f"'{output}/{JOB_FILE}' is damaged: choose a new folder") from None
    if other:
        raise BadInput(f"'{output}' holds a run with another {' and '.join(other)}: choose a new folder")


def _parts(output: str) -> set[str]:
    return {path for path in folder_at(output).find("") if path.endswith(".parquet")}


def _check(output: str, rows: dict[str, int], problems: dict[str, str]) -> tuple[list[dict[str, str]], int]:
    """Every block is there once and whole; the first failed rows and the number of all."""
    from pyarrow import parquet

    folder, parts = folder_at(output), _parts(output)
    if missing := rows.keys() - parts:
        first = problems.get(min(missing)) or next(iter(problems.values()), "its worker did not report")
        raise RunFailed(
            f"{len(missing)} of {len(rows)} blocks are not done (the first {first}); the others "
            f"are saved in '{output}': run the same command again to continue"
        )
    if foreign := parts - rows.keys():
        said = f"'{output}' holds '{min(foreign)}', which is not part of this run"
        raise RunFailed(f"{said}: choose a new folder")
    named: list[dict[str, str]] = []
    failed = 0
    for name in sorted(parts):
        with folder.open(name) as file:
            part = parquet.ParquetFile(file)
            errors = part.read(columns=["error"]).column(0)
            if len(errors) != rows[name]:
                raise RunFailed(f"'{name}' does not have the expected rows: remove it and run again")
            failed += len(errors) - errors.null_count
            if errors.null_count < len(errors) and len(named) < NAMED_FAILURES:
                found = part.read(columns=["id", "error"]).to_pylist()
                named += [{"id": str(r["id"]), "error": r["error"]} for r in found if r["error"]]
    return named[:NAMED_FAILURES], failed
