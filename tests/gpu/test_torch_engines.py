"""The torch engines give the numpy engines' answers: here on the CPU, and on a GPU where there is one."""

from types import SimpleNamespace

import numpy as np
import pytest

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.typicality import Typicality
from tests.conftest import CUDA

DEVICES = ["cpu", *(["cuda"] if CUDA else [])]
K, M, D, N = 5, 40, 70, 64


@pytest.fixture(scope="module")
def gpu() -> SimpleNamespace:
    """Imported where it is run: torch takes seconds."""
    from simdx.gpu import dirichlet, multinomial, network, typicality

    return SimpleNamespace(
        dirichlet=dirichlet, multinomial=multinomial, network=network, typicality=typicality
    )


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(K, D))
    counts = rng.integers(M // 2, M, size=K)
    label = rng.permutation(np.repeat(np.arange(K), counts))
    bank = centres[label] + 1.5 * rng.normal(size=(label.size, D))
    z = centres[rng.integers(K, size=N)] + 1.5 * rng.normal(size=(N, D))
    unit = lambda x: (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)  # noqa: E731
    return unit(bank), label, unit(z), rng


def priors(rng: np.random.Generator) -> list:
    own = rng.dirichlet(np.ones(K), size=N)
    zero = np.array([0.0, 0.4, 0.3, 0.2, 0.1])
    return [Prior.uniform(K), Prior(zero, 5.0), own]


@pytest.mark.parametrize("kernel", ["soft", "hard"])
def test_multinomial(gpu: SimpleNamespace, problem, device: str, kernel: str) -> None:
    bank, label, z, rng = problem
    placed = gpu.multinomial.DeviceBank.place(bank, label, K, device=device)
    for prior in priors(rng):
        ours = gpu.multinomial.multinomial(placed, z, prior, kernel=kernel, populations=3, chunk=17)
        reference = exact.multinomial(bank, label, K, z, prior, kernel=kernel, populations=3)
        tolerance = 1e-5 if device == "cpu" else 5e-3
        assert np.abs(ours.probabilities - reference.probabilities).max() < tolerance
        assert np.allclose(ours.effective_simulations, reference.effective_simulations, rtol=2e-2)


def test_ties_are_one_block(gpu: SimpleNamespace, problem, device: str) -> None:
    """Every simulation three times, under different labels: the boundary block is shared, not cut."""
    bank, _, z, _ = problem
    tripled = np.repeat(bank, 3, axis=0)
    label = np.tile(np.arange(3), len(bank))
    placed = gpu.multinomial.DeviceBank.place(tripled, label, 3, device=device)
    ours = gpu.multinomial.multinomial(placed, z, Prior.uniform(3), kernel="hard", populations=4)
    assert np.abs(ours.probabilities - 1 / 3).max() < 1e-5


@pytest.mark.parametrize("kernel", ["soft", "hard"])
def test_dirichlet(gpu: SimpleNamespace, problem, device: str, kernel: str) -> None:
    bank, label, z, rng = problem
    means = np.stack([bank[label == k].mean(0) for k in range(K)])
    for prior in (Prior.uniform(K), Prior(np.array([0.0, 0.4, 0.3, 0.2, 0.1]), 5.0)):
        ours = gpu.dirichlet.dirichlet(means, z, prior, seed=5, kernel=kernel, device=device, chunk=20)
        reference = exact.dirichlet(means, z, prior, seed=5, kernel=kernel).second_order
        assert np.abs(ours.mean - reference.mean).max() < 2e-3
        assert np.abs(ours.epistemic_bits - reference.epistemic_bits).max() < 2e-3
        assert np.allclose(ours.alpha0, reference.alpha0, rtol=2e-2)
    several = np.array([[0.2] * K, [0.6, 0.1, 0.1, 0.1, 0.1]])[rng.integers(2, size=N)]
    ours = gpu.dirichlet.dirichlet(means, z, several, seed=5, kernel=kernel, device=device)
    for i in (0, N - 1):
        alone = exact.dirichlet(means, z[i : i + 1], Prior(several[i], K), seed=5, kernel=kernel).second_order
        assert np.abs(ours.mean[i] - alone.mean[0]).max() < 2e-3


def test_typicality(gpu: SimpleNamespace, problem, device: str) -> None:
    bank, _, z, _ = problem
    fitted = Typicality.fit(bank)
    assert np.abs(gpu.typicality.p_value(fitted, z, device=device) - fitted.p_value(z)).max() < 2e-2


def test_network(gpu: SimpleNamespace, device: str) -> None:
    import torch

    rng = np.random.default_rng(0)
    shapes = ((D, 32), (32, 32), (32, K))
    weights = [torch.from_numpy(rng.normal(size=s).astype(np.float32) * 0.2).to(device) for s in shapes]
    biases = [torch.from_numpy(rng.normal(size=s[1]).astype(np.float32)).to(device) for s in shapes]
    x = torch.from_numpy(rng.normal(size=(N, D)).astype(np.float32)).to(device)
    h = x.double().cpu()
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        h = torch.relu(h @ w.double().cpu() + b.double().cpu())
    expected = torch.nn.functional.softplus(h @ weights[-1].double().cpu() + biases[-1].double().cpu())
    assert torch.allclose(
        gpu.network.forward(x, weights, biases).double().cpu(), expected, rtol=1e-2, atol=1e-3
    )
