"""Fine-tuned baselines on the jobs that `comparison.py --jobs` wrote: probabilities of every case.

    python benchmarks/comparison_tuned.py --jobs jobs.json --encoder MINILM_FOLDER --out tuned.json.gz

It trains with `simdx.baselines.tuning`, on a GPU where torch sees one, and needs torch, sentence-transformers
and the four files that module imports: on a machine without simdx they are all there is of it. What the
output already holds is not trained again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from simdx.baselines.tuning import tuned

DIGITS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--jobs", "--encoder", "--out"):
        parser.add_argument(name, type=Path, required=True)
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    done: list[dict[str, Any]] = []
    if asked.out.is_file():
        done = json.loads(gzip.decompress(asked.out.read_bytes()))
    known = {named(job) for job in done}
    for job in json.loads(asked.jobs.read_text("utf-8")):
        if named(job) in known:
            continue
        started = time.perf_counter()
        encoder = SentenceTransformer(str(asked.encoder), device=device)
        if not hasattr(encoder, "preprocess"):  # its name before release 5.2
            encoder.preprocess, encoder.get_embedding_dimension = (
                encoder.tokenize,
                encoder.get_sentence_embedding_dimension,
            )
        scores = tuned(
            encoder, job["texts"], np.array(job["labels"]), job["n_labels"],
            contrastive=job["method"] != "zerogen", seed=job["seed"],
        )  # fmt: skip
        posterior = scores(job["cases"]).round(DIGITS).tolist()
        seconds = round(time.perf_counter() - started, 1)
        done.append(
            {
                **{key: job[key] for key in ("panel", "method", "seed", "ids")},
                "device": where, "seconds": seconds, "posterior": posterior,
            }
        )  # fmt: skip
        scratch = asked.out.with_suffix(".scratch")
        scratch.write_bytes(gzip.compress(json.dumps(done).encode(), mtime=0))
        scratch.replace(asked.out)
        print(*named(job), seconds, "s", flush=True)


def named(job: dict[str, Any]) -> tuple[str, str, int]:
    return job["panel"], job["method"], job["seed"]


if __name__ == "__main__":
    main()
