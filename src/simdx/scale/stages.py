"""The three steps a block goes through, the same in one process and in a cluster's actors.

embed   texts → vectors; a row that is not text gets an error instead
answer  vectors → posteriors and what goes with them
write   a table → one Parquet file of its own

A row that makes a step fail is found by trying the rows one by one; it keeps its place in the output
with its error, and the rest of the block is answered. Where *every* row fails the cause is not a row: the
block gets a problem, nothing is written, and another run tries it again. Errors name the kind of failure
and never quote a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from simdx.disk import CannotWrite
from simdx.embedders import embed_texts, get_embedder
from simdx.errors import SimdxError
from simdx.methods import AnswerTable, Observations
from simdx.methods.panel_data import check_text
from simdx.scale.blocks import ID, TEXT, Block, from_bytes, to_bytes
from simdx.scale.job import Job
from simdx.scale.storage import Place
from simdx.types import Float

if TYPE_CHECKING:
    import pyarrow as pa

ERROR, VECTOR = "error", "vector"
NUMBERS = (
    "probability", "entropy_bits", "out_of_class", "typicality", "effective_simulations", "aleatoric_bits",
    "epistemic_bits",
)  # fmt: skip
T = TypeVar("T")


class _Stage:
    def __call__(self, block: Block) -> Block:
        from threadpoolctl import threadpool_limits

        if block.problem:
            return block
        try:
            # One thread: how many a machine has must not change the order in which numbers are added.
            with threadpool_limits(1):
                return Block(block.name, to_bytes(self._work(from_bytes(block.table))))
        except _EveryRowFailed as error:
            return Block(block.name, problem=str(error))
        except Exception as error:
            return Block(block.name, problem=_kind(error))

    def _work(self, table: pa.Table) -> pa.Table:
        raise NotImplementedError


class EmbedStage(_Stage):
    """Texts to vectors. Made once per worker: loading an embedder is the slow part."""

    def __init__(self, embedder: str, allow_remote: bool) -> None:
        self._embedder = get_embedder(embedder, allow_remote=allow_remote)

    def _work(self, table: pa.Table) -> pa.Table:
        import pyarrow as pa

        texts = _column(table, TEXT)

        def embed(rows: list[int]) -> Float:
            return embed_texts(self._embedder, [texts[i] for i in rows])

        vectors, errors = _by_parts([_why_not(text) for text in texts], embed)
        whole = np.zeros((len(texts), sum(self._embedder.blocks)), dtype=np.float32)
        for rows, part in vectors:
            whole[rows] = part
        flat = pa.FixedSizeListArray.from_arrays(pa.array(whole.ravel()), whole.shape[1])
        return table.append_column(ERROR, pa.array(errors, type=pa.string())).append_column(VECTOR, flat)


class AnswerStage(_Stage):
    """Vectors to answers. Made once per worker: fitting the method to the bank is the slow part."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._classifier = job.classifier()
        self._names = self._classifier.panel.names

    def _work(self, table: pa.Table) -> pa.Table:
        texts, column = _column(table, TEXT), table.column(VECTOR).combine_chunks()
        vectors: Float = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)

        def answer(rows: list[int]) -> dict[str, list[Any]]:
            observations = Observations(tuple(texts[i] for i in rows), vectors[rows])
            columns = self._columns(self._classifier.infer_batch_observed(observations, self._job.prior))
            if self._job.decide:
                columns |= self._decisions(observations)
            return columns

        return self._table(table.column(ID), *_by_parts(_column(table, ERROR), answer))

    def _columns(self, batch: AnswerTable) -> dict[str, list[Any]]:
        posterior, second = batch.posterior, batch.second_order
        best = posterior.argmax(axis=1)
        columns: dict[str, list[Any]] = {
            "label": [self._names[i] for i in best],
            "probability": posterior[np.arange(len(best)), best].tolist(),
            "entropy_bits": batch.entropy_bits.tolist(),
            "out_of_class": [None] * len(best) if batch.out_of_class is None else batch.out_of_class.tolist(),
            "typicality": batch.typicality.tolist(),
            "effective_simulations": batch.effective_simulations.tolist(),
        }
        for name in ("aleatoric_bits", "epistemic_bits"):
            columns[name] = [None] * len(best) if second is None else getattr(second, name).tolist()
        if self._job.top is None:
            columns["posterior"] = list(posterior)
            return columns
        order = np.argsort(-posterior, axis=1, kind="stable")[:, : self._job.top]
        columns["top_labels"] = [[self._names[i] for i in row] for row in order]
        columns["top_probabilities"] = list(np.take_along_axis(posterior, order, axis=1))
        return columns

    def _decisions(self, observations: Observations) -> dict[str, list[Any]]:
        answers = self._classifier.infer_observed(observations, self._job.prior, explain=False)
        return {
            "action": [a.decision.action for a in answers],
            "reason": [a.decision.reason for a in answers],
            "alarm": [None if a.alarm is None else a.alarm.flag for a in answers],
            "conformal_set": [None if a.conformal_set is None else list(a.conformal_set) for a in answers],
        }

    def _table(
        self, ids: Any, parts: list[tuple[list[int], dict[str, list[Any]]]], errors: list[str | None]
    ) -> pa.Table:
        import pyarrow as pa

        arrays = {ID: ids}
        for name, kind in output_types(self._job).items():
            values: list[Any] = [None] * len(errors)
            for rows, columns in parts:
                for row, value in zip(rows, columns[name], strict=True):
                    values[row] = value
            arrays[name] = pa.array(values, type=kind)
        arrays[ERROR] = pa.array(errors, type=pa.string())
        names = json.dumps(list(self._names), ensure_ascii=False)
        return pa.table(arrays).replace_schema_metadata({"simdx.labels": names})


def output_types(job: Job) -> dict[str, Any]:
    """The columns of an answer between its id and its error."""
    import pyarrow as pa

    number, words = pa.float64(), pa.string()
    types = {"label": words, **dict.fromkeys(NUMBERS, number)}
    if job.top is None:
        types["posterior"] = pa.list_(number)
    else:
        types |= {"top_labels": pa.list_(words), "top_probabilities": pa.list_(number)}
    if job.decide:
        types |= {"action": words, "reason": words, "alarm": pa.bool_(), "conformal_set": pa.list_(words)}
    return types


def write(block: Block, output: Place) -> dict[str, Any]:
    """Put a finished block in its place; what is handed back is small enough for the driver to count."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    nothing = {"name": block.name, "rows": 0, "failed": 0}
    if block.problem:
        return {**nothing, "problem": block.problem}
    table = from_bytes(block.table)
    failed = table.num_rows - table.column(ERROR).null_count
    metadata = {**(table.schema.metadata or {}), b"simdx.failed": str(failed).encode()}
    sink = pa.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    try:
        output.write(block.name, sink.getvalue().to_pybytes())
    except Exception as error:
        cause = error.__context__ if isinstance(error, CannotWrite) else error
        return {**nothing, "problem": f"could not be written ({type(cause).__name__})"}
    return {"name": block.name, "rows": table.num_rows, "failed": failed, "problem": ""}


# --------------------------------------------------------------------------- finding what failed


class _EveryRowFailed(Exception):
    pass


def _by_parts(
    errors: list[str | None], work: Callable[[list[int]], T]
) -> tuple[list[tuple[list[int], T]], list[str | None]]:
    """`work` on all rows without an error at once, or where that fails on each alone; and then the errors."""
    rows = [i for i, error in enumerate(errors) if error is None]
    if not rows:
        return [], errors
    try:
        return [(rows, work(rows))], errors
    except Exception as error:
        if len(rows) == 1:
            return [], [_kind(error) if i in rows else e for i, e in enumerate(errors)]
    done, errors = list[tuple[list[int], T]](), list(errors)
    for row in rows:
        try:
            done.append(([row], work([row])))
        except Exception as error:
            errors[row] = _kind(error)
    if not done:
        raise _EveryRowFailed(f"every row failed, the first because it {errors[rows[0]]}")
    return done, errors


def _kind(error: Exception) -> str:
    return f"failed with {type(error).__name__}"


def _why_not(text: object) -> str | None:
    if text is None:
        return "the text is missing"
    try:
        check_text(text, "the text")
    except SimdxError as error:
        return str(error)
    return None


def _column(table: pa.Table, name: str) -> list[Any]:
    """A column as Python values; a value that is not what its type says (broken UTF-8) becomes None."""
    column = table.column(name)
    try:
        values: list[Any] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        return [_value(item) for item in column]


def _value(item: Any) -> Any:
    try:
        return item.as_py()
    except UnicodeDecodeError:
        return None
