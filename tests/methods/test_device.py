"""The device option: the same answers through torch, and plain words where it cannot be had."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.errors import BadInput
from simdx.types import Bank, Panel

torch = pytest.importorskip("torch")

# Texts without simulations at equal distance: torch's sort breaks such ties, numpy keeps them together.
TEXTS = [
    "red fruit juice",
    "the boat on the river bank",
    "oil and fuel in the motor",
    "a red engine with oil on the bridge and a current of juice",
]
DEVICES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ["soft", "hard"])
@pytest.mark.parametrize("method", ["m-smc", "d-smc"])
def test_the_device_changes_no_answer(
    toy_panel: Panel, toy_bank: Bank, method: str, kernel: str, device: str
) -> None:
    prior = {"apple": 0.2, "river": 0.5, "engine": 0.3}
    here = Classifier(toy_panel, toy_bank, method=method, kernel=kernel).infer_batch(TEXTS, prior)
    there = Classifier(toy_panel, toy_bank, method=method, kernel=kernel, device=device).infer_batch(
        TEXTS, prior
    )
    # TF32 products on a GPU carry ten bits of mantissa.
    slack = 1e-4 if device == "torch:cpu" else 1e-2
    assert np.abs(here.posterior - there.posterior).max() < slack
    # A p-value is a rank among the bank's own distances: rounding can move it by a rank or two.
    assert np.abs(here.typicality - there.typicality).max() <= 2 / (1 + len(toy_bank.texts))
    if method == "d-smc":
        assert here.second_order is not None
        assert there.second_order is not None
        assert np.abs(here.second_order.epistemic_bits - there.second_order.epistemic_bits).max() < slack
        assert here.second_order.cap == there.second_order.cap


def test_what_has_no_kernel_is_refused(toy_panel: Panel, toy_bank: Bank) -> None:
    for wrong in ({"method": "auto"}, {"method": "m-smc", "engine": "particles"}, {"method": "centroid"}):
        with pytest.raises(BadInput, match="exact engines of m-smc and d-smc"):
            Classifier(toy_panel, toy_bank, device="cuda", **wrong)
    with pytest.raises(BadInput, match="absolute tolerance"):
        Classifier(toy_panel, toy_bank, method="m-smc", device="torch:cpu", tolerance=0.2)


@pytest.mark.parametrize("device", ["cuda:77", "nonsense", "torch:", "mps:9"])
def test_an_absent_device_is_named(toy_panel: Panel, toy_bank: Bank, device: str) -> None:
    with pytest.raises(BadInput, match="no working device"):
        Classifier(toy_panel, toy_bank, method="m-smc", device=device)
