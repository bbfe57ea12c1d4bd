"""Microseconds per case on one CUDA device, beside the matrix products and copies that bound them.

    PYTHONPATH=src python benchmarks/gpu.py --out benchmarks/results/gpu.json

Needs torch (with Triton) and numpy alone. Every figure is the median of repeated CUDA-event timings of a
whole batch, after warm-up, divided by the batch size. `ratio` is that figure over the bare matrix
product of the same inputs in the same precision, measured in the same run.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simdx.abc.prior import Prior
from simdx.gpu.dirichlet import DeviceDraws, feature_means, summarise
from simdx.gpu.multinomial import DeviceBank, hard, kernel_sums, multinomial, soft, to_device
from simdx.gpu.network import forward

BATCH = 65_536
BANDWIDTH = 0.05
TARGET = 0.5**5


def microseconds(call: Callable[[], Any], cases: int, repeats: int = 15) -> float:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return float(np.median(times)) * 1e3 / cases


def problem(d: int, k: int, m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """A bank whose labels overlap, and cases drawn like it, all of unit length."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d)) * 0.35
    label = np.repeat(np.arange(k), m)
    bank = centres[label] + rng.normal(size=(k * m, d))
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    generator = torch.Generator("cuda").manual_seed(seed)
    z = torch.randn(n, d, device="cuda", generator=generator)
    z += torch.from_numpy(centres).float().cuda()[torch.randint(k, (n,), device="cuda", generator=generator)]
    return bank.astype(np.float32), label, torch.nn.functional.normalize(z, dim=1)


def multinomial_point(d: int, k: int, m: int, n: int) -> dict[str, Any]:
    bank, label, z = problem(d, k, m, n)
    own = torch.rand(n, k, device="cuda")
    own /= own.sum(1, keepdim=True)
    out: dict[str, Any] = {"d": d, "K": k, "per_label": m, "cases": n}
    reference = reference_posteriors(bank, label, k, z[:512], own[:512])
    for dtype in ("float32", "bfloat16"):
        placed = DeviceBank.place(bank, label, k, device="cuda", dtype=dtype)
        q = to_device(z, placed)
        product = microseconds(lambda q=q, b=placed.vectors: q @ b.T, n)
        row = {
            "product_us": product,
            "soft_us": microseconds(partial(soft_posterior, placed, q, own), n),
            "soft_with_effective_us": microseconds(partial(soft, placed, q, own, BANDWIDTH), n),
        }
        row["soft_ratio"] = row["soft_us"] / product
        p, _ = soft(placed, q[:512], own[:512], BANDWIDTH)
        row["soft_max_error"] = float((p.double() - reference["soft"]).abs().max())
        if k <= 64 and k * m <= 32_768:
            row["hard_us"] = microseconds(partial(hard, placed, q, own, TARGET), n)
            row["hard_ratio"] = row["hard_us"] / product
            p = hard(placed, q[:512], own[:512], TARGET)[0]
            row["hard_max_error"] = float((p.double() - reference["hard"]).abs().max())
        flops = 2 * d * k * m
        row["product_tflops"] = flops / product / 1e6
        row["soft_tflops"] = flops / row["soft_us"] / 1e6
        out[dtype] = row
    return out


def soft_posterior(bank: DeviceBank, z: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    sums, _ = kernel_sums(bank, z, BANDWIDTH, squares=False)
    mass = sums * (prior / bank.counts)
    return mass / mass.sum(1, keepdim=True)


def reference_posteriors(
    bank: np.ndarray, label: np.ndarray, k: int, z: torch.Tensor, prior: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Both kernels in double precision, by definition."""
    b = torch.from_numpy(bank).cuda().double()
    own = torch.from_numpy(label).cuda()
    cosine = z.double() @ b.T
    mass = prior.double()[:, own] / torch.bincount(own).double()[own]
    weight = torch.exp((cosine - 1) / BANDWIDTH) * mass
    one_hot = torch.nn.functional.one_hot(own, k).double()
    soft_mass = weight @ one_hot
    _, order = cosine.sort(dim=1, descending=True)
    each = mass.gather(1, order)
    kept = torch.minimum(each, (TARGET - (each.cumsum(1) - each)).clamp_min(0))
    hard_mass = torch.zeros(len(z), k, dtype=torch.float64, device="cuda").scatter_add_(1, own[order], kept)
    return {
        "soft": soft_mass / soft_mass.sum(1, keepdim=True),
        "hard": hard_mass / hard_mass.sum(1, keepdim=True),
    }


def dirichlet_point(d: int, k: int, n: int) -> dict[str, Any]:
    bank, label, z = problem(d, k, 100, n)
    means = np.stack([bank[label == i].mean(0) for i in range(k)])
    shared = DeviceDraws.prepare(means, Prior.uniform(k), seed=0, draws=100, populations=5, device="cuda")
    out: dict[str, Any] = {"d": d, "K": k, "cases": n, "draws": 3200}
    unit, features, m = shared.unit.double(), shared.features.double(), shared.means.double()
    cosine = (z[:512].double() @ m.T) @ unit
    nearest = cosine.topk(100, dim=1).indices
    exact = {
        "hard": features.T[nearest].mean(1),
        "soft": torch.softmax(cosine / BANDWIDTH, 1) @ features.T,
    }
    for kernel in ("hard", "soft"):
        out[f"{kernel}_us"] = microseconds(
            lambda kernel=kernel: summarise(shared, feature_means(shared, z, kernel, BANDWIDTH)), n
        )
        ours = feature_means(shared, z[:512], kernel, BANDWIDTH)
        out[f"{kernel}_max_error_of_mean"] = float((ours[:, :k].double() - exact[kernel][:, :k]).abs().max())
    out["product_us"] = microseconds(lambda: z @ shared.means.T, n)
    return out


def network_point(d: int, k: int, n: int) -> dict[str, Any]:
    out: dict[str, Any] = {"d": d, "K": k, "cases": n}
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(n, d, device="cuda", dtype=dtype)
        shapes = ((d, 256), (256, 256), (256, k))
        w = [torch.randn(s, device="cuda", dtype=dtype) * s[0] ** -0.5 for s in shapes]
        b = [torch.randn(s[1], device="cuda", dtype=dtype) for s in shapes]
        products = microseconds(lambda x=x, w=w: ((x @ w[0]) @ w[1]) @ w[2], n)
        whole = microseconds(lambda x=x, w=w, b=b: forward(x, w, b), n)
        h = x[:256].double()
        for weight, bias in zip(w[:-1], b[:-1], strict=True):
            h = torch.relu(h @ weight.double() + bias.double())
        exact = torch.nn.functional.softplus(h @ w[-1].double() + b[-1].double())
        error = ((forward(x[:256], w, b).double() - exact).abs() / exact).max()
        out[str(dtype).removeprefix("torch.")] = {
            "us": whole,
            "products_us": products,
            "ratio": whole / products,
            "max_relative_error": float(error),
        }
    return out


def host_path(d: int, k: int, m: int, n: int) -> dict[str, Any]:
    """From numpy arrays in host memory to posteriors in host memory, transfers included."""
    bank, label, z = problem(d, k, m, n)
    placed = DeviceBank.place(bank, label, k, device="cuda", dtype="bfloat16")
    host = z.cpu().numpy()
    multinomial(placed, host[:1000], Prior.uniform(k))
    start = time.perf_counter()
    multinomial(placed, host, Prior.uniform(k))
    return {"cases": n, "d": d, "us_per_case": (time.perf_counter() - start) * 1e6 / n}


def ten_million(d: int, k: int, m: int) -> dict[str, Any]:
    """Ten million cases in one run, generated on the device in pieces; memory is read at the end."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    bank, label, z = problem(d, k, m, 1_000_000)
    placed = DeviceBank.place(bank, label, k, device="cuda", dtype="bfloat16")
    prior = torch.full((1, k), 1 / k, device="cuda")
    total = torch.zeros(k, device="cuda", dtype=torch.float64)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        q = to_device(torch.nn.functional.normalize(z + 0.1 * torch.randn_like(z), dim=1), placed)
        total += soft_posterior(placed, q, prior).double().sum(0)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    assert abs(float(total.sum()) - 1e7) < 10
    return {"cases": 10**7, "seconds": seconds, "peak_gb": torch.cuda.max_memory_allocated() / 1e9}


def ceilings() -> dict[str, float]:
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    f = torch.randn(8192, 8192, device="cuda")
    big = torch.empty(2**31, device="cuda", dtype=torch.uint8)
    other = torch.empty_like(big)
    flops = 2 * 8192**3
    return {
        "bfloat16_tflops": flops / microseconds(lambda: a @ a, 1) / 1e6,
        "tf32_tflops": flops / microseconds(lambda: f @ f, 1) / 1e6,
        "copy_tb_s": 2 * big.numel() / microseconds(lambda: other.copy_(big), 1) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu.json"))
    parser.add_argument("--commit", default="unknown")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    record = {
        "command": "python benchmarks/gpu.py",
        "commit": arguments.commit,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "note": "float32 means TF32 products; every case has its own prior in the multinomial rows",
        "ceilings": ceilings(),
        "multinomial": [multinomial_point(384, 6, 1000, BATCH), multinomial_point(256, 6, 1000, BATCH)],
        "dirichlet": [dirichlet_point(384, 6, BATCH), dirichlet_point(384, 3, BATCH)],
        "network": [network_point(3072, 7, BATCH), network_point(384, 6, BATCH)],
        "host_path": host_path(384, 6, 1000, 2_000_000),
        "ten_million": ten_million(384, 6, 1000),
        "sweep_cases": [multinomial_point(384, 6, 1000, n) for n in (1024, 8192, 262_144)],
        "sweep_labels": [multinomial_point(384, k, 100, BATCH) for k in (3, 30, 100)],
        "sweep_simulations": [multinomial_point(384, 6, m, BATCH) for m in (10, 100, 5000)],
        "sweep_dimensions": [multinomial_point(d, 6, 1000, BATCH) for d in (128, 640, 1024, 3072)],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    for part in ("multinomial", "dirichlet", "network", "host_path", "ten_million"):
        print(part, json.dumps(record[part], indent=None))
    print(record["ceilings"])


if __name__ == "__main__":
    main()
