"""What must not change an answer: order of cases, labels or rows, scale, duplicates, batches, workers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx.abc import space
from simdx.abc.dirichlet import dirichlet
from simdx.abc.multinomial import multinomial, simulation_weights
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.types import EmbeddedBank
from tests.abc.toys import toy, unit

KERNELS = [
    {"kernel": "soft"},
    {"kernel": "soft", "bandwidth": 0.01},
    {"kernel": "hard", "populations": 3},
    {"kernel": "hard", "populations": 30},
    {"kernel": "hard", "populations": 3, "boundary": "whole"},
    {"kernel": "hard", "tolerance": 0.5},
]
kernels = st.sampled_from(KERNELS)
counts = st.lists(st.integers(1, 12), min_size=2, max_size=6)
seeds = st.integers(0, 2**16)


def close(a, b, atol=2e-5):
    np.testing.assert_allclose(a, b, atol=atol)


@settings(max_examples=60, deadline=None)
@given(counts, kernels, seeds)
def test_permutations_of_cases_labels_and_rows(n, kernel, seed):
    problem = toy(n, n_cases=5, seed=seed)
    k = problem.n_labels
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(k))
    answer = multinomial(problem.bank, problem.labels, k, problem.cases, prior, **kernel)
    assert np.all(answer.probabilities >= 0)
    close(answer.probabilities.sum(axis=1), 1, 1e-9)
    cases, labels, rows = rng.permutation(5), rng.permutation(k), rng.permutation(problem.labels.size)
    other = multinomial(problem.bank, problem.labels, k, problem.cases[cases], prior, **kernel)
    close(other.probabilities, answer.probabilities[cases], 1e-9)
    renamed = np.argsort(labels)[problem.labels]  # new label j is old label labels[j]
    other = multinomial(problem.bank, renamed, k, problem.cases, prior[labels], **kernel)
    close(other.probabilities, answer.probabilities[:, labels])
    other = multinomial(problem.bank[rows], problem.labels[rows], k, problem.cases, prior, **kernel)
    close(other.probabilities, answer.probabilities)


@settings(max_examples=40, deadline=None)
@given(counts, kernels, seeds)
def test_duplicating_every_row_changes_nothing(n, kernel, seed):
    problem = toy(n, n_cases=4, seed=seed)
    k = problem.n_labels
    prior = np.random.default_rng(seed).dirichlet(np.ones(k))
    once = multinomial(problem.bank, problem.labels, k, problem.cases, prior, **kernel)
    twice = multinomial(
        np.tile(problem.bank, (2, 1)), np.tile(problem.labels, 2), k, problem.cases, prior, **kernel
    )
    close(twice.probabilities, once.probabilities)
    close(twice.tolerance, once.tolerance, 2e-6)
    close(twice.effective_simulations, 2 * once.effective_simulations, 1e-2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=3, max_size=6), kernels, seeds)
def test_a_label_with_prior_zero_never_gets_mass(n, kernel, seed):
    problem = toy(n, n_cases=4, seed=seed)
    k = problem.n_labels
    prior = np.random.default_rng(seed).dirichlet(np.ones(k))
    prior[seed % k] = 0
    prior /= prior.sum()
    shared = multinomial(problem.bank, problem.labels, k, problem.cases, prior, **kernel)
    assert np.all(shared.probabilities[:, seed % k] == 0)
    # The same prior given per case takes the other path through the code and must not differ.
    rows = np.tile(prior, (4, 1))
    each = multinomial(problem.bank, problem.labels, k, problem.cases, rows, **kernel)
    close(each.probabilities, shared.probabilities)
    # A label that is impossible might as well have no simulations at all.
    gone = problem.labels != seed % k
    without = multinomial(problem.bank[gone], problem.labels[gone], k, problem.cases, prior, **kernel)
    close(without.probabilities, shared.probabilities)
    p = Prior(prior, 2.0)
    means = problem.means
    assert np.all(dirichlet(means, problem.cases, p, seed=0, draws=20).probabilities[:, seed % k] == 0)
    smc, _ = multinomial_smc(
        problem.bank, problem.labels, k, problem.cases, p, range(4), seed=0, particles=20, populations=2
    )
    assert np.all(smc.probabilities[:, seed % k] == 0)
    smc, _ = dirichlet_smc(means, problem.cases, p, range(4), seed=0, particles=20, populations=2)
    assert np.all(smc.probabilities[:, seed % k] == 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_priors_per_case_are_each_cases_own(kernel):
    problem = toy((5, 9, 3), n_cases=6, seed=1)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    rows[2] = [0, 0.5, 0.5]
    rows[4] = [1, 0, 0]
    together = multinomial(problem.bank, problem.labels, 3, problem.cases, rows, **kernel)
    for i in range(6):
        alone = multinomial(problem.bank, problem.labels, 3, problem.cases[i], rows[i], **kernel)
        close(together.probabilities[i], alone.probabilities[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_simulation_weights_add_up_to_the_posterior_in_the_callers_order(kernel):
    problem = toy((5, 9, 3), n_cases=6, seed=2)
    prior = np.array([0.2, 0.3, 0.5])
    answer = multinomial(problem.bank, problem.labels, 3, problem.cases, prior, **kernel)
    weight = simulation_weights(problem.bank, problem.labels, 3, problem.cases, prior, **kernel)
    sums = np.stack([weight[:, problem.labels == k].sum(axis=1) for k in range(3)], axis=1)
    some = answer.effective_simulations > 0
    close(sums[some], answer.probabilities[some])
    assert np.all(sums[~some] == 0)
    top = weight.argmax(axis=1)
    if "tolerance" not in kernel and kernel.get("populations") == 30:
        nearest = (problem.cases @ problem.bank.T).argmax(axis=1)
        assert np.array_equal(top, nearest)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 1e3), seeds, st.booleans())
def test_scaling_embeddings_changes_nothing(scale, seed, centre):
    problem = toy((6, 7), n_cases=4, d=8, seed=seed)
    vectors = problem.bank.astype(float)
    plain = Space.fit(EmbeddedBank(vectors, problem.labels, 2, (5, 3)), centre)
    scaled = Space.fit(EmbeddedBank(vectors * scale, problem.labels, 2, (5, 3)), centre)
    a = multinomial(plain.bank, plain.label_index, 2, plain.transform(problem.cases), np.ones(2))
    b = multinomial(scaled.bank, scaled.label_index, 2, scaled.transform(problem.cases * scale), np.ones(2))
    close(a.probabilities, b.probabilities)


def engines(problem):
    prior = Prior(np.array([0.2, 0.5, 0.3]), 3.0)
    bank = (problem.bank, problem.labels, 3)
    return {
        "soft": lambda z, keys: multinomial(*bank, z, prior),
        "hard": lambda z, keys: multinomial(*bank, z, prior, kernel="hard"),
        "whole": lambda z, keys: multinomial(*bank, z, prior, kernel="hard", boundary="whole"),
        "simplex": lambda z, keys: dirichlet(problem.means, z, prior, seed=5),
        "m-smc": lambda z, keys: multinomial_smc(*bank, z, prior, keys, seed=5)[0],
        "d-smc": lambda z, keys: dirichlet_smc(problem.means, z, prior, keys, seed=5, populations=3)[0],
    }


@pytest.mark.parametrize("name", ["soft", "hard", "whole", "simplex", "m-smc", "d-smc"])
def test_neither_batch_order_nor_workers_change_an_answer(name):
    problem = toy((40, 50, 60), n_cases=24, d=33, seed=3)
    keys = np.random.default_rng(0).integers(0, 2**63, 24)
    run = engines(problem)[name]
    together = run(problem.cases, keys)
    order = np.random.default_rng(1).permutation(24)
    shuffled = run(problem.cases[order], keys[order])
    close(shuffled.probabilities, together.probabilities[order], 1e-6)
    alone = np.concatenate([run(problem.cases[i : i + 1], keys[i : i + 1]).probabilities for i in range(24)])
    close(alone, together.probabilities, 1e-6)
    parts = [np.arange(0, 7), np.arange(7, 8), np.arange(8, 24)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda part: run(problem.cases[part], keys[part]).probabilities, parts))
    close(np.concatenate(answers), together.probabilities, 1e-6)


def test_chunks_do_not_change_an_answer(monkeypatch):
    problem = toy((30, 40), n_cases=17, seed=4)
    prior = Prior.uniform(2)
    bank = (problem.bank, problem.labels, 2, problem.cases, prior)

    def answers():
        yield from (multinomial(*bank, **kernel).probabilities for kernel in KERNELS)
        yield multinomial_smc(*bank, range(17), seed=1)[0].probabilities
        yield dirichlet_smc(problem.means, problem.cases, prior, range(17), seed=1)[0].probabilities

    whole = list(answers())
    monkeypatch.setattr(space, "CHUNK_BYTES", 1)  # eight cases at a time
    for cut, one in zip(answers(), whole, strict=True):
        close(cut, one, 1e-6)


def test_another_seed_or_key_is_another_stream():
    problem = toy((30, 40), n_cases=2, seed=5)
    prior = Prior.uniform(2)
    same = np.repeat(problem.cases[:1], 2, axis=0)
    bank = (problem.bank, problem.labels, 2)
    a, _ = multinomial_smc(*bank, same, prior, [7, 7], seed=1)
    assert np.array_equal(a.probabilities[0], a.probabilities[1])
    b, _ = multinomial_smc(*bank, same, prior, [7, 8], seed=1)
    assert not np.array_equal(b.probabilities[0], b.probabilities[1])
    c, _ = multinomial_smc(*bank, same, prior, [7, 7], seed=2)
    assert not np.array_equal(a.probabilities, c.probabilities)
    d = [dirichlet(problem.means, problem.cases, prior, seed=s).probabilities for s in (1, 1, 2)]
    assert np.array_equal(d[0], d[1])
    assert not np.array_equal(d[0], d[2])


@pytest.mark.parametrize(("k", "per_label"), [(2, 3), (1000, 3), (50, 1)])
def test_many_labels_and_few_simulations(k, per_label):
    rng = np.random.default_rng(0)
    bank = unit(rng.standard_normal((k * per_label, 16))).astype(np.float32)
    labels = np.repeat(np.arange(k), per_label)
    z = bank[[0, per_label]]
    for kernel in KERNELS:
        answer = multinomial(bank, labels, k, z, Prior.uniform(k), **kernel)
        close(answer.probabilities.sum(axis=1), 1, 1e-9)
        if kernel.get("populations") == 30:
            assert answer.probabilities.argmax(axis=1).tolist() == [0, 1]
    means = np.array([bank[labels == j].mean(axis=0) for j in range(k)])
    answer = dirichlet(means, z, Prior.uniform(k), seed=0)
    close(answer.probabilities.sum(axis=1), 1, 1e-6)
    smc, trace = multinomial_smc(bank, labels, k, z, Prior.uniform(k), [1, 2], seed=0, particles=50)
    close(smc.probabilities.sum(axis=1), 1, 1e-9)
    smc, trace = dirichlet_smc(
        means, z, Prior.uniform(k), [1, 2], seed=0, particles=50, populations=3, budget=5000
    )
    close(smc.probabilities.sum(axis=1), 1, 1e-6)
    assert np.all(np.isfinite(trace.tolerance))
