"""`--engine two-stage` behind the front door, and the faiss search it stands on."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.errors import BadInput
from simdx.types import Bank, Panel

pytest.importorskip("faiss")

from simdx.methods.two_stage import FaissNeighbours


@pytest.mark.parametrize("kernel", ["soft", "hard"])
def test_it_answers_as_the_exact_engine(toy_panel: Panel, toy_bank: Bank, kernel: str) -> None:
    texts = ["red fruit juice", "the boat on the river bank", "oil and fuel in the motor"]
    exact = Classifier(toy_panel, toy_bank, method="m-smc", kernel=kernel).infer_batch(texts)
    ours = Classifier(toy_panel, toy_bank, method="m-smc", engine="two-stage", kernel=kernel).infer_batch(
        texts
    )
    assert np.allclose(ours.posterior, exact.posterior, atol=1e-5)
    # Its typicality counts a repeated simulation each time it occurs; p-values are 37ths here.
    assert np.abs(ours.typicality - exact.typicality).max() < 0.35


def test_it_is_a_way_to_run_m_smc(toy_panel: Panel, toy_bank: Bank) -> None:
    with pytest.raises(BadInput, match="--method m-smc"):
        Classifier(toy_panel, toy_bank, engine="two-stage")
    with pytest.raises(BadInput, match="--kernel soft"):
        Classifier(toy_panel, toy_bank, method="m-smc", engine="two-stage")
    with pytest.raises(BadInput, match="absolute tolerance"):
        Classifier(toy_panel, toy_bank, method="m-smc", engine="two-stage", tolerance=0.3)


def test_the_search_finds_neighbours_and_their_true_cosines() -> None:
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(50, 16))
    rows = np.repeat(centres, 60, axis=0) + 0.7 * rng.normal(size=(3000, 16))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    z = rows[::97] + 0.1 * rng.normal(size=rows[::97].shape)
    z = (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32)
    truth = np.argsort(-(z @ rows.T), axis=1)[:, :20]

    def recall(probes: int) -> float:
        found, cosine = FaissNeighbours(rows, cells=64, probes=probes).nearest(z, 20)
        there = found >= 0
        dots = np.einsum("nd,nkd->nk", z, rows[np.where(there, found, 0)])
        assert np.allclose(cosine[there], dots[there], atol=1e-5)
        return float(np.mean([len(set(f) & set(t)) / 20 for f, t in zip(found, truth, strict=True)]))

    assert recall(64) == 1.0
    assert recall(1) < recall(8) <= 1.0
    assert recall(8) > 0.9
