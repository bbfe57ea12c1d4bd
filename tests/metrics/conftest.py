"""Synthetic predictions: imperfect, tied in places, every label present."""

import numpy as np
import pytest


def _make(n: int = 200, k: int = 4, seed: int = 0, decimals: int | None = 2):
    """Probabilities (rounded, so that ties occur) and labels drawn from a sharpened version of them."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.6), size=n)
    if decimals is not None:
        p = np.maximum(np.round(p, decimals), 0.01)
        p /= p.sum(axis=1, keepdims=True)
    truth = p**0.7
    truth /= truth.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(k, p=row) for row in truth])
    return p, y


@pytest.fixture(scope="session")
def make_predictions():
    return _make


@pytest.fixture
def predictions():
    return _make()


@pytest.fixture
def rng():
    return np.random.default_rng(7)
