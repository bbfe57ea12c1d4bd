"""The amortised network's forward pass through torch: three products with fused bias and ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from simdx.gpu.multinomial import HOST_CHUNK
from simdx.types import Float

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


@dataclass(frozen=True, slots=True, eq=False)
class DeviceNetwork:
    """A trained network's layers on a device, from which `alpha` answers as the network itself does."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    @classmethod
    def place(cls, layers: Sequence[tuple[Float, Float]], device: str) -> DeviceNetwork:
        weights, biases = zip(*layers, strict=True)
        return cls(*(tuple(torch.from_numpy(x).to(device) for x in part) for part in (weights, biases)))

    def alpha(self, z: Float, told: Float | None = None) -> Float:
        """(N, K) Dirichlet parameters; `told` is what a conditioned network is told of the prior."""
        first, bias, device = self.weights[0], self.biases[0], self.weights[0].device
        if told is not None:
            d = len(first) - told.shape[-1]
            bias = bias + torch.from_numpy(told.astype(np.float32)).to(device) @ first[d:]
            first = first[:d]
        out = np.empty((len(z), len(self.biases[-1])), dtype=np.float32)
        for start in range(0, len(z), HOST_CHUNK):
            part = slice(start, start + HOST_CHUNK)
            x = torch.from_numpy(np.ascontiguousarray(z[part], dtype=np.float32)).to(device)
            found = forward(x, (first, *self.weights[1:]), (bias, *self.biases[1:]))
            out[part] = found.cpu().numpy()
        return out + np.float32(1e-6)  # the floor of `amortised.network.softplus`
