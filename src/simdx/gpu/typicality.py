"""Typicality through torch: mean distance to the nearest simulations, as a p-value against the bank's own."""

import numpy as np
import torch

from simdx.abc.typicality import Typicality
from simdx.gpu.multinomial import HOST_CHUNK, products
from simdx.types import Float

COSINES_AT_ONCE = 1 << 28


def p_value(fitted: Typicality, observations: Float, *, device: str = "cuda") -> Float:
    """As `Typicality.p_value`, on a torch device."""
    bank = torch.from_numpy(np.ascontiguousarray(fitted.vectors, dtype=np.float32)).to(device)
    reference = torch.from_numpy(fitted.reference).to(device)
    step = max(1, min(HOST_CHUNK, COSINES_AT_ONCE // len(bank)))
    out = np.empty(len(observations))
    for start in range(0, len(observations), step):
        part = slice(start, start + step)
        z = torch.from_numpy(np.ascontiguousarray(observations[part], dtype=np.float32)).to(device)
        nearest = products(z, bank).topk(fitted.neighbours, dim=1).values
        distance = (1 - nearest.double().mean(1)).clamp_min(0)
        farther = reference.numel() - torch.searchsorted(reference, distance, side="left")
        out[part] = ((1 + farther) / (1 + reference.numel())).cpu().numpy()
    return out
