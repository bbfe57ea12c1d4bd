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

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from simdx.embedders import embed_texts, get_embedder
from simdx.errors import SimdxError
from simdx.methods import AnswerTable, Observations
from simdx.methods.material import check_text
from simdx.scale.blocks import ID, TEXT, Block, from_bytes, to_bytes
from simdx.scale.job import Job
from simdx.scale.storage import Place
from simdx.types import Float

if TYPE_CHECKING:
    import pyarrow as pa

ERROR, VECTOR = "error", "vector"
T = TypeVar("T")


class EmbedStage:
    """Texts to vectors. Made once per worker: loading an embedder is the slow part."""

    def __init__(self, embedder: str, allow_remote: bool) -> None:
        self._embedder = get_embedder(embedder, allow_remote=allow_remote)

    def __call__(self, block: Block) -> Block:
        if block.problem:
            return block
        return _guarded(block, self._embed)

    def _embed(self, table: pa.Table) -> pa.Table:
        texts = _column(table, TEXT)
        errors = [_why_not(text) for text in texts]
        good = [i for i, error in enumerate(errors) if error is None]

        def embed(rows: list[int]) -> Float:
            return embed_texts(self._embedder, [texts[i] for i in rows])

        vectors, failed = _by_parts(good, embed)
        errors = [failed.get(i, error) for i, error in enumerate(errors)]
        width = sum(self._embedder.blocks)
        whole = np.zeros((len(texts), width), dtype=np.float32)
        for rows, part in vectors:
            whole[rows] = part
        return _with_state(table, errors, whole)


class AnswerStage:
    """Vectors to answers. Made once per worker: fitting the method to the bank is the slow part."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._classifier = job.classifier()
        self._names = self._classifier.panel.names

    def __call__(self, block: Block) -> Block:
        if block.problem:
            return block
        return _guarded(block, self._answer)

    def _answer(self, table: pa.Table) -> pa.Table:
        texts, errors = _column(table, TEXT), _column(table, ERROR)
        vectors = _vectors(table)
        good = [i for i, error in enumerate(errors) if error is None]

        def answer(rows: list[int]) -> dict[str, list[Any]]:
            observations = Observations(tuple(texts[i] for i in rows), vectors[rows])
            columns = self._columns(self._classifier.infer_batch_observed(observations, self._job.prior))
            if self._job.decide:
                columns |= self._decisions(observations)
            return columns

        parts, failed = _by_parts(good, answer)
        errors = [failed.get(i, error) for i, error in enumerate(errors)]
        return self._table(table.column(ID), parts, errors)

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
        return pa.table(arrays).replace_schema_metadata({"simdx.labels": _json(list(self._names))})


def output_types(job: Job) -> dict[str, Any]:
    """The columns of an answer between its id and its error."""
    import pyarrow as pa

    number = pa.float64()
    types = {
        "label": pa.string(),
        "probability": number,
        "entropy_bits": number,
        "out_of_class": number,
        "typicality": number,
        "effective_simulations": number,
        "aleatoric_bits": number,
        "epistemic_bits": number,
    }
    if job.top is None:
        types["posterior"] = pa.list_(number)
    else:
        types |= {"top_labels": pa.list_(pa.string()), "top_probabilities": pa.list_(number)}
    if job.decide:
        types |= {
            "action": pa.string(),
            "reason": pa.string(),
            "alarm": pa.bool_(),
            "conformal_set": pa.list_(pa.string()),
        }
    return types


def write(block: Block, output: Place) -> dict[str, Any]:
    """Put a finished block in its place; what is handed back is small enough for the driver to count."""
    if block.problem:
        return {"name": block.name, "rows": 0, "failed": 0, "problem": block.problem}
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = from_bytes(block.table)
    failed = table.num_rows - table.column(ERROR).null_count
    metadata = {**(table.schema.metadata or {}), b"simdx.failed": str(failed).encode()}
    sink = pa.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    try:
        output.write(block.name, sink.getvalue().to_pybytes())
    except Exception as error:
        problem = f"could not be written ({type(error).__name__})"
        return {"name": block.name, "rows": 0, "failed": 0, "problem": problem}
    return {"name": block.name, "rows": table.num_rows, "failed": failed, "problem": ""}


# --------------------------------------------------------------------------- finding what failed


class _EveryRowFailed(Exception):
    pass


def _guarded(block: Block, step: Callable[[pa.Table], pa.Table]) -> Block:
    from threadpoolctl import threadpool_limits

    try:
        # One thread: how many a machine has must not change the order in which numbers are added.
        with threadpool_limits(1):
            return Block(block.name, to_bytes(step(from_bytes(block.table))))
    except _EveryRowFailed as error:
        return Block(block.name, problem=str(error))
    except Exception as error:
        return Block(block.name, problem=f"failed with {type(error).__name__}")


def _by_parts(
    rows: list[int], work: Callable[[list[int]], T]
) -> tuple[list[tuple[list[int], T]], dict[int, str]]:
    """`work` on all rows at once, or where that fails on each alone; and the errors of those that fail."""
    if not rows:
        return [], {}
    try:
        return [(rows, work(rows))], {}
    except Exception as error:
        if len(rows) == 1:
            return [], {rows[0]: _kind(error)}
    done: list[tuple[list[int], T]] = []
    failed: dict[int, str] = {}
    for row in rows:
        try:
            done.append(([row], work([row])))
        except Exception as error:
            failed[row] = _kind(error)
    if not done:
        raise _EveryRowFailed(f"every row failed, the first because it {failed[rows[0]]}")
    return done, failed


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


# --------------------------------------------------------------------------- tables


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


def _with_state(table: pa.Table, errors: list[str | None], vectors: Float) -> pa.Table:
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    return table.append_column(ERROR, pa.array(errors, type=pa.string())).append_column(
        VECTOR, pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    )


def _vectors(table: pa.Table) -> Float:
    column = table.column(VECTOR).combine_chunks()
    flat: Float = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
