"""The background as a mixture of kinds: how it is grouped, and that only the grouping is new."""

import numpy as np
import pytest
from scipy.special import log_softmax

from simdx.methods import PanelData, outside
from simdx.methods.outside import KINDS, LEAST_TEXTS, BackgroundModel, kinds_of
from simdx.methods.panel_data import Observations
from simdx.types import Float
from tests import builders

WEATHER = tuple(f"rain and wind over the grey hills on day {i}" for i in range(LEAST_TEXTS))
MUSIC = tuple(f"a violin plays the slow song number {i} again" for i in range(LEAST_TEXTS))
CASES = ("a red fruit", "a boat on the sea", "a violin in the rain", "wind and a slow song")


@pytest.fixture
def panel_data() -> PanelData:
    return builders.panel_data(background=(*WEATHER, *MUSIC))


def scores(model: BackgroundModel, cases: Observations) -> tuple[Float, Float]:
    """(N, labels + kinds) log-likelihoods by the regression and by the kernel."""
    seen = model.comparison.observe(cases)
    return model.comparison.summary(seen), model.comparison.kernel(model.comparison.near(seen))


def heaps(sizes: tuple[int, ...], seed: int = 0) -> tuple[Float, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((len(sizes), 20))
    heap = np.repeat(np.arange(len(sizes)), sizes)
    rows = centres[heap] + 0.1 * rng.standard_normal((len(heap), 20))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), heap


def test_a_large_background_is_grouped_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, heap = heaps((200, 200, 200, 200))
    monkeypatch.setattr(outside, "MOST_LINKED", 400)
    for order in (
        np.arange(800),
        np.arange(800).reshape(4, 200).T.ravel(),
        np.random.default_rng(1).permutation(800),
    ):
        kind, own = kinds_of(rows[order], 4).tolist(), heap[order].tolist()
        assert len(set(zip(kind, own, strict=True))) == len(set(kind)) == len(set(own))  # one partition


@pytest.mark.parametrize(
    ("texts", "kinds"), [(1, 1), (2 * LEAST_TEXTS - 1, 1), (2 * LEAST_TEXTS, 2), (100 * LEAST_TEXTS, KINDS)]
)
def test_a_small_background_has_few_kinds(texts: int, kinds: int) -> None:
    rows = heaps((1,) * texts)[0]
    assert kinds_of(rows).max() + 1 == kinds


@pytest.mark.parametrize("most", [2000, 8])
def test_equal_rows_do_not_make_empty_kinds(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(outside, "MOST_LINKED", most)
    kind = kinds_of(np.ones((5 * LEAST_TEXTS, 4), dtype=np.float32) / 2, 5)
    assert np.array_equal(np.unique(kind), np.arange(kind.max() + 1))


def test_the_kernel_does_not_notice_the_grouping(panel_data: PanelData) -> None:
    """A mixture of kernel densities by share is the density of all: only the learned summary may change."""
    seen = panel_data.observe(CASES)
    kernels = []
    for kinds in (1, 2):
        model = BackgroundModel.fit(panel_data, kinds=kinds)
        assert len(model.log_share) == kinds
        kernels.append(log_softmax(model.folded(scores(model, seen)[1]), axis=1))
    assert np.allclose(*kernels, atol=1e-5)


def test_only_possible_labels_oppose(panel_data: PanelData) -> None:
    model = BackgroundModel.fit(panel_data)
    seen = panel_data.observe(("a red fruit",))
    without_apple = np.array([False, True, True])
    every = np.ones(3, dtype=bool)
    assert (model.features(seen, without_apple) > model.features(seen, every)).all()
    assert np.array_equal(model.features(seen, every), model.features(seen))
