"""A whole network without training one: what matters to faults is its files."""

import numpy as np

from simdx.amortised.network import HIDDEN, Card, Network, TrainingPrior
from simdx.types import content_hash

LABELS = ("apple", "river", "engine")
WIDTH = 8


def toy_network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    shapes = ((WIDTH, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, len(LABELS)))
    layers = tuple(
        (rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32))
        for shape in shapes
    )
    card = Card(
        panel="toy",
        panel_hash=content_hash("panel", *LABELS),
        labels=LABELS,
        bank="toy",
        bank_hash="0" * 64,
        embedder="toy",
        blocks=(WIDTH,),
        populations=5,
        prior_conditioned=False,
        prior=TrainingPrior(probabilities=(0.5, 0.25, 0.25), alpha0=3.0),
        objective="kl",
        observations="bank",
        settings={"seed": seed},
        version="1",
    )
    return Network(layers, card)
