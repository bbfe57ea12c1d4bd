"""Single-core rates for the cost model: embedding, engine, Parquet end to end, and bytes per row.

Processor time, one thread: on a shared machine the wall clock measures its other work.

    python benchmarks/scale.py --out benchmarks/results/scale.json
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyarrow as pa
import pyarrow.parquet as parquet
from threadpoolctl import threadpool_limits

from simdx.bank.files import packaged_bank
from simdx.classifier import Classifier
from simdx.embedders import embed_texts, get_embedder
from simdx.methods import Settings
from simdx.panels import load_source
from simdx.panels.load import PACKAGED
from simdx.scale.classify import classify_parquet
from simdx.scale.workers import Job, in_this_process


def seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def per_second(call: Callable[[], Any], count: int, repeats: int = 2) -> float:
    return count / min(seconds(call) for _ in range(repeats))


def of_panel(name: str, cases: int) -> dict[str, Any]:
    source = load_source(name)
    bank = packaged_bank(source)
    # Distinct texts of a real length: one simulation after another, each with a number of its own.
    texts = [f"{bank.texts[i % len(bank.texts)]} ({i})" for i in range(cases)]
    classifier = Classifier(name)
    observed = classifier.observe(texts)
    out: dict[str, Any] = {
        "labels": len(source.panel.names),
        "simulations": len(bank.texts),
        "words_per_text": sum(len(t.split()) for t in texts) / cases,
        "embedder": classifier.embedder.id,
        "embed_per_second": per_second(lambda: embed_texts(classifier.embedder, texts), cases),
        "answer_per_second": {},
    }
    warm = classifier.observe(texts[:64])
    for method in ("auto", "m-smc", "d-smc"):
        engine = classifier if method == "auto" else Classifier(name, method=method)
        engine.infer_batch_observed(warm)  # prior draws are made once per prior
        # Once: a classifier remembers the last batch, so a second time would be cheaper than it is.
        out["answer_per_second"][method] = cases / seconds(
            lambda engine=engine: engine.infer_batch_observed(observed)
        )
    # Another object: what is remembered of a batch does not count.
    batch = [f"{text} again" for text in texts]
    # Every column that a row of Parquet gets, by one call.
    columns = attrgetter("posterior", "second_order", "typicality")
    out["batch_per_second"] = cases / seconds(lambda: columns(classifier.infer_batch(batch)))
    job = Job.make(name, None, Settings())
    out["start_up_seconds"] = seconds(job.classifier)
    with tempfile.TemporaryDirectory() as folder:
        spent = {}
        for rows in (cases, 4 * cases):
            table = pa.table({"id": range(rows), "text": [texts[i % cases] for i in range(rows)]})
            parquet.write_table(table, f"{folder}/{rows}.parquet")
            spent[rows] = seconds(
                lambda rows=rows: classify_parquet(
                    job, f"{folder}/{rows}.parquet", f"{folder}/{rows}", in_this_process
                )
            )
        # The difference of two sizes: what a run pays once is not a rate.
        out["parquet_per_second"] = 3 * cases / (spent[4 * cases] - spent[cases])
        out["parquet_share_of_batch"] = out["parquet_per_second"] / out["batch_per_second"]
        out["bytes_in_per_row"] = Path(folder, f"{cases}.parquet").stat().st_size / cases
        out["bytes_out_per_row"] = sum(p.stat().st_size for p in Path(folder, str(cases)).iterdir()) / cases
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/scale.json"))
    parser.add_argument("--cases", type=int, default=4096)
    parser.add_argument("--panels", default=",".join(PACKAGED))
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    with threadpool_limits(1):
        panels = {name: of_panel(name, given.cases) for name in given.panels.split(",")}
        texts = packaged_bank(load_source("symptom-to-diagnosis")).texts[:64]
        minilm = get_embedder("minilm")
        embed_texts(minilm, texts[:4])
        minilm_rate = per_second(lambda: embed_texts(minilm, texts), len(texts), repeats=1)
    record = {
        "command": f"python benchmarks/scale.py --panels {given.panels} --cases {given.cases}",
        "commit": given.commit,
        "machine": f"{platform.machine()}, {_processor()}, processor time of one thread",
        "cases": given.cases,
        "panels": panels,
        "minilm_embed_per_second": minilm_rate,
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
