"""The exact engines of M-SMC and D-SMC, ABI's network and typicality on a torch device (`device="cuda"`).

The arithmetic is `simdx.gpu`'s; here is only the choice of it: that torch and the device are there, and
that what was asked for has a kernel. `torch:cpu` runs the same engines through torch on the processor,
which is how they are tried without a GPU.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.second_order import concentration_cap
from simdx.abc.typicality import Typicality
from simdx.errors import BadInput, MissingExtra
from simdx.methods.fitted import Inferred, Settings
from simdx.methods.material import Material, Observations
from simdx.methods.smc import SIMPLEX_DRAWS, Multinomial, OnRawCosines
from simdx.types import Float, Posterior, SecondOrder

METHODS = ("m-smc", "d-smc", "abi")


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


class OnDevice(OnRawCosines):
    """A method that answers on a device, and brings the typicality of it."""

    def __init__(self, material: Material, settings: Settings) -> None:
        super().__init__(material, settings)
        self.device = torch_device(settings.device)

    @cached_property
    def typicality(self) -> DeviceTypicality:
        return DeviceTypicality(Typicality.fit(self.space.bank), self.device)


class DeviceMultinomial(OnDevice, Multinomial):
    def __init__(self, material: Material, settings: Settings) -> None:
        from simdx.gpu.multinomial import DeviceBank

        super().__init__(material, settings)
        self._bank = DeviceBank.place(*self.rows, device=self.device)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        from simdx.gpu.multinomial import multinomial

        how = {name: value for name, value in self._how.items() if name != "tolerance"}
        return Inferred(multinomial(self._bank, self.placed(observations), prior, **how))


class DeviceDirichlet(OnDevice):
    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        from simdx.gpu.dirichlet import dirichlet

        s, kernel = self.settings, self.hard_or_soft
        draws = s.particles or SIMPLEX_DRAWS
        answer = dirichlet(
            self.raw.class_means, self.placed(observations), prior, seed=s.seed, kernel=kernel, draws=draws,
            populations=s.populations, bandwidth=self.width, device=self.device,
        )  # fmt: skip
        n = len(answer.mean)
        hard = kernel == "hard"
        # The fused kernels return neither the distance reached nor the soft weights' effective number.
        effective = np.full(n, float(draws) if hard else np.nan)
        reached = np.full(n, np.nan if hard else self.width)
        bits = answer.total_bits, answer.aleatoric_bits, answer.epistemic_bits
        cap = concentration_cap(prior.alpha, s.populations) if hard else None
        second = SecondOrder(answer.mean, *bits, answer.alpha0, effective, cap)
        return Inferred(Posterior(answer.mean, effective, reached, second))
