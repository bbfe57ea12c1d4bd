"""The amortised network's forward pass through torch: three products with fused bias and ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def forward(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Dirichlet parameters (N, K): softplus(W3 relu(W2 relu(W1 x + b1) + b2) + b3), weights (in, out)."""
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        if x.is_cuda:
            x = torch._addmm_activation(bias, x, weight)  # one kernel: product, bias, ReLU
        else:
            x = torch.relu(torch.addmm(bias, x, weight))
    return torch.nn.functional.softplus(torch.addmm(biases[-1], x, weights[-1]))
