"""Triton kernels of the exact engines: one pass over the bank, nothing of size N × n written.

Imported only where there is a CUDA device. Two ideas carry all of them:

* A cosine is at most one, so exp((cos − 1) / h) needs no running maximum: the soft kernel is attention
  without the bookkeeping of a softmax, and its "values" are sums per label.
* A quantile of a row is found by bisection on the value, counting how much prior mass lies above: no
  sort, and masses may differ from row to row, so every case may bring its own prior.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BISECTIONS = 21  # the last bracket is at most 1e-6 wide: what the numpy engine calls a tie


@triton.jit
def _attend(
    queries, keys, values, out, scale, n_queries, n_keys,
    WIDTH: tl.constexpr, SLICE_: tl.constexpr, VALUES: tl.constexpr, ONE_HOT: tl.constexpr,
    SQUARES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """out[i, v] = sum_j exp2((q_i·k_j − 1)·scale) · values[j, v], over all keys.

    ONE_HOT: `values` holds a label per key. SQUARES: a second block sums the squared weights.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < n_queries
    lane = tl.arange(0, VALUES)
    total = tl.zeros((ROWS, VALUES), dtype=tl.float32)
    squared = tl.zeros((ROWS, VALUES), dtype=tl.float32)
    piece = tl.arange(0, SLICE_)
    for start in range(0, n_keys, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        valid = column < n_keys
        product = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for offset in tl.range(0, WIDTH, SLICE_, num_stages=STAGES):
            q = tl.load(
                queries + row[:, None] * WIDTH + offset + piece[None, :], mask=inside[:, None], other=0.0
            )
            k = tl.load(
                keys + column[None, :] * WIDTH + offset + piece[:, None], mask=valid[None, :], other=0.0
            )
            product = tl.dot(q, k, product, input_precision=PRECISION)
        weight = tl.exp2((product - 1.0) * scale)
        weight = tl.where(valid[None, :], weight, 0.0)
        if ONE_HOT:
            label = tl.load(values + column, mask=valid, other=-1)
            value = (label[:, None] == lane[None, :]).to(queries.dtype.element_ty)
        else:
            value = tl.load(values + column[:, None] * VALUES + lane[None, :], mask=valid[:, None], other=0.0)
        total = tl.dot(weight.to(value.dtype), value, total, input_precision=PRECISION)
        if SQUARES:
            squared = tl.dot((weight * weight).to(value.dtype), value, squared, input_precision=PRECISION)
    stride = 2 * VALUES if SQUARES else VALUES
    tl.store(out + row[:, None] * stride + lane[None, :], total, mask=inside[:, None])
    if SQUARES:
        tl.store(out + row[:, None] * stride + VALUES + lane[None, :], squared, mask=inside[:, None])


# (rows, columns, slice of the embedding, warps, stages) that were fastest on Hopper; others stay correct.
_TILES = {
    torch.bfloat16: (128, 256, 64, 8, 3),
    torch.float32: (64, 128, 32, 4, 3),
}
_NARROW = (128, 64, 16, 4, 3)  # keys of 16 columns: D-SMC in label space


def attend(queries, keys, values, scale, *, n_values, one_hot, squares=False):
    """Weighted sums of `values` for every query; see `_attend`. Widths must be multiples of 16."""
    n, width = queries.shape
    rows, columns, slice_, warps, stages = _NARROW if width == 16 else _TILES[queries.dtype]
    while width % slice_:
        slice_ //= 2
    if n_values > 16 or squares:
        columns = min(columns, 128)  # more accumulators per thread: smaller tiles
    out = torch.empty((n, n_values * (2 if squares else 1)), device=queries.device, dtype=torch.float32)
    _attend[(triton.cdiv(n, rows),)](
        queries, keys, values, out, scale, n, keys.shape[0],
        WIDTH=width, SLICE_=slice_, VALUES=n_values, ONE_HOT=one_hot, SQUARES=squares,
        ROWS=rows, COLUMNS=columns, PRECISION="tf32" if queries.dtype == torch.float32 else "ieee",
        STAGES=stages, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


@triton.jit
def _load_part(cosines, mass, label, row, base, n_columns, start, BLOCK: tl.constexpr):
    """One part of a row: cosines, labels and prior masses; what lies past the end has no mass."""
    column = start + tl.arange(0, BLOCK)
    valid = column < n_columns
    value = tl.load(cosines + row * n_columns + column, mask=valid, other=-2.0)
    own = tl.load(label + column, mask=valid, other=0)
    return value, own, tl.load(mass + base + own, mask=valid, other=0.0)


@triton.jit
def _kept(value, weight, low, high, part):
    """Mass kept: whole above the bracket, in part inside it."""
    return tl.where(value > high, weight, tl.where(value > low, weight * part, 0.0))


@triton.jit
def _select(
    cosines, mass, label, out, effective, reached, target, n_columns,
    LABELS: tl.constexpr, LANES: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    STEPS: tl.constexpr, OWN_MASS: tl.constexpr,
):  # fmt: skip
    """Label shares of the nearest `target` of mass in one row, the boundary counted in part.

    A row is held as two parts, because blocks are powers of two: 6,000 columns are 4,096 + 2,048.
    """
    row = tl.program_id(0).to(tl.int64)
    base = row * LABELS if OWN_MASS else row * 0
    value, own, weight = _load_part(cosines, mass, label, row, base, n_columns, 0, FIRST)
    value2, own2, weight2 = _load_part(cosines, mass, label, row, base, n_columns, FIRST, SECOND)
    low = -1.001
    high = tl.maximum(tl.max(value), tl.max(value2))
    mass_low = tl.sum(weight) + tl.sum(weight2)
    mass_high = 0.0
    lightest = tl.min(tl.where(weight > 0, weight, 1.0))
    # The first look is at the mean: what is wanted nearly always lies above it.
    middle = (
        tl.sum(tl.where(value > -1.5, value, 0.0)) + tl.sum(tl.where(value2 > -1.5, value2, 0.0))
    ) / n_columns
    step = 0
    # A bracket that holds less than two atoms holds exactly the boundary one.
    while (step < STEPS) & (mass_low - mass_high > 1.5 * lightest):
        above = tl.sum(tl.where(value > middle, weight, 0.0)) + tl.sum(
            tl.where(value2 > middle, weight2, 0.0)
        )
        enough = above >= target
        low = tl.where(enough, middle, low)
        mass_low = tl.where(enough, above, mass_low)
        high = tl.where(enough, high, middle)
        mass_high = tl.where(enough, mass_high, above)
        middle = 0.5 * (low + high)
        step += 1
    part = (target - mass_high) / tl.maximum(mass_low - mass_high, 1e-30)
    kept = _kept(value, weight, low, high, part)
    kept2 = _kept(value2, weight2, low, high, part)
    tl.store(reached + row, 1.0 - high)
    squares = tl.sum(kept * kept) + tl.sum(kept2 * kept2)
    tl.store(effective + row, target * target / tl.maximum(squares, 1e-30))
    lane = tl.arange(0, LANES)
    shares = tl.zeros((LANES,), dtype=tl.float32)
    for k in range(LABELS):
        share = tl.sum(tl.where(own == k, kept, 0.0)) + tl.sum(tl.where(own2 == k, kept2, 0.0))
        shares = tl.where(lane == k, share, shares)
    tl.store(out + row * LABELS + lane, shares / target, mask=lane < LABELS)


def select(cosines, mass, label, target, *, warps=4):
    """(shares (N, K), effective (N,), distance reached (N,)) of the nearest `target` of mass per row."""
    n, columns = cosines.shape
    labels = mass.shape[-1]
    first = max(16, triton.next_power_of_2(columns) // 2)
    second = max(16, triton.next_power_of_2(max(1, columns - first)))
    out = torch.empty((n, labels), device=cosines.device, dtype=torch.float32)
    effective = torch.empty(n, device=cosines.device, dtype=torch.float32)
    reached = torch.empty(n, device=cosines.device, dtype=torch.float32)
    _select[(n,)](
        cosines, mass, label, out, effective, reached, target, columns,
        LABELS=labels, LANES=triton.next_power_of_2(labels), FIRST=first, SECOND=second,
        STEPS=BISECTIONS, OWN_MASS=mass.dim() == 2 and mass.shape[0] == n and n > 1, num_warps=warps,
    )  # fmt: skip
    return out, effective, reached


@triton.jit
def _nearest_draws(
    projected, unit, features, out, reached, keep, n_draws, n_features,
    LABELS: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Sums of features over the `keep` draws nearest to one case, cosines formed on the fly."""
    row = tl.program_id(0).to(tl.int64)
    draw = tl.arange(0, BLOCK)
    valid = draw < n_draws
    cosine = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(LABELS):
        c = tl.load(projected + row * LABELS + k)
        cosine += c * tl.load(unit + k * n_draws + draw, mask=valid, other=0.0)
    cosine = tl.where(valid, cosine, -2.0)
    low = -1.001
    high = tl.max(cosine)
    count_low = n_draws
    count_high = 0
    step = 0
    while (step < STEPS) & (count_low - count_high > 1):
        middle = 0.5 * (low + high)
        above = tl.sum((cosine > middle).to(tl.int32))
        enough = above >= keep
        low = tl.where(enough, middle, low)
        count_low = tl.where(enough, above, count_low)
        high = tl.where(enough, high, middle)
        count_high = tl.where(enough, count_high, above)
        step += 1
    sure = cosine > high
    edge = (cosine > low) & (cosine <= high)
    count = tl.sum(sure.to(tl.int32))
    part = (keep - count).to(tl.float32) / tl.maximum(tl.sum(edge.to(tl.int32)), 1).to(tl.float32)
    weight = tl.where(sure, 1.0, tl.where(edge, part, 0.0)) / keep
    lane = tl.arange(0, LANES)
    sums = tl.zeros((LANES,), dtype=tl.float32)
    for f in range(n_features):
        feature = tl.load(features + f * n_draws + draw, mask=weight > 0, other=0.0)
        sums = tl.where(lane == f, tl.sum(weight * feature), sums)
    tl.store(out + row * n_features + lane, sums, mask=lane < n_features)
    tl.store(reached + row, 1.0 - high)


def nearest_draws(projected, unit, features, keep, *, warps=4):
    """(mean features (N, F), distance reached (N,)); `unit` is (K, P), `features` (F, P)."""
    n, labels = projected.shape
    n_features, n_draws = features.shape
    out = torch.empty((n, n_features), device=projected.device, dtype=torch.float32)
    reached = torch.empty(n, device=projected.device, dtype=torch.float32)
    _nearest_draws[(n,)](
        projected, unit, features, out, reached, keep, n_draws, n_features,
        LABELS=labels, LANES=triton.next_power_of_2(n_features), BLOCK=triton.next_power_of_2(n_draws),
        STEPS=BISECTIONS, num_warps=warps,
    )  # fmt: skip
    return out, reached
