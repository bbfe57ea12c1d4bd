"""What a run computes, what a worker does with a block (embed, answer, write), and worker processes here.

A job is everything that decides an answer and nothing about where it is computed: it travels to every worker
and holds panel and bank themselves. Its digest is written beside the answers: a later run in the same folder
goes on only with the same job.

A row that makes a step fail is found by trying the rows one by one; it keeps its place in the output with
its error, and the rest of the block is answered. Where *every* row fails, the cause is no row: the block
gets a problem, nothing is written, and another run tries it again. Errors name the kind of failure and
never quote a text.
"""

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank, read_bank
from simdx.classifier import Classifier
from simdx.disk import CannotWrite
from simdx.embedders import embed_texts, get_embedder
from simdx.errors import BadInput, RunFailed, SimdxError
from simdx.methods import Observations
from simdx.methods.fitted import Settings, recipe_of
from simdx.methods.panel_data import check_text
from simdx.panels import load_panel, load_source
from simdx.panels.load import PACKAGED
from simdx.scale.blocks import ID, TEXT, Reader, RowColumns, RowSpan, folder_at, write_whole
from simdx.types import Bank, Panel, content_hash

ERROR, VECTOR = "error", "vector"
NUMBERS = (
    "probability", "entropy_bits", "out_of_class", "typicality", "effective_simulations", "aleatoric_bits",
    "epistemic_bits",
)  # fmt: skip
TRIES = 3  # of the pool, when processes in it are killed

Report = dict[str, Any]  # of a block: "name", "rows" written, "problem" or ""


@dataclass(frozen=True, slots=True)
class Job:
    """A classifier to be, the prior it answers under, and how much of each answer is kept."""

    panel: str | Panel  # a packaged panel by name, any other by value
    bank: Bank | None
    settings: Settings
    embedder: str | None
    prior: Prior
    top: int | None = None  # keep the likeliest labels only; None: the whole posterior
    decide: bool = False  # also alarm, conformal set and action, at several times the cost

    @classmethod
    def make(cls, panel: str, bank: Path | None, settings: Settings, **more: Any) -> Self:
        """From the names and paths of this machine; `more` are the other fields, the prior uniform."""
        found = load_panel(panel)
        if settings.engine == "live":
            raise BadInput("a run over many cases works from a bank: use --engine exact or particles")
        own = read_bank(bank, found) if bank is not None else None
        if panel not in PACKAGED and own is None:
            own = packaged_bank(load_source(panel))
        defaults: dict[str, Any] = {"embedder": None, "prior": Prior.uniform(len(found.names))}
        return cls(panel if panel in PACKAGED else found, own, settings, **(defaults | more))

    def classifier(self) -> Classifier:
        """The classifier this job describes, on whichever machine this is."""
        return Classifier(self.panel, self.bank, embedder=self.embedder, **asdict(self.settings))

    def describe(self, classifier: Classifier) -> dict[str, Any]:
        """The job in words and hashes; two jobs with equal descriptions give equal answers."""
        return {
            "recipe": recipe_of(self.settings.method),
            "panel": classifier.panel.name,
            "labels": list(classifier.outcomes),
            "bank": classifier.bank.identity,
            "embedder": classifier.embedder.id,
            "settings": asdict(self.settings),
            "prior": self.prior.probabilities.tolist(),
            "alpha0": self.prior.alpha0,
            "top": self.top,
            "decide": self.decide,
        }


def digest(description: dict[str, Any]) -> str:
    return content_hash("scale job", json.dumps(description, sort_keys=True))


class BlockFailed(Exception):
    """A whole block could not be worked on: nothing of it is written, and another run tries it again."""


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

    @cached_property
    def _read(self) -> Reader:
        return Reader(self.source, self.columns)

    def do(self, span: RowSpan) -> Report:
        """All steps of a block."""
        try:
            return self.written(span.name, self.embedded(span))
        except BlockFailed as error:
            return report(span.name, problem=str(error))

    def embedded(self, span: RowSpan) -> Any:
        """The rows of a block as a table with their vectors; one that is not text has an error instead."""
        import pyarrow as pa

        with _problems("could not be read ({})"):  # damaged bytes, or a store that is out of reach
            table = self._read(span)
        with _problems():
            texts = _values(table.column(TEXT))
            wrong = [_why_not(text) for text in texts]
            found = _by_rows(wrong, lambda rows: embed_texts(self._embedder, [texts[i] for i in rows]))
            errors = pa.array([one if isinstance(one, str) else None for one in found], pa.string())
            vectors = [None if isinstance(one, str) else np.asarray(one, np.float32) for one in found]
            table = table.append_column(ERROR, errors)
            return table.append_column(VECTOR, pa.array(vectors, pa.list_(pa.float32())))

    def written(self, name: str, table: Any) -> Report:
        """Answer an embedded block and put the answers in their place."""
        import pyarrow as pa
        from pyarrow import parquet

        with _problems():
            answers = self._answered(table)
            sink = pa.BufferOutputStream()
            parquet.write_table(answers, sink, compression="zstd")
        with _problems("could not be written ({})"):
            write_whole(folder_at(self.output), name, sink.getvalue().to_pybytes())
        return report(name, len(answers))

    def _answered(self, table: Any) -> Any:
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
        rows: list[dict[str, Any]] = []
        for i, labels in enumerate(order):
            row = {name: column[i] for name, column in numbers.items() if column is not None}
            row |= {"label": names[labels[0]], "probability": ranked[i, 0], "posterior": batch.posterior[i]}
            row |= {"top_labels": [names[j] for j in labels], "top_probabilities": ranked[i]}
            rows.append(row)  # the schema keeps those that the job asks for
        if self.job.decide:
            answers = self._classifier.infer_observed(seen, self.job.prior, explain=False)
            for row, a in zip(rows, answers, strict=True):
                row |= {"action": a.decision.action, "reason": a.decision.reason}
                row |= {"alarm": a.alarm and a.alarm.flag, "conformal_set": a.conformal_set}
        return rows


def report(name: str, rows: int = 0, problem: str = "") -> Report:
    return {"name": name, "rows": rows, "problem": problem}


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


@contextmanager
def _problems(said: str = "failed with {}") -> Iterator[None]:
    """One thread, because how many a machine has must not change the order in which numbers are added; and a
    failure by its kind, because its words may quote a text."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            yield
    except BlockFailed:
        raise
    except Exception as error:
        cause = error.__context__ if isinstance(error, CannotWrite) else error
        raise BlockFailed(said.format(type(cause).__name__)) from None


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
                made.append(f"failed with {type(error).__name__}")
        if len(rows) > 1 and all(isinstance(one, str) for one in made):
            raise BlockFailed(f"every row failed, the first because it {made[0]}") from None
    for row, one in zip(rows, made, strict=True):
        found[row] = one
    return found


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
        left = dict.fromkeys(spans)
        for _ in range(TRIES):
            # Started anew, not forked: threads of libraries that are loaded here would be lost in a fork.
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.count, fresh, _start, (worker,)) as pool:
                asked = {pool.submit(_do, span): span for span in left}
                try:
                    for done in as_completed(asked):
                        report = done.result()
                        del left[asked[done]]
                        yield report
                except BrokenProcessPool:
                    continue
            return
        raise RunFailed(
            f"worker processes ended {TRIES} times, perhaps for lack of memory: run the same "
            "command again with fewer --cpus; finished blocks are kept"
        )


def in_this_process(worker: BlockWorker, spans: list[RowSpan]) -> Iterator[Report]:
    """The executor without other processes."""
    return map(worker.do, spans)


_HERE: list[BlockWorker] = []  # the worker of this process


def _start(worker: BlockWorker) -> None:
    threading.Thread(target=_follow, daemon=True).start()
    _HERE.append(worker)


def _do(span: RowSpan) -> Report:
    return _HERE[0].do(span)


def _follow() -> None:
    """End this process once its parent is gone: a killed run leaves no workers."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)
