"""The method's pictures, from packaged data: `python docs/tools/pictures.py` writes docs/pictures/*.svg.

Every point, curve and bar is what the engines of `simdx.abc` return on the oral-lesions panel and its
packaged vignettes. No labelled case chooses anything here; the pictures explain, they do not measure.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")

from matplotlib import pyplot as plt
from scipy.special import gammaln

from simdx.abc.dirichlet import concentration_cap, fit_all_components
from simdx.abc.multinomial import multinomial, simulation_weights
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.classifier import Classifier
from simdx.datasets import load_oral
from simdx.demo import CASES
from simdx.types import Float

HERE = Path(__file__).resolve().parents[1] / "pictures"
COLOURS = ("#d55e00", "#0072b2", "#009e73")  # told apart by readers who see few colours
GREY, INK = "#9a9a9a", "#333333"
SHORT = {
    "oral squamous cell carcinoma": "carcinoma",
    "oral mucocele": "mucocele",
    "atrophic glossitis": "glossitis",
}
AMBIGUOUS = CASES[1][1]
POPULATIONS, SUBSCRIPTS = 5, "₀₁₂₃₄₅₆₇₈₉"
BANDWIDTH = 0.05
_TAG, _LONG = re.compile(r"<[^>]*>"), re.compile(r"(\d+\.\d{2})\d+")

plt.rcParams |= {
    "svg.fonttype": "none", "svg.hashsalt": "simdx", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "text.color": INK, "axes.edgecolor": INK,
    "figure.facecolor": "white",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    classifier = Classifier("oral-lesions")
    bank_map(classifier, out)
    tolerance(classifier, out)
    kernels(classifier, out)
    simplex(classifier, out)
    cap(out)
    objectives(classifier, out)
    background(classifier, out)
    exactness(out)


def bank_map(classifier: Classifier, out: Path) -> None:
    """Simulations, background and one case in the two directions in which the bank varies most."""
    space = Space.fit(classifier.data.embedded, centre=True)
    _, _, axes = np.linalg.svd(space.bank - space.bank.mean(axis=0), full_matrices=False)
    place = axes[:2].T
    figure, ax = plt.subplots(figsize=(6.4, 4.2))
    assert space.background is not None
    other = space.background @ place
    ax.scatter(*other.T, s=12, c=GREY, marker="x", linewidths=0.7, label="background (other conditions)")
    for k, name in enumerate(classifier.panel.names):
        own = space.bank[space.label_index == k] @ place
        ax.scatter(*own.T, s=12, c=COLOURS[k], linewidths=0, label=f"simulated: {SHORT[name]}")
    case = space.transform(classifier.observe([AMBIGUOUS]).vectors) @ place
    ax.scatter(*case.T, s=140, c=INK, marker="*", label="the case")
    ax.set(xticks=[], yticks=[], xlabel="first direction", ylabel="second direction")
    ax.legend(frameon=False, fontsize=8, loc="best")
    _save(figure, out / "bank_map.svg", "Every point is a simulated description; the star is the case")


def tolerance(classifier: Classifier, out: Path) -> None:
    """Median tolerances: distances of the bank to a case, and the label shares inside each."""
    space = Space.fit(classifier.data.embedded, centre=False)
    z = space.transform(classifier.observe([AMBIGUOUS]).vectors)
    uniform = Prior.uniform(space.n_labels)
    bank = space.bank, space.label_index, space.n_labels, z, uniform
    limits = [
        multinomial(*bank, kernel="hard", boundary="whole", populations=t) for t in range(1, POPULATIONS + 1)
    ]
    distance = 1 - (space.bank @ z[0])
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), width_ratios=(3, 2))
    # The bank holds as many simulations of one label as of another, so each carries the same prior mass.
    rank = np.argsort(np.argsort(distance))
    for k in range(space.n_labels):
        own = space.label_index == k
        left.scatter(distance[own], rank[own], s=6, c=COLOURS[k], linewidths=0)
    for t, edge in enumerate((limit.tolerance[0] for limit in limits), start=1):
        left.axvline(edge, c=INK, lw=0.7, ls=":")
        left.text(edge, len(distance) * 1.02, f"ε{SUBSCRIPTS[t]}", ha="center", fontsize=8)
    left.set(xlabel="distance to the case, 1 − cos", ylabel="simulations, nearest first")
    shares = np.array([limit.probabilities[0] for limit in limits])
    names = [f"T={t}" for t in range(1, POPULATIONS + 1)]
    bottom = np.zeros(POPULATIONS)
    for k, label in enumerate(classifier.panel.names):
        right.bar(names, shares[:, k], bottom=bottom, color=COLOURS[k], width=0.7, label=SHORT[label])
        bottom += shares[:, k]
    right.set_ylabel("label shares of what is kept")
    right.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    _save(figure, out / "tolerance.svg", "Each population halves what is kept; the shares are the posterior")


def kernels(classifier: Classifier, out: Path) -> None:
    """The weight of every simulation under the hard and the soft kernel, for one case."""
    space = Space.fit(classifier.data.embedded, centre=True)
    z = space.transform(classifier.observe([AMBIGUOUS]).vectors)
    uniform = Prior.uniform(space.n_labels)
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 4.2), width_ratios=(2, 1), sharex="col")
    kinds = (
        ("hard: nearest 2⁻⁵ of prior mass", {"kernel": "hard", "populations": POPULATIONS}),
        (f"soft: exp(−distance / {BANDWIDTH})", {"kernel": "soft", "bandwidth": BANDWIDTH}),
    )
    for (title, options), (ax, side) in zip(kinds, axes, strict=True):
        bank = (space.bank, space.label_index, space.n_labels, z, uniform)
        weight = simulation_weights(*bank, **options)[0]
        posterior = multinomial(*bank, **options)
        distance = 1 - space.bank @ z[0]
        for k in range(space.n_labels):
            own = (space.label_index == k) & (weight > 1e-4)  # a line too short to be seen is left out
            ax.vlines(distance[own], 0, weight[own], colors=COLOURS[k], lw=1.4)
        ax.set_title(f"{title}; {posterior.effective_simulations[0]:.0f} effective simulations", fontsize=9)
        ax.set_ylabel("share of the answer")
        side.bar(range(space.n_labels), posterior.probabilities[0], color=COLOURS)
        side.set_xticks(range(space.n_labels), [SHORT[n] for n in classifier.panel.names], fontsize=8)
        side.set(ylim=(0, 1))
        side.set_title("posterior", fontsize=9)
    axes[1, 0].set_xlabel("distance to the case, 1 − cos")
    _save(figure, out / "kernels.svg", "Which simulations carry the answer under each kernel")


def simplex(classifier: Classifier, out: Path) -> None:
    """D-SMC: prior draws and what is kept of them, for a clear, an ambiguous and an outside case."""
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
    prior_draws = np.random.default_rng(0).dirichlet(np.ones(3), 150) @ corners
    figure, axes = plt.subplots(1, 3, figsize=(7.8, 3.1))
    for ax, (title, text) in zip(axes, CASES, strict=True):
        ax.plot(*corners[[0, 1, 2, 0]].T, c=INK, lw=0.8)
        ax.scatter(*prior_draws.T, s=3, c=GREY, linewidths=0, alpha=0.5)
        draws = classifier.simplex_draws(text, count=120) @ corners
        ax.scatter(*draws.T, s=4, c="#cc79a7", linewidths=0)
        second = classifier.infer(text, explain=False).second_order
        assert second is not None
        mean = np.array(list(second.mean.values())) @ corners
        ax.plot(*mean, "o", ms=6, c=INK)
        for k, name in enumerate(classifier.panel.names):
            x, y = corners[k]
            ax.text(x, y + (0.04 if k == 2 else -0.1), SHORT[name], ha="center", color=COLOURS[k], fontsize=8)
        ax.set_title(title, fontsize=9, pad=14)
        bits = f"{second.aleatoric_bits:.2f} aleatoric + {second.epistemic_bits:.3f} epistemic bits"
        ax.text(0.5, -0.24, bits, ha="center", fontsize=8)
        ax.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.3, 1))
        ax.axis("off")
    _save(figure, out / "simplex.svg", "Grey: prior draws. Colour: the nearest 1/32 of them. Dot: their mean")


def cap(out: Path) -> None:
    """How much one label can get from D-SMC when a fixed share of prior mass is kept."""
    figure, ax = plt.subplots(figsize=(5.6, 3.2))
    populations = list(range(1, 21))
    for labels, style in ((2, "-"), (3, "-"), (6, "--"), (7, "-."), (100, ":")):
        caps = [concentration_cap(labels, t) for t in populations]
        ax.plot(populations, caps, style, label=f"K = {labels}")
    ax.axvline(POPULATIONS, c=GREY, lw=0.7)
    ax.set(xlabel="populations T (2⁻ᵀ of the prior is kept)", ylabel="largest possible probability")
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False, fontsize=8, title="flat prior", title_fontsize=8)
    title = "A fixed share of prior mass caps what D-SMC can say, however clear the case"
    _save(figure, out / "cap.svg", title)


def objectives(classifier: Classifier, out: Path) -> None:
    """Three objectives of the amortised network as functions of alpha0, for one real D-SMC posterior."""
    theta = np.maximum(classifier.simplex_draws(AMBIGUOUS, count=500), 1e-12)
    mean = theta.mean(axis=0)
    fitted = fit_all_components(mean[None], (theta**2).mean(axis=0)[None])[0]
    alpha0 = np.geomspace(2, 1e4, 300)
    curves = {
        "log density at the mean (the paper's)": np.log(mean),
        "mean log density of the draws": np.log(theta).mean(axis=0),
    }
    figure, ax = plt.subplots(figsize=(6, 3.4))
    for (label, statistic), colour in zip(curves.items(), COLOURS, strict=False):
        value = _density(alpha0, mean, statistic)
        ax.plot(alpha0, value, c=colour, label=label)
        if 0 < value.argmax() < len(value) - 1:
            ax.plot(alpha0[value.argmax()], value.max(), "o", c=colour)
    ax.axvline(fitted.sum(), c=GREY, ls=":", lw=1, label="α₀ of the draws, by moments")
    ax.set(xscale="log", xlabel="α₀, the mean held fixed", ylabel="objective, nats", ylim=(-12, 10))
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    _save(figure, out / "objectives.svg", "At the mean there is no largest value: α₀ grows without end")


def background(classifier: Classifier, out: Path) -> None:
    """The probability of none of these on the packaged vignettes and on the packaged outside cases."""
    benchmark = load_oral()
    assert benchmark.ood is not None
    outside: dict[bool, list[str]] = {True: [], False: []}
    for case in benchmark.ood.cases:
        outside[case.fields.get("distance") == "near"].append(case.text)
    groups = {
        "vignettes of the three labels": benchmark.cases.texts,
        "other conditions, near": outside[True],
        "other conditions, far": outside[False],
    }
    figure, ax = plt.subplots(figsize=(6, 3))
    for (label, texts), colour in zip(groups.items(), ("#0072b2", "#e69f00", "#d55e00"), strict=True):
        values = np.sort(classifier.infer_batch(texts).out_of_class)
        share = np.arange(1, len(values) + 1) / len(values)
        ax.step(values, share, where="post", c=colour, label=f"{label} ({len(values)})")
    ax.set(xlabel="probability of none of these", ylabel="share of cases at or below")
    ax.set(xlim=(-0.02, 1.02), ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    _save(figure, out / "background.svg", "The background hypothesis takes the cases that belong to no label")


def _density(alpha0: Float, mean: Float, statistic: Float) -> Float:
    """Expected log density of Dir(alpha0 * mean), given E log theta."""
    alpha = alpha0[:, None] * mean
    return gammaln(alpha0) - gammaln(alpha).sum(axis=1) + ((alpha - 1) * statistic).sum(axis=1)


def exactness(out: Path) -> None:
    """ABC beside the exact posterior under its own simulator, as the committed record has it."""
    record = json.loads((HERE.parents[1] / "results" / "voices" / "exactness.json").read_text())
    shades = (*COLOURS, "#cc79a7", "#e69f00", INK)
    sets = record["sets"]
    figure, axes = plt.subplots(len(sets), 2, figsize=(7.2, 2.9 * len(sets)), squeeze=False)
    for (name, found), row in zip(sets.items(), axes, strict=True):
        for axis, key in zip(row, ("total_variation", "ece"), strict=True):
            for (method, pools), colour in zip(found["pools"].items(), shades, strict=True):
                values = [pool[key] for pool in pools.values()]
                axis.plot([int(size) for size in pools], values, marker="o", ms=3, color=colour, label=method)
            axis.set_xscale("log")
            axis.set_ylim(bottom=0)
            axis.set_xlabel("texts in the pool, per label")
        row[1].axhline(found["exact"]["ece"], color=GREY, ls="--", label="exact")
        row[0].set_ylabel("total variation to the exact posterior")
        row[1].set_ylabel("calibration error")
        row[0].set_title(f"{name} ({found['n']})", loc="left")
    handles = axes[0, 1].get_legend_handles_labels()
    axes[0, 0].legend(*handles, fontsize=7, frameon=False, loc="lower left", ncol=2)
    _save(figure, out / "exactness.svg", "ABC beside the exact posterior under its own simulator")


def _save(figure: plt.Figure, path: Path, title: str) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Title": title, "Creator": "simdx"})
    plt.close(figure)
    # Two decimals of a point are finer than a screen, and the file is far smaller.
    text = path.read_text(encoding="utf-8")
    path.write_text(_TAG.sub(lambda tag: _LONG.sub(r"\1", tag[0]), text), encoding="utf-8")


if __name__ == "__main__":
    main()
