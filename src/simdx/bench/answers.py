"""From a text to an answer: what a user waits for, beside the same work done by others, in one run.

cold        `simdx classify` of one text as a process of its own, compiled panel and all;
            `cold_both`: with MiniLM beside the default embedder, its load included, where its weights are
single      one text, numbers alone (`infer_batch`); explained: one text, whole answer (`infer`)
batch       10,000 windows of 15 words of the bank's texts, and 1,000 whole cases of the oral benchmark
floor       what no such answer can do without: the embedding and the bare products with the bank
sklearn     scikit-learn's TF-IDF of the same character n-grams with a logistic regression, on the same texts
minilm      MiniLM with a logistic regression, as SetFit ends, where its weights are
quality     single and batch with MiniLM as the second expert

Processor time of this process, the least of a few repeats; only `cold_wall_s` is time on the clock.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdx.classifier import Classifier
from simdx.errors import RunFailed
from simdx.methods.fitted import CHUNK
from simdx.methods.recipe import Recipe
from simdx.models.registry import is_installed
from simdx.types import Bank

PANEL, BOTH = "oral-lesions", "wordllama+minilm"
CASE = (
    "A soft bluish swelling of the lower lip that comes and goes. It has been there for three weeks. No pain."
)
WORDS = 15  # of a short text
MINILM_TEXTS = 64


def run(
    *, short: int = 10_000, long: int = 1_000, cold: int = 3, repeats: int = 3, panel: str = PANEL
) -> dict[str, Any]:
    from simdx.datasets import load_oral

    minilm = is_installed("minilm")
    alone = cold_start(panel, times=cold)
    both = cold_start(panel, "--embedder", BOTH, times=cold) if minilm else None
    began = time.process_time()
    classifier = Classifier(panel)
    load_s = time.process_time() - began
    first_ms = 1e3 * least(lambda _: classifier.infer(CASE), 1)
    oral = load_oral().cases.texts
    texts, cases = windows(classifier.bank, short), [oral[i % len(oral)] for i in range(long)]
    batch = least(lambda i: classifier.infer_batch(texts), repeats) / short
    split, floor = parts_of_an_answer(classifier, texts, repeats)
    return {
        "cold_cpu_s": alone["cpu_s"],
        "cold_wall_s": alone["wall_s"],
        "cold_peak_mb": alone["peak_mb"],
        "cold_both_cpu_s": both and both["cpu_s"],
        "cold_both_peak_mb": both and both["peak_mb"],
        "load_s": round(load_s, 4),
        "first_ms": round(first_ms, 2),
        "single_ms": round(1e3 * per_call(lambda i: classifier.infer_batch([f"{CASE} {i}"])), 3),
        "explained_ms": round(1e3 * per_call(lambda i: classifier.infer(f"{CASE} {i}")), 3),
        "batch_us": round(1e6 * batch, 1),
        "long_us": round(1e6 * least(lambda i: classifier.infer_batch(cases), repeats) / long, 1),
        "floor_us": round(1e6 * floor, 1),
        "ratio": round(batch / floor, 2),
        **{f"{name}_us": round(1e6 * seconds, 1) for name, seconds in split.items()},
        **by_scikit_learn(classifier.bank, texts, cases, repeats),
        **by_minilm(panel, texts[:MINILM_TEXTS], repeats, minilm),
        "texts": {"short": short, "long": long, "words": WORDS},
        "panel": panel,
        "cores": os.cpu_count(),
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
    }


def least(call: Callable[[int], object], repeats: int) -> float:
    """Seconds of processor time of the fastest of some calls."""
    found = []
    for i in range(repeats):
        began = time.process_time()
        call(i)
        found.append(time.process_time() - began)
    return min(found)


def per_call(call: Callable[[int], object], calls: int = 20, repeats: int = 3) -> float:
    return least(lambda r: [call(r * calls + i) for i in range(calls)], repeats) / calls


def windows(bank: Bank, count: int) -> list[str]:
    """Runs of words from the bank's texts, drawn by a seed."""
    rng = np.random.default_rng(0)
    texts = [text.split() for text in bank.texts]
    out = []
    for i in rng.integers(len(texts), size=count):
        start = int(rng.integers(max(1, len(texts[i]) - WORDS)))
        out.append(" ".join(texts[i][start : start + WORDS]))
    return out


def cold_start(panel: str, *options: str, times: int) -> dict[str, float]:
    """Least processor time and time on the clock of one process from start to end, and its peak memory.

    An installed package is compiled to bytecode once, so the process may keep it even where this one may not.
    """
    command = [sys.executable, "-m", "simdx", "classify", CASE, "--panel", panel, "--json", *options]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    cpu, wall, peak = [], [], []
    for _ in range(times):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RunFailed(f"simdx classify ended with {process.returncode}")
        cpu.append(used.ru_utime + used.ru_stime)
        wall.append(time.perf_counter() - began)
        peak.append(used.ru_maxrss / 1024)
    return {"cpu_s": round(min(cpu), 3), "wall_s": round(min(wall), 3), "peak_mb": round(max(peak), 1)}


def parts_of_an_answer(
    classifier: Classifier, texts: Sequence[str], repeats: int
) -> tuple[dict[str, float], float]:
    """Seconds a text for each part of an answer, and for the embedding and the bare products alone."""
    fitted = classifier.fitted
    if not isinstance(fitted, Recipe) or fitted.outside is None or fitted.outside.background is None:
        raise RunFailed("the parts of an answer are known of the shipped recipe with a background alone")
    some = list(texts[:CHUNK])
    n, seen = len(some), classifier.observe(some)
    labels, others, lexicon = (
        fitted.labels.comparison, fitted.outside.background.comparison, fitted.data.lexicon,
    )  # fmt: skip
    table, rows, novel = classifier.infer_batch_observed(seen), lexicon.rows(some), fitted.outside.novelty
    pairs = [(part.observe(seen).embedded, part.embedded) for part in (labels, others)]
    if novel is not None:
        pairs.append((novel.space.transform(seen.vectors).astype(float), novel.typicality.vectors))

    def products(_: int) -> None:
        lexicon.products(rows)
        for left, right in pairs:
            left @ right.T

    def lexical(_: int) -> None:
        batch = list(some)  # another object: what was remembered of the last batch does not count
        labels.lexical.cosines(batch)
        others.lexical.cosines(batch)

    embed = least(lambda _: classifier.observe(some), 2 * repeats) / n
    whole = least(lambda _: classifier.infer_batch_observed(classifier.observe(some)), 2 * repeats) / n
    words = least(lexical, 2 * repeats) / n
    split = {
        "embed": embed,
        "lexical": words,
        "inference": max(0.0, whole - embed - words),
        "decision": least(lambda _: classifier.desk.decide(seen, table, explain=False), repeats) / n,
    }
    return split, embed + least(products, 2 * repeats) / n


def by_scikit_learn(bank: Bank, texts: Sequence[str], cases: Sequence[str], repeats: int) -> dict[str, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=3)
    model = make_pipeline(vectorizer, LogisticRegression(max_iter=1000)).fit(bank.texts, bank.label_index)
    few = min(repeats, 2)
    return {
        "sklearn_us": round(1e6 * least(lambda _: model.predict_proba(texts), few) / len(texts), 1),
        "sklearn_long_us": round(1e6 * least(lambda _: model.predict_proba(cases), few) / len(cases), 1),
    }


def by_minilm(panel: str, texts: Sequence[str], repeats: int, here: bool) -> dict[str, float | None]:
    """MiniLM's embedding alone, and answers with it as the second expert; None where it is not `here`."""
    if not here:
        return dict.fromkeys(("minilm_us", "quality_single_ms", "quality_batch_us"))
    from simdx.embedders import embed_texts, get_embedder

    embedder, classifier = get_embedder("minilm"), Classifier(panel, embedder=BOTH)
    embed_texts(embedder, texts[:2])
    batch = least(lambda i: classifier.infer_batch([f"{text} {i}" for text in texts]), repeats) / len(texts)
    return {
        "minilm_us": round(1e6 * least(lambda _: embed_texts(embedder, texts), 2) / len(texts), 1),
        "quality_single_ms": round(1e3 * per_call(lambda i: classifier.infer_batch([f"{CASE} {i}"])), 3),
        "quality_batch_us": round(1e6 * batch, 1),
    }
