"""Parquet in, Parquet out in one process: nothing lost, nothing twice, poisoned rows named, runs resumed."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.embedders.base import HashingEmbedder
from simdx.errors import BadInput, RunFailed
from simdx.methods import Settings
from simdx.scale.blocks import ParquetSource, folder_at, write_whole
from simdx.scale.classify import DONE_FILE, Job, JobSummary, classify_parquet
from simdx.scale.cluster import InProcesses, in_this_process
from simdx.types import Bank
from tests.scale.conftest import answers, case_texts, pa, parquet, wait_for_parts, write_file


def run(job: Job, source: object, out: object, how: Any = in_this_process, **more: Any) -> JobSummary:
    source = source if isinstance(source, ParquetSource) else ParquetSource(str(source))
    return classify_parquet(job, source, str(out), how, **more)


def posteriors(table: Any) -> np.ndarray:
    return np.array(table.column("posterior").to_pylist())


def test_every_row_is_answered_as_the_classifier_answers_it(job: Job, cases, tmp_path: Path) -> None:
    source, texts = cases
    summary = run(job, source, tmp_path / "out", block_rows=32)
    table = answers(tmp_path / "out")
    assert table.column("id").to_pylist() == list(range(130))
    assert (summary.rows, summary.answered, summary.failed) == (130, 130, 0)
    direct = job.classifier().infer_batch(texts)
    # Another batch shape rounds matrix products differently: single precision, hence 1e-5.
    assert np.abs(posteriors(table) - direct.posterior).max() < 1e-5
    # A p-value against 36 simulations moves in steps of 1/37; rounding can cross one.
    assert np.allclose(table.column("typicality").to_numpy(), direct.typicality, atol=1.01 / 37)
    names = job.classifier().outcomes
    assert table.column("label").to_pylist() == [names[i] for i in direct.posterior.argmax(1)]
    assert json.loads(table.schema.metadata[b"simdx.labels"]) == list(names)


def test_prior_top_and_decisions(job: Job, cases, tmp_path: Path) -> None:
    sure = Prior(np.array([0.0, 1.0, 0.0]), 3.0)
    other = replace(job, prior=sure, top=2, decide=True)
    run(other, cases[0], tmp_path / "out")
    table = answers(tmp_path / "out")
    assert set(table.column("label").to_pylist()) == {"river"}
    assert all(len(p) == 2 and p[0] >= p[1] for p in table.column("top_probabilities").to_pylist())
    assert "posterior" not in table.column_names
    assert set(table.column("action").to_pylist()) <= {"accept", "likely", "test", "review"}


def test_poisoned_rows_are_named_and_the_rest_is_answered(job: Job, toy_bank, tmp_path: Path) -> None:
    texts: list[bytes | None] = [text.encode() for text in case_texts(toy_bank, 60)]
    texts[3], texts[17], texts[40], texts[50] = None, b"  \n", b"x" * 2_100_000, b"\xff\xfe\xfa"
    raw = pa.array(texts, type=pa.binary())
    broken = pa.StringArray.from_buffers(60, *raw.buffers()[1:], raw.buffers()[0])  # one is no UTF-8
    (tmp_path / "in").mkdir()
    ids = [f"case-{i}" for i in range(60)]
    parquet.write_table(pa.table({"id": ids, "text": broken}), tmp_path / "in" / "a.parquet")
    summary = run(job, tmp_path / "in", tmp_path / "out")
    assert (summary.rows, summary.failed) == (60, 4)
    poisoned = {"case-3", "case-17", "case-40", "case-50"}
    assert {f["id"] for f in summary.failures} == poisoned
    for row in answers(tmp_path / "out").to_pylist():
        assert (row["error"] is not None) == (row["label"] is None) == (row["posterior"] is None)
        assert (row["error"] is not None) == (row["id"] in poisoned)


def test_a_row_that_breaks_the_embedder_is_named_and_a_fault_of_every_row_is_no_row_s(
    job: Job, cases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broken = HashingEmbedder.embed_batch, ["n77"]
    job.classifier()  # the bank is embedded before the fault

    def fragile(self: HashingEmbedder, texts: list[str]) -> Any:
        if any(text.split()[-1].startswith(broken[0]) for text in texts):
            raise ValueError(f"cannot embed {texts}")
        return real(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_batch", fragile)
    summary = run(job, cases[0], tmp_path / "out", block_rows=20)
    assert [(f["id"], f["error"]) for f in summary.failures] == [("77", "failed with ValueError")]
    assert summary.answered == 129
    broken[0], down = "n", tmp_path / "down"
    with pytest.raises(RunFailed, match="blocks are not done"):
        run(job, cases[0], down)
    assert not list(down.glob("*.parquet"))
    assert not (down / DONE_FILE).exists()
    broken[0] = "nothing"
    assert run(job, cases[0], down).failed == 0


def test_a_stopped_run_goes_on_where_it_was(job: Job, cases, tmp_path: Path) -> None:
    def stops(*work: Any) -> Iterator[dict[str, Any]]:
        for i, report in enumerate(in_this_process(*work)):
            yield report
            if i == 2:
                raise KeyboardInterrupt

    def never(*work: Any) -> Iterator[dict[str, Any]]:
        raise AssertionError("there was nothing left to do")

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(job, cases[0], out, stops, block_rows=16)
    before = {p.name: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    assert len(before) == 3
    assert not (out / DONE_FILE).exists()
    assert run(job, cases[0], out, block_rows=16).blocks_before == 3
    assert all((out / name).stat().st_mtime_ns == when for name, when in before.items())
    assert answers(out).column("id").to_pylist() == list(range(130))
    run(job, cases[0], tmp_path / "whole", block_rows=16)
    assert answers(out).equals(answers(tmp_path / "whole"))
    again = run(job, cases[0], out, never, block_rows=16)
    assert again.blocks_before == again.blocks


def test_another_job_or_input_is_refused(job: Job, cases, tmp_path: Path) -> None:
    source, texts = cases
    out = tmp_path / "out"
    run(job, source, out)
    with pytest.raises(BadInput, match="another settings"):
        run(replace(job, settings=Settings(seed=1)), source, out)
    with pytest.raises(BadInput, match="another block_rows"):
        run(job, source, out, block_rows=3)
    write_file(source / "c.parquet", [999], texts[:1])
    with pytest.raises(BadInput, match="another input"):
        run(job, source, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        run(job, source, tmp_path / "full")


def test_inputs_that_cannot_be_worked_on(job: Job, cases, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.parquet").write_bytes(b"PAR1 no")
    for given, source, more, said in (
        (job, tmp_path / "nowhere", {}, "no Parquet file"),
        (job, ParquetSource(str(cases[0]), "note"), {}, "no column 'note'"),
        (replace(job, top=4), cases[0], {}, "from 1 to 3"),
        (job, tmp_path / "bad", {}, "not a Parquet file"),
        (job, "nosuch://bucket/x", {}, "fsspec"),
    ):
        with pytest.raises(BadInput, match=said):
            run(given, source, out, **more)
    assert not out.exists()


def test_a_damaged_row_group_leaves_the_rest_done(job: Job, cases, tmp_path: Path) -> None:
    source, _ = cases
    path = source / "a.parquet"
    chunk = parquet.ParquetFile(path).metadata.row_group(1).column(1)
    data = bytearray(path.read_bytes())
    whole = bytes(data)
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(bytes(data))
    with pytest.raises(RunFailed, match="could not be read"):
        run(job, source, tmp_path / "out", block_rows=50)
    path.write_bytes(whole)
    summary = run(job, source, tmp_path / "out", block_rows=50)
    assert summary.blocks_before == 2
    assert answers(tmp_path / "out").column("id").to_pylist() == list(range(130))


def test_places_that_are_no_folders_of_this_machine(job: Job, cases, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(f"{cases[0]}/", "/scale-test/in/", recursive=True)
    try:
        summary = run(job, "memory://scale-test/in", "memory://scale-test/out")
        assert summary.rows == 130
        with memory.open("/scale-test/out/" + DONE_FILE) as file:
            assert json.load(file)["rows"] == 130
    finally:
        memory.rm("/scale-test", recursive=True)


def test_blocks_depend_on_the_input_and_not_on_its_place(job: Job, cases, tmp_path: Path) -> None:
    run(job, ParquetSource(str(cases[0]), id=None), tmp_path / "out")  # rows are numbered
    assert len(set(parquet.read_table(tmp_path / "out").column("id").to_pylist())) == 130
    spans, digest = ParquetSource(str(cases[0])).cut(16)
    cases[0].rename(tmp_path / "elsewhere")
    assert ParquetSource(str(tmp_path / "elsewhere")).cut(16) == (spans, digest)
    assert sum(span.rows for span in spans) == 130


def test_a_part_is_whole_or_no_row_and_has_the_modes_that_the_user_gives_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kinds() -> list[bool]:
        return [path.name == "part-0.parquet" for path in tmp_path.iterdir()]

    before = os.umask(0o077)
    try:
        with monkeypatch.context() as killed:  # between the last byte and the name: nothing is tidied
            killed.setattr(os, "replace", lambda *_: None)
            write_whole(folder_at(str(tmp_path)), "part-0.parquet", b"ids and answers")
        assert kinds() == [False]
        assert not list(tmp_path.glob("part-*"))  # hidden, so that no reader takes it
        write_whole(folder_at(str(tmp_path)), "part-0.parquet", b"ids and answers")
    finally:
        os.umask(before)
    assert sorted(kinds()) == [False, True]
    assert stat.S_IMODE((tmp_path / "part-0.parquet").stat().st_mode) == 0o600


@pytest.mark.slow
def test_killed_processes_lose_and_double_nothing(job: Job, toy_bank: Bank, tmp_path: Path) -> None:
    """kill -9 on two processes: a worker in mid-run, then the run itself; the same command ends it."""
    source, out, alone = tmp_path / "in", tmp_path / "out", tmp_path / "alone"
    write_file(source / "a.parquet", range(800), case_texts(toy_bank, 800), row_group=600)
    arguments = [sys.executable, "-m", "tests.scale.run_job", str(source), str(out), "processes"]
    said = tmp_path / "said"
    with said.open("wb") as file:
        driver = subprocess.Popen(arguments, stdout=file, stderr=file)
    try:
        wait_for_parts(out, 10, driver)
        workers = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        done = len(list(out.glob("part-*.parquet")))
        os.kill(int(workers[-1]), signal.SIGKILL)
        wait_for_parts(out, done + 10, driver)  # it goes on without the worker
    except AssertionError:
        pytest.fail(f"the run ended by itself: {said.read_text()[-2000:]}")
    finally:
        driver.kill()
        driver.wait()
    assert not (out / DONE_FILE).exists()
    summary = run(job, source, out, InProcesses(2), block_rows=5)
    assert (summary.rows, summary.failed) == (800, 0)
    assert summary.blocks_before >= 10
    run(job, source, alone, block_rows=5)
    found, expected = answers(out), answers(alone)
    assert found.column("id").to_pylist() == expected.column("id").to_pylist() == sorted(range(800))
    np.testing.assert_allclose(posteriors(found), posteriors(expected), rtol=0, atol=1e-9)
