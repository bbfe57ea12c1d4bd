"""How much a forward pass costs beyond its three matrix products.

Both are timed in the same run, turn by turn, on the same arrays; the median of each is reported. The
size is the paper's: d = 3072 (a large embedding model), K = 7, hidden layers of 256.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.amortised.network import HIDDEN, Card, Network, TrainingPrior
from simdx.bench.engines import medians


def run(*, width: int = 3072, labels: int = 7, batch: int = 4096, repeats: int = 15) -> dict[str, Any]:
    """Microseconds per case of a batch, of its bare products, and of a single case asked alone."""
    rng = np.random.default_rng(0)
    network = random_network(rng, width, labels)
    (w1, _), (w2, _), (w3, _) = network.layers
    z = rng.standard_normal((batch, width)).astype(np.float32)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    h1, h2 = np.empty((batch, HIDDEN), np.float32), np.empty((batch, HIDDEN), np.float32)
    out = np.empty((batch, labels), np.float32)

    def products() -> None:
        np.matmul(z, w1, out=h1)
        np.matmul(h1, w2, out=h2)
        np.matmul(h2, w3, out=out)

    forward, gemm = medians([lambda: network.alpha(z), products], repeats)
    prior = Prior.uniform(labels)
    answered, _ = medians([lambda: network.second_order(z, prior), products], max(3, repeats // 3))
    single, single_answer = medians(
        [lambda: network.alpha(z[:1]), lambda: network.second_order(z[:1], prior)], 50 * repeats
    )
    return {
        "us_per_case": 1e6 * forward / batch,
        "gemm_us_per_case": 1e6 * gemm / batch,
        "ratio": forward / gemm,
        "d": width,
        "K": labels,
        "batch": batch,
        "single_case_us": 1e6 * single,
        "single_case_with_bits_us": 1e6 * single_answer,
        "us_per_case_with_bits": 1e6 * answered / batch,
    }


def random_network(rng: np.random.Generator, width: int, labels: int) -> Network:
    """A network of that size with random weights: what it costs does not depend on what it knows."""
    sizes = (width, HIDDEN, HIDDEN, labels)
    layers = tuple(
        (rng.standard_normal((a, b), np.float32) * np.float32(np.sqrt(2 / a)), np.zeros(b, np.float32))
        for a, b in pairwise(sizes)
    )
    names = tuple(f"label {i + 1}" for i in range(labels))
    card = Card(
        panel="bench", panel_hash="", labels=names, bank="", bank_hash="", embedder="", blocks=(width,),
        populations=5, prior_conditioned=False, objective="kl", observations="none", version="",
        prior=TrainingPrior(probabilities=(1 / labels,) * labels, alpha0=labels),
    )  # fmt: skip
    return Network(layers, card)
