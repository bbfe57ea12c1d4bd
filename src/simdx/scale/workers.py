"""What a worker does with a block (embed, answer, write), and worker processes on this machine.

A row that makes a step fail is found by trying the rows one by one; it keeps its place in the output with
its error, and the rest of the block is answered. Where *every* row fails, the cause is no row: the block
gets a problem, nothing is written, and another run tries it again. Errors name the kind of failure and
never quote a text.
"""

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simdx.disk import CannotWrite
from simdx.embedders import embed_texts, get_embedder
from simdx.errors import RunFailed, SimdxError
from simdx.methods import Observations
from simdx.methods.panel_data import check_text
from simdx.scale.blocks import ID, TEXT, Block, RowColumns, RowSpan, folder_at, read, tasks, write_whole
from simdx.scale.job import Job

ERROR, VECTOR = "error", "vector"
NUMBERS = (
    "probability", "entropy_bits", "out_of_class", "typicality", "effective_simulations", "aleatoric_bits",
    "epistemic_bits",
)  # fmt: skip
TRIES = 3  # of the pool, when processes in it are killed

Task = tuple[RowSpan, ...]
Report = dict[str, Any]  # of a block: "name", "rows" written, "problem" or ""


@dataclass(frozen=True)
class BlockWorker:
    """The steps of a block. Embedder and classifier are loaded when first used, and once: loading is slow."""

    job: Job
    embedder: str
    source: str
    output: str
    columns: RowColumns

    @cached_property
    def _embedder(self) -> Any:
        return get_embedder(self.embedder, allow_remote=self.job.settings.allow_remote)

    @cached_property
    def _classifier(self) -> Any:
        return self.job.classifier()

    def do(self, task: Task) -> Iterator[Report]:
        """All steps of all blocks of a task."""
        for block in self.embedded(task):
            yield self.written(block)

    def embedded(self, task: Task) -> Iterator[Block]:
        """Blocks with their vectors; a row that is not text has an error instead."""
        for block in read(self.source, task, self.columns):
            yield _step(self._embed, block)

    def written(self, block: Block) -> Report:
        """Answer a block and put the answers in their place."""
        import pyarrow as pa
        from pyarrow import parquet

        name, table, problem = _step(self._answer, block)
        if problem:
            return {"name": name, "rows": 0, "problem": problem}
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink, compression="zstd")
        try:
            write_whole(folder_at(self.output), name, sink.getvalue().to_pybytes())
        except Exception as error:
            cause = error.__context__ if isinstance(error, CannotWrite) else error
            return {"name": name, "rows": 0, "problem": f"could not be written ({type(cause).__name__})"}
        return {"name": name, "rows": len(table), "problem": ""}

    def _embed(self, table: Any) -> Any:
        import pyarrow as pa

        texts = _values(table.column(TEXT))
        wrong = [_why_not(text) for text in texts]
        found = _by_rows(wrong, lambda rows: embed_texts(self._embedder, [texts[i] for i in rows]))
        errors = pa.array([one if isinstance(one, str) else None for one in found], pa.string())
        vectors = [None if isinstance(one, str) else np.asarray(one, np.float32) for one in found]
        table = table.append_column(ERROR, errors)
        return table.append_column(VECTOR, pa.array(vectors, pa.list_(pa.float32())))

    def _answer(self, table: Any) -> Any:
        import pyarrow as pa

        texts, errors = _values(table.column(TEXT)), table.column(ERROR).to_pylist()
        answered = np.array([error is None for error in errors])
        flat = table.column(VECTOR).combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors = np.zeros((len(texts), len(flat) // max(1, answered.sum())), np.float32)
        vectors[answered] = flat.reshape(answered.sum(), -1)
        found = _by_rows(
            errors, lambda rows: self._rows(Observations(tuple(texts[i] for i in rows), vectors[rows]))
        )
        rows = [{ERROR: one} if isinstance(one, str) else one for one in found]
        names = json.dumps(list(self._classifier.outcomes), ensure_ascii=False)
        schema = pa.schema(_column_types(self.job), metadata={"simdx.labels": names})
        return pa.Table.from_pylist(rows, schema).add_column(0, ID, table.column(ID))

    def _rows(self, seen: Observations) -> list[dict[str, Any]]:
        """One answer per observation, by the names of the output's columns."""
        names, top = self._classifier.outcomes, self.job.top
        batch = self._classifier.infer_batch_observed(seen, self.job.prior)
        order = np.argsort(-batch.posterior, axis=1, kind="stable")[:, : top or 1]
        ranked = np.take_along_axis(batch.posterior, order, axis=1)
        numbers = {n: getattr(batch, n, getattr(batch.second_order, n, None)) for n in NUMBERS[1:]}
        given = {name: column.tolist() for name, column in numbers.items() if column is not None}
        rows = []
        for i, labels in enumerate(order):
            row = {"label": names[labels[0]], "probability": ranked[i, 0]}
            row |= {name: column[i] for name, column in given.items()}
            row |= {"top_labels": [names[j] for j in labels], "top_probabilities": ranked[i]} if top else {
                "posterior": batch.posterior[i]
            }  # fmt: skip
            rows.append(row)
        if self.job.decide:
            answers = self._classifier.infer_observed(seen, self.job.prior, explain=False)
            for row, a in zip(rows, answers, strict=True):
                row |= {"action": a.decision.action, "reason": a.decision.reason}
                row |= {"alarm": a.alarm and a.alarm.flag, "conformal_set": a.conformal_set}
        return rows


def _column_types(job: Job) -> dict[str, Any]:
    """The columns of an answer after its id."""
    import pyarrow as pa

    number, words = pa.float64(), pa.string()
    types = {"label": words, **dict.fromkeys(NUMBERS, number)}
    if job.top is None:
        types["posterior"] = pa.list_(number)
    else:
        types |= {"top_labels": pa.list_(words), "top_probabilities": pa.list_(number)}
    if job.decide:
        types |= {"action": words, "reason": words, "alarm": pa.bool_(), "conformal_set": pa.list_(words)}
    return {**types, ERROR: words}


class _EveryRowFailed(Exception):
    pass


def _step(step: Callable[[Any], Any], block: Block) -> Block:
    from threadpoolctl import threadpool_limits

    if block.problem:
        return block
    try:
        # One thread: how many a machine has must not change the order in which numbers are added.
        with threadpool_limits(1):
            return Block(block.name, step(block.table))
    except _EveryRowFailed as error:
        return Block(block.name, problem=str(error))
    except Exception as error:
        return Block(block.name, problem=_kind(error))


def _by_rows(errors: Sequence[str | None], work: Callable[[list[int]], Any]) -> list[Any]:
    """Per row its error, or what `work` makes of it: of all rows at once, or where that fails one by one."""
    rows = [i for i, error in enumerate(errors) if error is None]
    found: list[Any] = list(errors)
    made: list[Any] = []
    try:
        made = list(work(rows)) if rows else []
    except Exception:
        for row in rows:
            try:
                made.append(work([row])[0])
            except Exception as error:
                made.append(_kind(error))
        if len(rows) > 1 and all(isinstance(one, str) for one in made):
            raise _EveryRowFailed(f"every row failed, the first because it {made[0]}") from None
    for row, one in zip(rows, made, strict=True):
        found[row] = one
    return found


def _kind(error: Exception) -> str:
    return f"failed with {type(error).__name__}"


def _why_not(text: object) -> str | None:
    try:
        check_text(text, "the text")
    except SimdxError as error:
        return "the text is missing" if text is None else str(error)
    return None


def _values(column: Any) -> list[Any]:
    """A column as Python values; a value that is not what its type says (broken UTF-8) becomes None."""
    values = []
    for item in column:
        try:
            values.append(item.as_py())
        except UnicodeDecodeError:
            values.append(None)
    return values


# --------------------------------------------------------------------------- processes of this machine


@dataclass(frozen=True, slots=True)
class InProcesses:
    """An executor: so many processes, each of which reads, answers and writes blocks of its own.

    A process that dies takes with it what it had not written; what is missing is done again.
    """

    count: int

    def __call__(self, worker: BlockWorker, spans: list[RowSpan]) -> Iterator[Report]:
        left = dict(enumerate(tasks(spans, self.count)))
        for _ in range(TRIES):
            # Started anew, not forked: threads of libraries that are loaded here would be lost in a fork.
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.count, fresh, _start, (worker,)) as pool:
                asked = {pool.submit(_do, task): i for i, task in left.items()}
                try:
                    for done in as_completed(asked):
                        reports = done.result()
                        del left[asked[done]]
                        yield from reports
                except BrokenProcessPool:
                    continue
            return
        raise RunFailed(
            f"worker processes ended {TRIES} times (too little memory?): what is done is kept, run the same "
            "command again, with fewer --cpus"
        )


def in_this_process(worker: BlockWorker, spans: list[RowSpan]) -> Iterator[Report]:
    """The executor without other processes."""
    for task in tasks(spans, 1):
        yield from worker.do(task)


_HERE: list[BlockWorker] = []  # the worker of this process


def _start(worker: BlockWorker) -> None:
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    _HERE.append(worker)


def _do(task: Task) -> list[Report]:
    return list(_HERE[0].do(task))


def _follow(parent: int) -> None:
    """End this process once its parent is gone: a killed run leaves no workers."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
