"""M-SMC in closed form through torch: soft and hard kernels, a prior per case at no extra cost.

The soft posterior is prior times mean kernel, so the kernel sums per label are computed once and any
prior, shared or per case, multiplies them afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from simdx.abc.atoms import TIE
from simdx.abc.prior import Prior, prior_rows
from simdx.errors import BadInput
from simdx.types import Float, Int, Posterior

if TYPE_CHECKING:
    from torch import Tensor

Precision = Literal["float32", "bfloat16"]
LOG2_E = 1.4426950408889634
FUSED_BANDWIDTH = 0.02  # below it exp((cos − 1) / h) may underflow without a running maximum
FUSED_LABELS = 128
SELECT_COLUMNS = 32_768
SELECT_LABELS = 64
COSINES_AT_ONCE = 1 << 30
HOST_CHUNK = 1 << 17  # cases moved to the device at a time


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBank:
    """A bank on a torch device, label-sorted, its width padded with zeros to what the kernels take."""

    vectors: Tensor  # (n, width)
    label: Tensor  # (n,) int32, ascending
    counts: Tensor  # (K,) float32
    n_labels: int
    d: int

    @classmethod
    def place(
        cls,
        bank_vectors: Float,
        label_index: Int,
        n_labels: int,
        *,
        device: str,
        dtype: Precision = "float32",
    ) -> DeviceBank:
        order = np.argsort(label_index, kind="stable")
        counts = np.bincount(label_index, minlength=n_labels)
        if (counts == 0).any():
            raise BadInput("a label has no simulations in the bank; every label needs at least one")
        kind = getattr(torch, dtype)
        vectors = pad(torch.from_numpy(np.ascontiguousarray(bank_vectors[order], dtype=np.float32)))
        return cls(
            vectors.to(device=device, dtype=kind),
            torch.from_numpy(np.asarray(label_index)[order].astype(np.int32)).to(device),
            torch.from_numpy(counts.astype(np.float32)).to(device),
            n_labels,
            bank_vectors.shape[1],
        )

    @property
    def fused(self) -> bool:
        return self.vectors.is_cuda


def multinomial(
    bank: DeviceBank,
    observations: Float | Tensor,
    prior: Prior | Float,
    *,
    kernel: Literal["soft", "hard"] = "soft",
    bandwidth: float = 0.05,
    populations: int = 5,
    chunk: int = HOST_CHUNK,
) -> Posterior:
    """As `simdx.abc.exact.multinomial` (fractional boundary), on the bank's device, in chunks of cases."""
    n = len(observations)
    rows = prior_rows(prior, bank.n_labels, n)
    probabilities = np.empty((n, bank.n_labels))
    effective = np.empty(n)
    reached = np.full(n, bandwidth)
    if kernel == "hard" or not bank.fused:  # these paths hold a matrix of cosines
        chunk = max(1, min(chunk, COSINES_AT_ONCE // len(bank.vectors)))
    for start in range(0, n, chunk):
        part = slice(start, min(n, start + chunk))
        z = to_device(observations[part], bank)
        own = torch.from_numpy(np.ascontiguousarray(rows if len(rows) == 1 else rows[part])).to(
            bank.vectors.device, torch.float32
        )
        if kernel == "soft":
            p, e = soft(bank, z, own, bandwidth)
        else:
            p, e, r = hard(bank, z, own, 0.5**populations)
            reached[part] = r.double().cpu().numpy()
        probabilities[part] = p.double().cpu().numpy()
        effective[part] = e.double().cpu().numpy()
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return Posterior(probabilities, effective, reached)


def soft(bank: DeviceBank, z: Tensor, prior: Tensor, bandwidth: float) -> tuple[Tensor, Tensor]:
    """(posterior (N, K), effective simulations (N,)) of the soft kernel; z and prior are on the device."""
    sums, squares = kernel_sums(bank, z, bandwidth)
    weight = prior / bank.counts
    mass = sums * weight
    total = mass.sum(1, keepdim=True)
    effective = total[:, 0] ** 2 / (squares * weight**2).sum(1)
    return mass / total, effective


def kernel_sums(
    bank: DeviceBank, z: Tensor, bandwidth: float, *, squares: bool = True
) -> tuple[Tensor, Tensor]:
    """Sums of exp((cos − 1)/h) and of its square per label, each (N, K), scaled alike within a row."""
    k = bank.n_labels
    if bank.fused and bandwidth >= FUSED_BANDWIDTH and k <= FUSED_LABELS:
        from simdx.gpu import kernels

        lanes = max(16, 1 << (k - 1).bit_length())
        out = kernels.attend(
            z, bank.vectors, bank.label, LOG2_E / bandwidth, n_values=lanes, one_hot=True, squares=squares
        )
        return out[:, :k], out[:, lanes : lanes + k]
    cosine = (z @ bank.vectors.T).float()
    weight = torch.exp((cosine - cosine.amax(1, keepdim=True)) / bandwidth)
    one_hot = torch.nn.functional.one_hot(bank.label.long(), k).to(weight.dtype)
    return weight @ one_hot, (weight * weight) @ one_hot


def hard(bank: DeviceBank, z: Tensor, prior: Tensor, target: float) -> tuple[Tensor, Tensor, Tensor]:
    """(posterior, effective simulations, distance reached): the nearest `target` of prior mass."""
    cosine = products(z, bank.vectors)
    mass = prior / bank.counts
    if bank.fused and cosine.shape[1] <= SELECT_COLUMNS and bank.n_labels <= SELECT_LABELS:
        from simdx.gpu import kernels

        return kernels.select(cosine, mass.expand(len(cosine), -1).contiguous(), bank.label, target)
    return _select_by_sorting(cosine, mass, bank.label.long(), target)


def products(z: Tensor, vectors: Tensor) -> Tensor:
    """Cosines in single precision whatever the inputs' precision: a rounded cosine would make false ties."""
    if z.dtype == torch.float32:
        return z @ vectors.T
    if z.is_cuda:
        return torch.mm(z, vectors.T, out_dtype=torch.float32)
    return z.float() @ vectors.T.float()


def _select_by_sorting(
    cosine: Tensor, mass: Tensor, label: Tensor, target: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Equal cosines (within the numpy engine's idea of a tie) are one block and count in part together."""
    value, order = cosine.sort(dim=1, descending=True)
    each = mass.expand(len(cosine), -1).gather(1, label[order]).double()
    before = each.cumsum(1) - each
    last = (before < target - 1e-12).sum(1, keepdim=True) - 1
    edge = value.gather(1, last)
    inside = torch.where(value > edge + TIE, each, 0.0)
    block = torch.where((value - edge).abs() <= TIE, each, 0.0)
    part = (target - inside.sum(1, keepdim=True)) / block.sum(1, keepdim=True).clamp_min(1e-300)
    kept = inside + block * part
    shares = torch.zeros(len(cosine), mass.shape[-1], dtype=torch.float64, device=cosine.device)
    shares.scatter_add_(1, label[order], kept)
    total = kept.sum(1)
    return shares / total[:, None], total**2 / (kept**2).sum(1), 1 - edge[:, 0]


def to_device(observations: Float | Tensor, bank: DeviceBank) -> Tensor:
    """A chunk of cases as the bank has its rows: same device, precision and padded width."""
    z = (
        observations
        if isinstance(observations, torch.Tensor)
        else torch.from_numpy(np.ascontiguousarray(observations, dtype=np.float32))
    )
    if z.shape[1] not in (bank.d, bank.vectors.shape[1]):
        raise BadInput(
            f"observations are {z.shape[1]} wide and the bank is {bank.d}; use the bank's embedder"
        )
    z = z.to(device=bank.vectors.device, dtype=bank.vectors.dtype, non_blocking=True)
    return pad(z).contiguous()


def pad(x: Tensor) -> Tensor:
    """Zero columns up to a multiple of 64 (16 when narrow): they change no dot product."""
    step = 64 if x.shape[1] > 48 else 16
    missing = -x.shape[1] % step
    return torch.nn.functional.pad(x, (0, missing)) if missing else x
