"""How good is this bank? A look at it through cases without labels.

Two families of figures:

likeness    Do the cases look like the simulations? Typicality p-values, a two-sample MMD test, and coverage
            both ways, in the embedder's space, which does not depend on the bank, so that cases and
            simulations of one distribution are exchangeable there.
answers     Do the answers look like those of a good bank? Their confidence, whether two comparisons of the
            recipe agree, whether they average to a flat prior, and whether the bank classifies itself.

`fidelity` is the geometric mean of confidence, agreement and balance. That combination was fixed before any
labelled figure was looked at; what it is worth is measured in results/bank_scores. Likeness stands beside it
and not inside it: a test with enough cases tells any simulation from reality, useful or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.abc.logs import log_softmax
from simdx.abc.multinomial import multinomial
from simdx.abc.prior import Prior
from simdx.abc.space import Space, Typicality
from simdx.errors import BadInput
from simdx.methods.calibration_record import Calibration
from simdx.methods.experts import LogLikelihoods
from simdx.methods.panel_data import Observations, PanelData, TrainingRows
from simdx.methods.recipe import sharpened
from simdx.methods.scores import BANDWIDTH, Comparison, Seen
from simdx.report.page import BLUE, ORANGE, drawn
from simdx.types import EmbeddedBank, Float, entropy_bits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILE = 0.95  # of the bank's own nearest distances: what counts as covered
LOW_TYPICALITY = 0.05
FEWEST_CASES = 10
LARGEST_SAMPLE = 1500  # rows of either side in the MMD test: its kernel matrix is quadratic

# The sharpness that fidelity was measured with: scores of banks must not move with a bank's own calibration.
SCORED = Calibration(sharpness=1.5)


@dataclass(frozen=True, slots=True)
class BankScore:
    """Everything `score_bank` finds; the arrays hold the cases' own, in their order."""

    n_cases: int
    n_simulations: int
    typicality_median: float  # .5 where cases are as usual as simulations
    typicality_low: float  # share of cases with a p-value of at most .05
    coverage: float  # share of cases whose nearest simulation is as near as simulations are to each other
    usefulness: float  # share of simulations as near to a case as cases are to each other
    mmd_squared: float  # unbiased; around zero for one distribution
    mmd_p: float
    confidence: float  # mean largest posterior
    entropy_bits: float
    agreement: float  # share of cases on which the recipe's kernel and summary name the same label
    view_agreement: float  # the same for two views that share nothing: words alone, embeddings alone
    balance: float  # 1 minus the distance of the mean posterior from uniform
    self_accuracy: float  # of the kernel on the bank, each simulation left out
    fidelity: float
    typicality: Float  # (N,) p-values
    posterior: Float  # (N, K) in class, uniform prior

    def as_dict(self) -> dict[str, Any]:
        """The figures, without the cases' own."""
        return {key: value for key, value in asdict(self).items() if key not in ("typicality", "posterior")}


def score_bank(
    data: PanelData, observations: Observations, *, permutations: int = 500, seed: int = 0
) -> BankScore:
    """Judge the panel's bank by unlabelled cases. The cases are taken to be of the panel's labels."""
    n, k = len(observations.texts), len(data.panel.names)
    if n < FEWEST_CASES:
        raise BadInput(f"{n} cases cannot judge a bank: give at least {FEWEST_CASES}")
    if permutations < 20:
        raise BadInput("the permutation test needs at least 20 permutations")
    uniform = Prior.uniform(k)
    rows = TrainingRows(data.bank.texts, data.embedded)
    c = Comparison.fit(data.lexicon, rows, bandwidth=BANDWIDTH, self_consistent=True)
    seen = c.observe(observations)
    summary, kernel = c.summary(seen), c.kernel(c.near(seen))
    pooled = log_softmax(summary, axis=1) + log_softmax(kernel, axis=1)
    posterior = sharpened(LogLikelihoods(pooled), uniform.probabilities, SCORED)
    embedded = c.space.transform(observations.vectors)
    answered = multinomial(c.space.bank, c.label_index, k, embedded, uniform, bandwidth=c.bandwidth)
    by_embedding = answered.probabilities
    usual = Typicality.fit(c.space.bank).p_value(embedded)
    squared, p = mmd_test(data.embedded, observations.vectors, permutations, seed)
    confidence = float(posterior.max(axis=1).mean())
    agreement = float((summary.argmax(axis=1) == kernel.argmax(axis=1)).mean())
    balance = 1 - 0.5 * float(np.abs(posterior.mean(axis=0) - 1 / k).sum())
    return BankScore(
        n_cases=n,
        n_simulations=len(data.bank.texts),
        typicality_median=float(np.median(usual)),
        typicality_low=float((usual <= LOW_TYPICALITY).mean()),
        coverage=covered(embedded, c.space.bank),
        usefulness=covered(c.space.bank, embedded),
        mmd_squared=squared,
        mmd_p=p,
        confidence=confidence,
        entropy_bits=float(entropy_bits(posterior).mean()),
        agreement=agreement,
        view_agreement=float((summary.argmax(axis=1) == by_embedding.argmax(axis=1)).mean()),
        balance=balance,
        self_accuracy=self_accuracy(c, data.bank.texts),
        fidelity=float((confidence * agreement * balance) ** (1 / 3)),
        typicality=usual,
        posterior=posterior,
    )


def covered(rows: Float, reference: Float, quantile: float = QUANTILE) -> float:
    """Share of rows whose nearest reference row is within the quantile of the reference's own nearest."""
    judge = Typicality.fit(reference, neighbours=1)
    return float((judge.distance(rows) <= np.quantile(judge.reference, quantile)).mean())


def mmd_test(bank: EmbeddedBank, cases: Float, permutations: int, seed: int) -> tuple[float, float]:
    """Unbiased squared maximum mean discrepancy and its permutation p-value.

    Gaussian kernel, its width the median distance of the pooled rows; both sides are centred on the pooled
    mean, so that swapping rows between the sides changes nothing but the split.
    """
    rng = np.random.default_rng(seed)
    sides = [_sample(np.asarray(bank.vectors), rng), _sample(np.asarray(cases), rng)]
    n, m = len(sides[0]), len(sides[1])
    together = np.concatenate(sides)
    one_label = EmbeddedBank(together, np.zeros(n + m, dtype=np.int64), 1, bank.blocks)
    rows = Space.fit(one_label, centre=True).bank.astype(float)  # one label: the order is kept
    square = np.maximum((rows**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2 * rows @ rows.T, 0)
    width = float(np.median(square[np.triu_indices(n + m, 1)]))
    kernel = np.exp(-square / max(width, 1e-12))
    np.fill_diagonal(kernel, 0.0)
    first = np.zeros((n + m, permutations + 1))
    first[:n, 0] = 1
    for i in range(1, permutations + 1):
        first[rng.permutation(n + m)[:n], i] = 1
    product = kernel @ first
    within_first = (first * product).sum(axis=0)
    across = ((1 - first) * product).sum(axis=0)
    within_second = kernel.sum() - within_first - 2 * across
    value = within_first / (n * (n - 1)) + within_second / (m * (m - 1)) - 2 * across / (n * m)
    return float(value[0]), float((1 + (value[1:] >= value[0] - 1e-12).sum()) / (permutations + 1))


def self_accuracy(c: Comparison, texts: Sequence[str]) -> float:
    """Label-balanced share of simulations (`texts`) that the kernel names rightly from the others."""
    own = Seen(c.lexical.cosines([texts[i] for i in c.space.rows]), c.embedded)
    near = np.exp((c.cosine(own) - 1) / c.bandwidth)
    np.fill_diagonal(near, 0.0)
    counts = np.bincount(c.label_index, minlength=c.n_labels).astype(float)
    starts = np.searchsorted(c.label_index, np.arange(c.n_labels))
    others = np.tile(counts, (len(near), 1))
    others[np.arange(len(near)), c.label_index] = np.maximum(counts[c.label_index] - 1, 1)
    density = np.log(np.maximum(np.add.reduceat(near, starts, axis=1) / others, 1e-300)) + c.bias
    right = log_softmax(density, axis=1).argmax(axis=1) == c.label_index
    return float(np.mean(np.bincount(c.label_index, weights=right, minlength=c.n_labels) / counts))


def draw_score(score: BankScore) -> str:
    """The cases' typicality under the bank: even bars for a bank that imitates them well."""
    shares, edges = np.histogram(score.typicality, bins=10, range=(0, 1))

    def draw(axes: Axes) -> None:
        axes.bar(edges[:-1], shares / len(score.typicality), width=0.095, align="edge", color=BLUE)
        axes.axhline(0.1, linestyle="--", color=ORANGE)
        axes.set_ylabel("share of cases")
        axes.set_xlabel(
            f"typicality of the cases (fidelity {score.fidelity:.2f}, coverage {score.coverage:.2f}, "
            f"MMD p {score.mmd_p:.3f})"
        )

    title = f"typicality of {score.n_cases} cases among {score.n_simulations} simulations"
    return drawn(title, (5.2, 3.2), draw, inline=False) + "\n"


def in_words(score: BankScore) -> str:
    different = "tells them apart" if score.mmd_p <= 0.05 else "does not tell them apart"
    lines: Sequence[str] = (
        f"{score.n_cases} cases, {score.n_simulations} simulations",
        f"  fidelity         {score.fidelity:.3f}   (confidence, agreement and balance together)",
        f"  confidence       {score.confidence:.3f}   mean entropy {score.entropy_bits:.2f} bits",
        f"  agreement        {score.agreement:.3f}   of kernel and summary; words and embeddings "
        f"{score.view_agreement:.3f}",
        f"  balance          {score.balance:.3f}   of the mean posterior (meant for evenly mixed cases)",
        f"  self-accuracy    {score.self_accuracy:.3f}   of the bank on itself, left out in turn",
        f"  typicality       {score.typicality_median:.3f}   of simulations are as unusual as the median "
        f"case; at most {LOW_TYPICALITY:g} for {score.typicality_low:.0%}",
        f"  coverage         {score.coverage:.3f}   of the cases by the bank; of the bank by the cases "
        f"{score.usefulness:.3f}",
        f"  MMD²             {score.mmd_squared:.4f}   p {score.mmd_p:.3f}: the test {different}",
    )
    return "\n".join(lines)


def _sample(rows: Float, rng: np.random.Generator) -> Float:
    if len(rows) <= LARGEST_SAMPLE:
        return rows
    return rows[np.sort(rng.permutation(len(rows))[:LARGEST_SAMPLE])]
