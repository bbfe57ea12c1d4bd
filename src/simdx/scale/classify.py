"""Many cases, Parquet in and Parquet out: cut, do what is not done yet, count, and say so last.

    _job.json        written first: what is computed, from which input, in blocks of how many rows
    part-….parquet   one per block, written whole or not at all, always under the same name
    _done.json       written last: every row is there once

A run that was stopped, by whatever, goes on when the same command is given again: blocks whose part is
there are not done again. A block done twice, because a worker died after writing it, is the same file.

A row that makes a step fail is found by trying the rows one by one; it keeps its place in the output with
its error, and the rest of the block is answered. Where *every* row fails, the cause is no row: the block
gets a problem, nothing is written, and another run tries it again. Errors name the kind of failure and
never quote a text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from simdx.scale.blocks import Block, ParquetSource, folder_at, write_whole
from simdx.types import Bank, Float, Panel, content_hash

JOB_FILE, DONE_FILE = "_job.json", "_done.json"
NAMED_FAILURES = 20
NUMBERS = (
    "probability", "entropy_bits", "out_of_class", "typicality", "effective_simulations", "aleatoric_bits",
    "epistemic_bits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """A classifier to be, the prior it answers under, and how much of each answer is kept.

    It says nothing about where it is computed: it travels to every worker, with panel and bank themselves.
    """

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
            "recipe": recipe_of(self.settings.method), "panel": classifier.panel.name,
            "labels": list(classifier.outcomes), "bank": classifier.bank.identity,
            "embedder": classifier.embedder.id, "settings": asdict(self.settings),
            "prior": self.prior.probabilities.tolist(), "alpha0": self.prior.alpha0,
            "top": self.top, "decide": self.decide,
        }  # fmt: skip


def digest(description: dict[str, Any]) -> str:
    return content_hash("scale job", json.dumps(description, sort_keys=True))


# --------------------------------------------------------------------------- the run

Step = dict[str, Any]  # what one step of a block hands to the next, as Ray's rows can hold it


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
    source: ParquetSource,
    output: str,
    execute: Callable[[Worker, list[Block]], Iterable[Step]],
    *,
    block_rows: int = 2048,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> JobSummary:
    """Answer every row of the Parquet files of `source` into the folder `output`.

    `execute` does blocks with a worker and hands over a report of each, in any order (`cluster`).
    """
    started = time.monotonic()
    blocks, input_digest = source.cut(block_rows)
    classifier = job.classifier()  # refuses what cannot be answered before anything is written
    if job.top is not None and not 1 <= job.top <= len(classifier.outcomes):
        raise BadInput(f"--top is {job.top}: give a number from 1 to {len(classifier.outcomes)}")
    columns = {"text": source.text, "id": source.id}
    described = job.describe(classifier)
    described |= {"input": input_digest, "block_rows": block_rows, "columns": columns}
    folder = folder_at(output)
    _open_output(folder, output, described)
    before = {block.name for block in blocks} & _parts(folder)
    total, done = sum(b.rows for b in blocks), sum(b.rows for b in blocks if b.name in before)
    watch(done, total)
    problems: list[str] = []
    worker = Worker(job, job.embedder or classifier.panel.embedder, source, output)
    if left := [block for block in blocks if block.name not in before]:
        for report in execute(worker, left):
            problems += [report["problem"]] if report["problem"] else []
            done += report["rows"]
            watch(done, total)
    for left_behind in folder.glob(".*.part"):  # by killed writers
        folder.rm_file(left_behind)
    failures, failed = _counted(output, blocks, problems)
    closing = {"job": digest(described), "rows": total, "failed": failed, "blocks": len(blocks)}
    write_whole(folder, DONE_FILE, json.dumps(closing, indent=1).encode())
    seconds = round(time.monotonic() - started, 3)
    return JobSummary(total, total - failed, failed, failures, len(blocks), len(before), seconds, output)


def _open_output(folder: Any, output: str, described: dict[str, Any]) -> None:
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


def _parts(folder: Any) -> set[str]:
    return {path for path in folder.find("") if path.endswith(".parquet")}


def _counted(output: str, blocks: list[Block], problems: list[str]) -> tuple[list[dict[str, str]], int]:
    """Every block is there once and whole; the first failed rows and the number of all."""
    from pyarrow import parquet

    folder, rows = folder_at(output), {block.name: block.rows for block in blocks}
    parts = _parts(folder)
    if missing := rows.keys() - parts:
        first = problems[0] if problems else "its worker did not report"
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
            told = parquet.ParquetFile(file).read(columns=["id", "error"])
        if len(told) != rows[name]:
            raise RunFailed(f"'{name}' does not have the expected rows: remove it and run again")
        told = told.filter(told.column("error").is_valid())
        failed += len(told)
        for row in told.slice(0, NAMED_FAILURES - len(named)).to_pylist():
            named.append({"id": str(row["id"]), "error": row["error"]})
    return named, failed


# --------------------------------------------------------------------------- what a worker does with a block


class BlockFailed(Exception):
    """A whole block could not be worked on: nothing of it is written, and another run tries it again."""


@dataclass
class Worker:
    """The steps of a block. Embedder and classifier are loaded when first used, and once: loading is slow.

    The row group read last is kept for the blocks that follow.
    """

    job: Job
    embedder: str
    source: ParquetSource
    output: str
    _held: tuple[tuple[str, int], Any] | None = None

    @cached_property
    def _embedder(self) -> Any:
        return get_embedder(self.embedder, allow_remote=self.job.settings.allow_remote)

    @cached_property
    def _classifier(self) -> Classifier:
        return self.job.classifier()

    def do(self, block: Block) -> Step:
        return self.answer(self.embed(block._asdict()))

    def embed(self, step: Step) -> Step:
        """The rows of a block, where one that is not text has an error, and the vectors of the others."""
        import pyarrow as pa

        block, sink = Block(**step), pa.BufferOutputStream()
        try:
            with _problems("could not be read ({})"):  # damaged bytes, or a store that is out of reach
                table = self._rows_of(block)
            with _problems():
                texts = _values(table.column("text"))
                wrong = [_why_not(text) for text in texts]
                found = _by_rows(wrong, lambda rows: embed_texts(self._embedder, [texts[i] for i in rows]))
                errors = [one if isinstance(one, str) else None for one in found]
                vectors = np.array([one for one in found if not isinstance(one, str)], np.float32)
                table = table.append_column("error", pa.array(errors, pa.string()))
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
        except BlockFailed as error:
            return {"name": block.name, "table": b"", "vectors": b"", "problem": str(error)}
        told = sink.getvalue().to_pybytes()
        return {"name": block.name, "table": told, "vectors": vectors.tobytes(), "problem": ""}

    def answer(self, step: Step) -> Step:
        """Answer an embedded block and put the answers in their place: rows written, or the problem."""
        import pyarrow as pa
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        try:
            if step["problem"]:
                raise BlockFailed(step["problem"])
            with _problems():
                table = pa.ipc.open_stream(step["table"]).read_all()
                answers = self._answered(table, np.frombuffer(step["vectors"], np.float32))
                parquet.write_table(answers, sink, compression="zstd")
            with _problems("could not be written ({})"):
                write_whole(folder_at(self.output), step["name"], sink.getvalue().to_pybytes())
        except BlockFailed as error:
            return {"rows": 0, "problem": str(error)}
        return {"rows": len(answers), "problem": ""}

    def _rows_of(self, block: Block) -> Any:
        import pyarrow as pa

        place = block.path, block.row_group
        if self._held is None or self._held[0] != place:
            self._held = place, self.source.row_group(*place)
        table = self._held[1].slice(block.start, block.rows)
        if self.source.id is not None:
            return table
        prefix = block.name.removeprefix("part-").rpartition("-")[0]
        return table.add_column(0, "id", pa.array([f"{prefix}:{block.start + i}" for i in range(block.rows)]))

    def _answered(self, table: Any, vectors: Float) -> Any:
        import pyarrow as pa

        texts, errors = _values(table.column("text")), table.column("error").to_pylist()
        vector_of = np.cumsum([error is None for error in errors]) - 1
        vectors = vectors.reshape(max(1, 1 + vector_of[-1]), -1)
        found = _by_rows(
            errors,
            lambda rows: self._rows(Observations(tuple(texts[i] for i in rows), vectors[vector_of[rows]])),
        )
        rows = [{"error": one} if isinstance(one, str) else one for one in found]
        names = json.dumps(list(self._classifier.outcomes), ensure_ascii=False)
        schema = pa.schema(_column_types(self.job), metadata={"simdx.labels": names})
        return pa.Table.from_pylist(rows, schema).add_column(0, "id", table.column("id"))

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
    return {**types, "error": words}


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
