"""D-SMC in closed form through torch, on the same shared draws as the numpy engine.

Cases with other priors than their neighbours are grouped by prior and each group gets its own draws:
exact for every prior, and free of the variance that reweighting draws from one prior to another has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from simdx.abc.logs import log_dirichlet
from simdx.abc.prior import Prior
from simdx.gpu.multinomial import HOST_CHUNK, LOG2_E
from simdx.types import Float, Int

if TYPE_CHECKING:
    from torch import Tensor

LN2 = float(np.log(2))
FUSED_DRAWS = 65_536
FUSED_LABELS = 16


@dataclass(frozen=True, slots=True, eq=False)
class DeviceDraws:
    """Prior draws on a device, feature-major: theta, theta² and the entropy in bits of each."""

    unit: Tensor  # (K', P): theta / |mixture|
    features: Tensor  # (2K'+1, P)
    means: Tensor  # (K', d)
    possible: Tensor  # (K,) bool
    draws: int

    @classmethod
    def prepare(
        cls, class_means: Float, prior: Prior, *, seed: int, draws: int, populations: int, device: str
    ) -> DeviceDraws:
        """The draws `simdx.abc.dirichlet.prepare` makes for the same seed, moved to the device."""
        possible = prior.probabilities > 0
        means = np.asarray(class_means, dtype=np.float64)[possible]
        rng = np.random.default_rng([seed, 0xD1])
        log_theta = log_dirichlet(rng, prior.alpha[possible], int(draws * 2**populations))
        theta = np.exp(log_theta)
        length = np.sqrt(
            np.maximum(np.einsum("pk,kl,pl->p", theta, means @ means.T, theta, optimize=True), 1e-30)
        )
        entropy = -np.sum(theta * log_theta, axis=1, keepdims=True) / LN2
        features = np.concatenate([theta, theta**2, entropy], axis=1)

        def place(x: Float) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device)

        return cls(
            place((theta / length[:, None]).T),
            place(features.T),
            place(means),
            torch.from_numpy(possible).to(device),
            draws,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SimplexAnswer:
    """Second-order output of N cases; entropies in bits, alpha0 by moments of all components."""

    mean: Float
    total_bits: Float
    aleatoric_bits: Float
    epistemic_bits: Float
    alpha0: Float


def dirichlet(
    class_means: Float,
    observations: Float | Tensor,
    prior: Prior | Float,
    *,
    seed: int,
    kernel: Literal["hard", "soft"] = "hard",
    draws: int = 100,
    populations: int = 5,
    bandwidth: float = 0.05,
    device: str = "cuda",
    chunk: int = HOST_CHUNK,
) -> SimplexAnswer:
    """As `simdx.abc.exact.dirichlet`, on a torch device. A (N, K) prior is answered per distinct row."""
    n = len(observations)
    groups: list[tuple[Prior, Int | slice]]
    if isinstance(prior, Prior):
        groups = [(prior, slice(0, n))]
    else:
        distinct, member = np.unique(np.atleast_2d(prior), axis=0, return_inverse=True)
        if len(distinct) == 1:
            groups = [(Prior(distinct[0] / distinct[0].sum(), distinct.shape[1]), slice(0, n))]
        else:
            groups = [
                (Prior(row / row.sum(), row.size), np.flatnonzero(member == i))
                for i, row in enumerate(distinct)
            ]
    out = np.empty((n, len(class_means) + 4))
    for own, where in groups:
        shared = DeviceDraws.prepare(
            class_means, own, seed=seed, draws=draws, populations=populations, device=device
        )
        subset = observations[where]
        rows = np.empty((len(subset), out.shape[1]))
        for start in range(0, len(subset), chunk):
            part = slice(start, min(len(subset), start + chunk))
            z = subset[part]
            z = (
                z
                if isinstance(z, torch.Tensor)
                else torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32))
            )
            sums = feature_means(shared, z.to(device, torch.float32), kernel, bandwidth)
            rows[part] = summarise(shared, sums).double().cpu().numpy()
        out[where] = rows
    k = len(class_means)
    return SimplexAnswer(out[:, :k], out[:, k], out[:, k + 1], out[:, k + 2], out[:, k + 3])


def feature_means(shared: DeviceDraws, z: Tensor, kernel: str, bandwidth: float) -> Tensor:
    """(N, 2K'+1) means of theta, theta² and entropy over each case's accepted or weighted draws."""
    projected = z @ shared.means.T
    if kernel == "soft":
        return _soft_means(shared, projected, bandwidth)
    n_draws = shared.unit.shape[1]
    if z.is_cuda and n_draws <= FUSED_DRAWS and projected.shape[1] <= FUSED_LABELS:
        from simdx.gpu import kernels

        return kernels.nearest_draws(projected.contiguous(), shared.unit, shared.features, shared.draws)[0]
    cosine = projected @ shared.unit
    edge = cosine.topk(shared.draws, dim=1).values[:, -1:]
    above, tied = (cosine > edge).float(), (cosine == edge).float()
    left = shared.draws - above.sum(1, keepdim=True)
    weight = above + tied * (left / tied.sum(1, keepdim=True))
    return (weight @ shared.features.T) / shared.draws


def _soft_means(shared: DeviceDraws, projected: Tensor, bandwidth: float) -> Tensor:
    width, n_features = projected.shape[1], shared.features.shape[0]
    if projected.is_cuda and width <= FUSED_LABELS and n_features < 64:
        from simdx.gpu import kernels

        lanes = 32 if n_features < 32 else 64
        pad = torch.nn.functional.pad
        queries = pad(projected, (0, 16 - width)).contiguous()
        keys = pad(shared.unit.T, (0, 16 - width)).contiguous()
        values = pad(shared.features.T, (0, lanes - n_features)).contiguous()
        values[:, n_features] = 1.0  # its weighted sum is the normaliser
        out = kernels.attend(queries, keys, values, LOG2_E / bandwidth, n_values=lanes, one_hot=False)
        return out[:, :n_features] / out[:, n_features : n_features + 1]
    weight = torch.softmax((projected @ shared.unit) / bandwidth, dim=1)
    return weight @ shared.features.T


def summarise(shared: DeviceDraws, sums: Tensor) -> Tensor:
    """(N, K+4): mean over all labels, total, aleatoric and epistemic bits, alpha0."""
    inner = shared.unit.shape[0]
    mean, square, entropy = sums[:, :inner], sums[:, inner : 2 * inner], sums[:, -1]
    mean = mean / mean.sum(1, keepdim=True)
    total = -(mean * torch.log2(mean.clamp_min(1e-38))).sum(1)
    aleatoric = torch.minimum(entropy, total)
    variance = (square - mean**2).sum(1).clamp_min(1e-12)
    alpha0 = ((mean * (1 - mean)).sum(1) / variance - 1).clamp_min(1e-6)
    full = torch.zeros(len(sums), len(shared.possible), device=sums.device)
    full[:, shared.possible] = mean
    return torch.cat([full, torch.stack([total, aleatoric, total - aleatoric, alpha0], 1)], 1)
