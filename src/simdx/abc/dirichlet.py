"""D-SMC in closed form up to shared prior draws.

A particle is theta on the simplex and its discrepancy is 1 - cos(sum_k theta_k mean_k, z). Because
cos = theta.c / sqrt(theta' G theta) with c_k = mean_k.z and G the Gram matrix of the class means, no
step needs more than K dimensions. With median tolerances the target after T populations is Dir(alpha)
truncated to the nearest 2^-T of its mass: draw S * 2^T vectors once, keyed by the seed alone and shared
by all cases, one small matrix product, keep the nearest S of each case.

The draws kept are independent given the threshold; the threshold is estimated from them, and since all
cases share the draws their Monte Carlo errors are correlated. Class means must come from *uncentred*
embeddings: centring makes G singular.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simdx.abc.logs import digamma, log_dirichlet
from simdx.abc.prior import Prior
from simdx.abc.smc import CountedSimulator, Simulate, check_budget, stream
from simdx.abc.space import TIE, check_kernel, check_observations, chunk_size, similarity
from simdx.errors import BadInput
from simdx.types import Float, Int, Mask, Posterior, SecondOrder, Trace, entropy_bits

MAX_DRAW_ENTRIES = 2**27  # draws times labels: 512 MB in single precision


@dataclass(frozen=True, slots=True, eq=False)
class SharedDraws:
    """Prior draws with what every case needs of them; made once per seed, prior and class means."""

    unit: Float  # (P, K') float32: theta / |mixture|, so that unit @ c is the cosine
    features: Float  # (P, 3K'+1) float32: theta, theta^2, log theta, entropy in bits
    means: Float  # (K', d) float32, possible labels only
    possible: Mask  # (K,)


def prepare(
    class_means: Float, prior: Prior, *, seed: int, draws: int = 100, populations: int = 5
) -> SharedDraws:
    """S * 2^T draws from the prior by the seed alone; labels with prior zero are left out."""
    means = np.asarray(class_means, dtype=np.float64)
    if means.ndim != 2 or means.shape[0] != prior.n_labels:
        raise BadInput(f"there are {means.shape[0]} class means and {prior.n_labels} priors; they must match")
    if draws < 2 or populations < 1:
        raise BadInput("D-SMC needs at least 2 draws and 1 population")
    possible = prior.probabilities > 0
    if not np.all(np.isfinite(means[possible])):
        raise BadInput("a class mean is NaN or infinite; every possible label needs simulations")
    n_labels = int(possible.sum())
    count = draws * 2.0**populations
    if count * n_labels > MAX_DRAW_ENTRIES:
        fits = int(np.floor(np.log2(max(2.0, MAX_DRAW_ENTRIES / (n_labels * draws)))))
        raise BadInput(
            f"{draws} draws with {populations} populations need {count:.3g} prior draws of {n_labels} "
            f"labels; use at most {fits} populations, fewer draws or the particles engine"
        )
    log_theta = log_dirichlet(np.random.default_rng([seed, 0xD1]), prior.alpha[possible], int(count))
    theta = np.exp(log_theta)
    gram = means[possible] @ means[possible].T
    length = np.sqrt(np.maximum(np.einsum("pk,kl,pl->p", theta, gram, theta, optimize=True), 1e-30))
    entropy = -np.sum(theta * log_theta, axis=1, keepdims=True) / LN2
    return SharedDraws(
        unit=(theta / length[:, None]).astype(np.float32),
        features=np.concatenate([theta, theta**2, log_theta, entropy], axis=1).astype(np.float32),
        means=means[possible].astype(np.float32),
        possible=possible,
    )


def dirichlet(
    class_means: Float,
    observations: Float,
    prior: Prior,
    *,
    seed: int,
    kernel: Literal["hard", "soft"] = "hard",
    draws: int = 100,
    populations: int = 5,
    tolerance: float | None = None,
    bandwidth: float = 0.05,
    shared: SharedDraws | None = None,
) -> Posterior:
    """Posterior mean and second-order output of every observation.

    hard keeps the nearest `draws` of draws * 2^populations (or, with an absolute `tolerance`, all draws
    within it; when there are none the answer is the prior, with zero effective draws); soft weighs every
    draw by exp(-distance / bandwidth). Pass `shared` from `prepare` to reuse draws between calls.
    """
    check_kernel(kernel, bandwidth, tolerance)
    if shared is None:
        shared = prepare(class_means, prior, seed=seed, draws=draws, populations=populations)
    z = check_observations(observations, shared.means.shape[1])
    n_draws, width = shared.features.shape
    sums = np.empty((z.shape[0], width))
    effective, reached = np.empty(z.shape[0]), np.empty(z.shape[0])
    step = min(128, chunk_size(n_draws))  # stays in cache, measurably faster
    for start in range(0, z.shape[0], step):
        part = slice(start, start + step)
        cosine = _cosines(shared, z[part])
        if kernel == "soft":
            weight, total, effective[part] = _soft_weight(cosine, bandwidth)
            reached[part] = bandwidth
        elif tolerance is not None:
            weight, total, effective[part] = _within_weight(cosine, tolerance)
            reached[part] = tolerance
        else:
            weight, total, effective[part], reached[part] = nearest_weight(cosine, draws)
        sums[part] = (weight @ shared.features) / np.where(total > 0, total, 1)[:, None]
    cap = None
    if kernel == "hard" and tolerance is None:
        cap = concentration_cap(prior.alpha, populations)
    return _answer(sums, effective, reached, prior, cap)


def _cosines(shared: SharedDraws, z: Float) -> Float:
    return similarity(similarity(z, shared.means), shared.unit)


def nearest_weight(cosine: Float, keep: int) -> tuple[Float, Float, Float, Float]:
    """Weight one for the nearest `keep` draws; draws tied at the edge share what is left of it.

    Like its siblings: (weights, their sums, effective number), and here the distance reached.
    """
    n = cosine.shape[1]
    keep = min(keep, n)
    edge = np.partition(cosine, n - keep, axis=1)[:, n - keep, None]
    inside = cosine >= edge
    count = _counted(inside)
    weight = inside.astype(np.float32)
    effective = np.full(count.size, float(keep))
    crowded = np.flatnonzero(count > keep)
    if crowded.size:  # sparse priors repeat the corners of the simplex to the last bit
        tied = cosine[crowded] == edge[crowded]
        n_tied = np.count_nonzero(tied, axis=1)
        above = count[crowded] - n_tied
        part = (keep - above) / n_tied
        weight[crowded] = np.where(tied, part[:, None].astype(np.float32), weight[crowded])
        effective[crowded] = keep**2 / (above + n_tied * part**2)
    return weight, np.full(count.size, float(keep)), effective, 1 - edge[:, 0].astype(np.float64)


def _counted(inside: Mask) -> Int:
    """(N,) how many of each row are true; row by row is ten times faster than along an axis."""
    return np.fromiter(map(np.count_nonzero, inside), np.int64, len(inside))


def _within_weight(cosine: Float, tolerance: float) -> tuple[Float, Float, Float]:
    inside = cosine >= np.float32(1 - tolerance - TIE)
    count = _counted(inside).astype(np.float64)
    return inside.astype(np.float32), count, count


def _soft_weight(cosine: Float, bandwidth: float) -> tuple[Float, Float, Float]:
    weight = cosine - cosine.max(axis=1, keepdims=True)
    weight *= np.float32(1 / bandwidth)
    np.exp(weight, out=weight)
    total = weight.sum(axis=1, dtype=np.float64)
    return weight, total, total**2 / np.einsum("ij,ij->i", weight, weight).astype(np.float64)


def _answer(sums: Float, effective: Float, reached: Float, prior: Prior, cap: float | None) -> Posterior:
    """Second-order summaries on the possible labels, the prior's own where nothing was accepted."""
    possible = prior.probabilities > 0
    k, n = int(possible.sum()), len(sums)
    if k == 1:
        second = of_dirichlet(np.tile(prior.alpha, (n, 1)), effective=effective, cap=cap)
        return Posterior(second.mean, effective, reached, second)
    theta, square, _, entropy = np.split(sums, [k, 2 * k, 3 * k], axis=1)
    nothing, p = effective == 0, prior.probabilities[possible]
    theta[nothing] = p
    square[nothing] = p**2 + p * (1 - p) / (prior.alpha0 + 1)
    entropy[nothing] = of_dirichlet(prior.alpha).aleatoric_bits
    second = summarise(theta, square, entropy[:, 0], effective, cap)
    mean = np.zeros((n, len(possible)))
    mean[:, possible] = second.mean
    return Posterior(mean, effective, reached, replace(second, mean=mean))


def bank_tolerance(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    prior: Prior,
    *,
    seed: int,
    draws: int = 100,
    populations: int = 5,
) -> float:
    """An absolute tolerance under which half of the simulations would accept at least 2^-T of the prior.

    A quantile tolerance accepts the same share of prior mass for every case, so epistemic uncertainty cannot
    rise on a text unlike the panel; an absolute one accepts little or nothing of it. What is usual is
    found by leaving each simulation out of its class mean in turn and asking D-SMC about it.
    """
    label_index, vectors = np.asarray(label_index), bank_vectors.astype(np.float64)
    count = np.bincount(label_index, minlength=n_labels)
    means = np.zeros((n_labels, vectors.shape[1]))
    np.add.at(means, label_index, vectors)
    means /= np.maximum(count, 1)[:, None]
    usable = np.flatnonzero((prior.probabilities[label_index] > 0) & (count[label_index] > 1))
    if not usable.size:
        raise BadInput("no label has two simulations, so none can be left out; enlarge the bank")
    reached = []
    for row in usable:
        label, left = label_index[row], means.copy()
        left[label] += (means[label] - vectors[row]) / (count[label] - 1)
        answer = dirichlet(left, vectors[row], prior, seed=seed, draws=draws, populations=populations)
        reached.append(answer.tolerance[0])
    return float(np.median(reached))


# --------------------------------------------------------------------------- live


def dirichlet_live(
    simulate: Simulate,
    observations: Float,
    prior: Prior,
    *,
    seed: int,
    budget: int,
    batch: int = 8,
    change: float = 0.01,
    draws: int = 100,
    populations: int = 5,
    tolerance: float | None = None,
) -> tuple[Posterior, Trace]:
    """D-SMC on class means of fresh simulations, `batch` per label and round, `budget` in all.

    A case is converged when its posterior mean moved less than `change` (total variation) in two rounds
    running; its answer is frozen there, so it does not depend on how long other cases need. Rows of the
    trace are rounds; simulations are shared by all cases.
    """
    z = check_observations(observations, np.atleast_2d(observations).shape[1])
    possible = np.flatnonzero(prior.probabilities > 0)
    check_budget(budget, batch)
    if budget < possible.size:
        raise BadInput(f"a budget of {budget} cannot simulate {possible.size} labels once; raise it")
    simulator = CountedSimulator(simulate, budget, z.shape[1])
    rng = stream(seed, 0)
    n, sums, per_label = len(z), np.zeros((prior.n_labels, z.shape[1])), 0
    rounds: list[Posterior] = []
    simulations: list[Int] = []
    own, calm = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    while simulator.left >= possible.size and np.any(calm < 2):
        more = min(batch, simulator.left // possible.size)
        labels = np.repeat(possible, more)
        np.add.at(sums, labels, simulator(labels, rng))
        per_label += more
        posterior = dirichlet(
            sums / per_label, z, prior, seed=seed, draws=draws, populations=populations, tolerance=tolerance
        )
        running, spent = calm < 2, np.full(n, labels.size)
        own += running
        if rounds:
            posterior = posterior.combined(_chosen(running), rounds[-1])
            spent = np.where(running, spent, simulations[-1])
            move = 0.5 * np.abs(posterior.probabilities - rounds[-1].probabilities).sum(axis=1)
            calm = np.where(running, np.where(move < change, calm + 1, 0), calm)
        rounds.append(posterior)
        simulations.append(spent)
    last, mass = rounds[-1], np.stack([p.probabilities for p in rounds])
    outcome = np.where(calm >= 2, "complete", "budget")
    outcome = np.where(last.effective_simulations == 0, "nothing accepted", outcome)
    trace = Trace(
        tolerance=np.stack([p.tolerance for p in rounds]),
        acceptance=np.ones(mass.shape[:2]),
        simulations=np.stack(simulations),
        ess=np.stack([p.effective_simulations for p in rounds]),
        entropy_bits=entropy_bits(mass),
        mass=mass,
        populations=own,
        outcome=tuple(outcome.tolist()),
    )
    return last, trace


def _chosen(new: Mask) -> Callable[[Float, Float], Float]:
    """Rows of a new column where that is wanted, else of the old one."""
    return lambda one, other: np.where(new.reshape(-1, *([1] * (one.ndim - 1))), one, other)


# --------------------------------------------------------------------------- second-order output
#
# What a posterior on the simplex says about its own spread. All entropies are in bits. total = H(E theta),
# aleatoric = E H(theta), epistemic = total - aleatoric. A Dirichlet fit condenses the draws to alpha0 by the
# moments of all components pooled, sum m_k(1-m_k) / sum var_k - 1. (The paper fits the first component alone;
# the two must not be compared.)
#
# D-SMC with *quantile* tolerances keeps a fixed share 2^-T of prior mass, and that alone caps the top
# probability it can express (`concentration_cap`), however clear the case. The remedies are more
# populations, a sparser prior (alpha0 below K), or an absolute tolerance, for which there is no such cap.


LN2 = float(np.log(2))
ALPHA0_MAX = 1e8  # a posterior without spread: more would only be rounding error
ALPHA0_MIN = 1e-6


def of_draws(log_theta: Float, weight: Float, cap: float | None = None) -> SecondOrder:
    """Of each case's own draws: log_theta (N, S, K), weight (N, S)."""
    w = weight / weight.sum(axis=1, keepdims=True)
    theta = np.exp(log_theta)
    entropy = -np.sum(theta * log_theta, axis=2) / LN2
    mean, square = (np.einsum("ns,nsk->nk", w, power) for power in (theta, theta**2))
    return summarise(mean, square, np.einsum("ns,ns->n", w, entropy), 1 / np.sum(w**2, axis=1), cap)


def summarise(mean: Float, square: Float, entropy: Float, effective: Float, cap: float | None) -> SecondOrder:
    """Bits and Dirichlet fit from averages over weighted draws and their effective number.

    The averages are of theta and theta^2 (N, K), and of the entropy in bits (N,); every label is possible.
    """
    mean = mean / mean.sum(axis=1, keepdims=True)
    total = entropy_bits(mean)
    aleatoric = np.clip(entropy, 0, total)
    return SecondOrder(
        mean=mean,
        total_bits=total,
        aleatoric_bits=aleatoric,
        epistemic_bits=total - aleatoric,
        alpha0=fit_all_components(mean, square).sum(axis=1),
        effective_draws=effective,
        cap=cap,
    )


def of_dirichlet(alpha: Float, *, effective: Float | None = None, cap: float | None = None) -> SecondOrder:
    """The same quantities of Dir(alpha) in closed form; alpha (N, K), zero for impossible labels."""
    alpha = np.atleast_2d(np.asarray(alpha, dtype=float))
    alpha0 = alpha.sum(axis=1)
    mean = alpha / alpha0[:, None]
    total = entropy_bits(mean)
    aleatoric = -np.sum(mean * (digamma(alpha + 1) - digamma(alpha0 + 1)[:, None]), axis=1) / LN2
    return SecondOrder(
        mean=mean,
        total_bits=total,
        aleatoric_bits=np.clip(aleatoric, 0, total),
        epistemic_bits=total - np.clip(aleatoric, 0, total),
        alpha0=alpha0,
        effective_draws=np.zeros(alpha0.size) if effective is None else effective,
        cap=cap,
    )


def fit_all_components(mean: Float, square: Float) -> Float:
    """alpha (N, K) with the spread pooled over components, so that no label's position matters."""
    variance = np.sum(square - mean**2, axis=1)
    ratio = np.sum(mean * (1 - mean), axis=1) / np.maximum(variance, 1e-300) - 1
    return mean * np.clip(ratio, ALPHA0_MIN, ALPHA0_MAX)[:, None]


def dirichlet_differential_entropy(alpha: Float) -> Float:
    """Differential entropy in bits of Dir(alpha) on its possible labels (N,); -inf for a single label."""
    from scipy.special import gammaln

    alpha = np.atleast_2d(np.asarray(alpha, dtype=float))
    possible = alpha > 0
    a = np.where(possible, alpha, 1.0)
    n_labels = possible.sum(axis=1)
    alpha0 = alpha.sum(axis=1)
    log_beta = np.sum(np.where(possible, gammaln(a), 0), axis=1) - gammaln(alpha0)
    spread = np.sum(np.where(possible, (a - 1) * digamma(a), 0), axis=1)
    nats = log_beta + (alpha0 - n_labels) * digamma(alpha0) - spread
    return np.where(n_labels > 1, nats / LN2, -np.inf)


# --------------------------------------------------------------------------- the cap of quantile tolerances


def concentration_cap(alpha: Float | int, populations: int) -> float:
    """Largest posterior mean any label can reach when D-SMC keeps 2^-T of the mass of Dir(alpha).

    Among all regions of that mass, {theta_k >= q} gives label k the largest mean, and theta_k is
    Beta(alpha_k, alpha0 - alpha_k): E[theta_k | theta_k >= q] has a closed form. An integer K stands
    for the flat Dir(1, ..., 1), where it is x + (1-x)/K with x = 1 - 2^(-T/(K-1)).
    It does not apply to absolute tolerances or the soft kernel.
    """
    a = np.ones(alpha) if isinstance(alpha, (int, np.integer)) else np.asarray(alpha, dtype=float)
    a = a[a > 0]
    if a.size == 1:
        return 1.0
    keep = 0.5**populations
    if np.all(a == 1):
        corner = 1 - keep ** (1 / (a.size - 1))
        return float(corner + (1 - corner) / a.size)
    from scipy.special import betaincc, betainccinv  # slow to import, and the usual prior is flat

    rest = a.sum() - a
    q = betainccinv(a, rest, keep)
    top = a / a.sum() * betaincc(a + 1, rest, q) / keep
    top = np.where(q >= 1, 1.0, top)  # a sparse prior has that much mass within rounding of the corner
    return float(np.clip(np.max(top), np.max(a) / a.sum(), 1.0))
