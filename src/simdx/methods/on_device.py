"""The exact engines of M-SMC and D-SMC, ABI's network and typicality on a torch device (`device="cuda"`).

The arithmetic is `simdx.gpu`'s; here is only the choice of it: that torch and the device are there, and
that what was asked for has a kernel. `torch:cpu` runs the same engines through torch on the processor,
which is how they are tried without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.second_order import concentration_cap, dirichlet_differential_entropy
from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.errors import BadInput, MissingExtra
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Float, Posterior, SecondOrder, Trace

METHODS = ("m-smc", "d-smc", "abi")
BANDWIDTH = 0.05
DRAWS = 500


def check_device(settings: Settings) -> None:
    """BadInput unless this method can run on that device, here and now."""
    if settings.device == "cpu":
        return
    if settings.method not in METHODS or settings.engine != "exact":
        raise BadInput(
            f"--device {settings.device} runs the exact engines of m-smc and d-smc, and abi: "
            "choose one of these, or --device cpu"
        )
    if settings.tolerance is not None:
        raise BadInput(f"an absolute tolerance has no kernel on {settings.device}: use --device cpu")
    torch_device(settings.device)


def torch_device(name: str) -> str:
    """The name torch knows the device by, once it is certain that it is there."""
    try:
        import torch
    except ImportError:
        raise MissingExtra(f"--device {name}", "sentence") from None
    wanted = name.removeprefix("torch:")
    try:
        torch.empty(1, device=wanted)
    except (RuntimeError, AssertionError, NotImplementedError):
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise BadInput(f"torch has no working device '{wanted}' here: there is {', '.join(there)}") from None
    return wanted


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTypicality:
    """As `abc.typicality.Typicality`, its p-values computed on the device."""

    fitted: Typicality
    device: str

    def p_value(self, observations: Float) -> Float:
        from simdx.gpu.typicality import p_value

        return p_value(self.fitted, observations, device=self.device)


@dataclass(frozen=True, slots=True, eq=False)
class OnDevice:
    """An inference function that brings the typicality of its device."""

    infer: Infer
    device: str

    def __call__(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        return self.infer(observations, prior)

    def typicality(self, space: Space) -> DeviceTypicality:
        return DeviceTypicality(Typicality.fit(space.bank), torch_device(self.device))


def fit_multinomial(material: Material, settings: Settings) -> Infer:
    from simdx.gpu.multinomial import DeviceBank, multinomial

    space = Space.fit(material.embedded, centre=False)
    bank = DeviceBank.place(
        space.bank, space.label_index, space.n_labels, device=torch_device(settings.device)
    )

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        posterior = multinomial(
            bank, space.transform(observations.vectors), prior, kernel=settings.kernel or "hard",
            bandwidth=settings.bandwidth or BANDWIDTH, populations=settings.populations,
        )  # fmt: skip
        return posterior, None

    return OnDevice(infer, settings.device)


def fit_dirichlet(material: Material, settings: Settings) -> Infer:
    from simdx.gpu.dirichlet import dirichlet

    space = Space.fit(material.embedded, centre=False)
    means, device = space.class_means, torch_device(settings.device)
    kernel, draws = settings.kernel or "hard", settings.particles or DRAWS

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        answer = dirichlet(
            means, space.transform(observations.vectors), prior, seed=settings.seed, kernel=kernel,
            draws=draws, populations=settings.populations, bandwidth=settings.bandwidth or BANDWIDTH,
            device=device,
        )  # fmt: skip
        n = len(answer.mean)
        hard = kernel == "hard"
        # The fused kernels return neither the distance reached nor the soft weights' effective number.
        effective = np.full(n, float(draws) if hard else np.nan)
        reached = np.full(n, np.nan if hard else settings.bandwidth or BANDWIDTH)
        second = SecondOrder(
            **_arrays(answer),
            differential_entropy=dirichlet_differential_entropy(answer.mean * answer.alpha0[:, None]),
            effective_draws=effective,
            cap=concentration_cap(prior.alpha, settings.populations) if hard else None,
        )
        return Posterior(answer.mean, effective, reached, second), None

    return OnDevice(infer, settings.device)


def _arrays(answer: Any) -> dict[str, Any]:
    names = ("mean", "total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")
    return {name: getattr(answer, name) for name in names}
