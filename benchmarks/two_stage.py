"""The two-stage engine against the exact one on large label sets: error and time.

There is no bank of ten thousand diagnoses here, so one is made: labels in 22 chapters, vectors whose
within-label and between-label cosines, and whose spectrum, are those of a packaged bank in the centred
space of an embedder. Cases are drawn like simulations. Times are
processor time of one thread.

    python benchmarks/two_stage.py --out benchmarks/results/two_stage.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.two_stage import ByClassMeans, LargeBank, two_stage
from simdx.bank.files import packaged_bank
from simdx.embedders import get_embedder
from simdx.methods import Material
from simdx.methods.two_stage import BySimulations, FaissNeighbours
from simdx.panels import load_source
from simdx.types import Float, Int

CHAPTERS = 22
KEPT_BY_HARD = 64  # simulations the hard kernel keeps: T is chosen for it
MODEL = "symptom-to-diagnosis"
EMBEDDERS = ("wordllama", "minilm")


def model_geometry(embedder: str) -> tuple[float, float, Float]:
    """(mean cosine within a label, between labels, spectrum of the residuals) of a packaged bank."""
    source = load_source(MODEL)
    bank = packaged_bank(source)
    space = Space.fit(Material.prepare(source.panel, bank, get_embedder(embedder)).embedded, centre=True)
    cosine = space.bank @ space.bank.T
    same = space.label_index[:, None] == space.label_index[None, :]
    off = ~np.eye(len(cosine), dtype=bool)
    residual = space.bank - space.class_means[space.label_index]
    spectrum = np.linalg.svd(residual, compute_uv=False)
    return float(cosine[same & off].mean()), float(cosine[~same].mean()), spectrum / np.linalg.norm(spectrum)


def make_bank(
    rng: np.random.Generator, embedder: str, labels: int, per_label: int, cases: int
) -> tuple[Float, Int, Float, Int]:
    within, _, spectrum = model_geometry(embedder)
    shared = 0.5 * within  # half of what a label's texts share is shared by its chapter
    d = len(spectrum)

    def unit(rows: Float) -> Float:
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    chapter = unit(rng.normal(size=(CHAPTERS, d)) * spectrum)
    label = unit(rng.normal(size=(labels, d)) * spectrum)
    centre = np.sqrt(shared) * chapter[rng.integers(CHAPTERS, size=labels)] + np.sqrt(within - shared) * label

    def draw(index: Int) -> Float:
        out = np.empty((len(index), d), dtype=np.float32)
        for start in range(0, len(index), 50_000):
            part = index[start : start + 50_000]
            noise = unit(rng.normal(size=(len(part), d)) * spectrum)
            out[start : start + 50_000] = unit(centre[part] + np.sqrt(1 - within) * noise)
        return out

    index = np.repeat(np.arange(labels), per_label)
    own = rng.integers(labels, size=cases)
    return draw(index), index, draw(own), own


def compare(ours: Float, reference: Float, own: Int) -> dict[str, float]:
    distance = 0.5 * np.abs(ours - reference).sum(axis=1)
    top = reference.argmax(axis=1)
    return {
        "total_variation_mean": float(distance.mean()),
        "total_variation_p99": float(np.quantile(distance, 0.99)),
        "top1_agreement": float(np.mean(ours.argmax(axis=1) == top)),
        "accuracy": float(np.mean(ours.argmax(axis=1) == own)),
        "accuracy_exact": float(np.mean(top == own)),
        "mean_top_probability_exact": float(reference.max(axis=1).mean()),
    }


def timed(call: Any, cases: int) -> tuple[Any, float]:
    # Processor time of the one thread: the wall clock of a shared machine measures its other work.
    started = time.process_time()
    result = call()
    return result, 1e6 * (time.process_time() - started) / cases


def one_size(embedder: str, labels: int, per_label: int, cases: int) -> dict[str, Any]:
    rng = np.random.default_rng([2024, labels])
    bank, index, z, own = make_bank(rng, embedder, labels, per_label, cases)
    n = len(index)
    populations = round(np.log2(n / KEPT_BY_HARD))
    prior = Prior.uniform(labels)
    soft, soft_us = timed(lambda: exact.multinomial(bank, index, labels, z, prior).probabilities, cases)
    hard, hard_us = timed(
        lambda: (
            exact.multinomial(
                bank, index, labels, z, prior, kernel="hard", populations=populations
            ).probabilities
        ),
        cases,
    )
    started = time.process_time()
    search = FaissNeighbours(bank)
    built = time.process_time() - started
    large = LargeBank.prepare(bank, index, labels)
    truth = np.argpartition(-(z[:50] @ bank.T), 512, axis=1)[:, :512]
    found = search.nearest(z[:50], 512)[0]
    recall = float(np.mean([len(set(f) & set(t)) / 512 for f, t in zip(found, truth, strict=True)]))
    means, simulations = ByClassMeans(large), BySimulations(large, search)
    rows = []
    for kernel, stage_one, shortlisted, far_field in (
        ("soft", means, 32, True), ("soft", means, 128, True), ("soft", means, 512, True),
        ("soft", means, 128, False), ("soft", simulations, 128, True), ("soft", simulations, 128, False),
        ("hard", means, 128, False), ("hard", means, 512, False), ("hard", simulations, 128, False),
    ):  # fmt: skip

        def answer(
            kernel: Any = kernel, stage_one: Any = stage_one, count: int = shortlisted, far: bool = far_field
        ) -> Float:
            return two_stage(
                large, stage_one, z, prior, kernel=kernel, shortlisted=count, far_field=far,
                populations=populations,
            ).probabilities  # fmt: skip

        ours, ours_us = timed(answer, cases)
        rows.append(
            {
                "kernel": kernel,
                "stage_one": "class means" if stage_one is means else "faiss over simulations",
                "shortlisted": shortlisted,
                "far_field": far_field,
                "us_per_case": ours_us,
                "times_faster": (soft_us if kernel == "soft" else hard_us) / ours_us,
                **compare(ours, soft if kernel == "soft" else hard, own),
            }
        )
        print(labels, json.dumps(rows[-1]), flush=True)
    return {
        "geometry": embedder, "labels": labels, "per_label": per_label, "simulations": n,
        "dimensions": bank.shape[1],
        "cases": cases, "populations_hard": populations, "exact_soft_us": soft_us,
        "exact_hard_us": hard_us, "rows": rows,
        "faiss": {"cells": search.cells, "probes": search.probes, "recall_at_512": recall, "seconds": built},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/two_stage.json"))
    parser.add_argument("--sizes", default="1000x100,10000x50")
    parser.add_argument("--cases", type=int, default=256)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    import faiss
    from threadpoolctl import threadpool_limits

    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        sizes = [
            one_size(embedder, *(int(x) for x in size.split("x")), given.cases)
            for embedder in EMBEDDERS
            for size in given.sizes.split(",")
        ]
    record = {
        "command": f"python benchmarks/two_stage.py --sizes {given.sizes} --cases {given.cases}",
        "commit": given.commit,
        "machine": f"{platform.machine()}, processor time of one thread",
        "python": platform.python_version(),
        "faiss": faiss.__version__,
        "geometry": {
            "bank": MODEL,
            **{e: dict(zip(("within", "between"), model_geometry(e)[:2], strict=True)) for e in EMBEDDERS},
        },
        "bandwidth": 0.05,
        "sizes": sizes,
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
