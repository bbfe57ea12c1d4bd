"""One local model heard three ways: the table of `results/voices`, from scores that were made on a GPU.

    python -m benchmarks.voices

`scores/` holds what Qwen2.5-Coder-1.5B said (numbers in the order of the cases; its README says how):
log-probabilities of every text under every prompt, those of the option letters in every order, and the
recipe's posteriors over the bank that the same model wrote (`simulate_own`) or that a large model wrote
(`simulate_strong`). Temperatures and pool are the product's. No label of a case is used but to score answers.
"""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax, logit, softmax

from simdx.abc.prior import Prior
from simdx.metrics.calibration import top_label_ece
from simdx.metrics.scores import auroc
from simdx.types import Float, Int
from simdx.voices.likelihood import NONE_PRIOR, CaseScores, fit_temperature, mixture, posterior_under
from simdx.voices.pooling import FLOOR, HARDER, pooled

FOLDER = Path("results/voices")
SCORES = FOLDER / "scores"
# Panel -> labels, is it question-and-answer text
PANELS = {
    "symptom-to-diagnosis": (6, False),
    "oral-lesions": (3, False),
    "case-reports": (7, False),
    "airways": (8, True),
    "clinc10": (10, False),
    "abstracts": (5, False),
}
# Whose simulated texts a panel's temperatures are found on: its own bank's, else a large model's.
WRITERS = {"own": "its own texts", "strong": "a large model's texts"}
RESAMPLES = 2000
CHANCE = 200  # draws of what would be right if the answers were calibrated


def density(name: str, n_labels: int) -> CaseScores:
    """A case's score is the mean of its windows', as in the product."""
    found = np.load(SCORES / f"{name}.npz")
    owner = found["owner"]
    sums = np.zeros((owner.max() + 1, found["scores"].shape[1]))
    np.add.at(sums, owner, found["scores"])
    return mixture(sums / np.bincount(owner)[:, None], n_labels)


def letters(name: str) -> Float:
    """(N, K) log of the mean probability over the orders of the options."""
    found = np.load(SCORES / f"{name}.ask.npz")["letters"]
    return np.log(np.maximum(softmax(found, axis=2).mean(axis=1), FLOOR))


def temperatures(panel: str) -> tuple[tuple[float, float], str] | None:
    """Of likelihood and letters, and whose texts they were found on; None where none were scored."""
    for writer, about in WRITERS.items():
        path = SCORES / f"{panel}.{writer}.npz"
        if path.is_file():
            truth = np.load(path)["label"]
            likelihood = fit_temperature(density(f"{panel}.{writer}", PANELS[panel][0]).labels, truth)
            ask = fit_temperature(letters(f"{panel}.{writer}"), truth)
            return (HARDER * max(1.0, likelihood), HARDER * ask), about
    return None


def heard(panel: str, part: str, bank: str, n_labels: int, warm: tuple[float, float]) -> dict[str, Float]:
    recipe = np.load(SCORES / f"{panel}.simulate_{bank}.npz")[part]
    return {
        "simulate": np.log(np.maximum(recipe, FLOOR)),
        "likelihood": density(f"{panel}.{part}", n_labels).tempered(warm[0]),
        "ask": letters(f"{panel}.{part}") / warm[1],
    }


def none_signs(
    panel: str, part: str, bank: str, n_labels: int, warm: tuple[float, float]
) -> dict[str, Float]:
    """Log odds of none of these, by voice; asking has none, so how unsure it is stands for it."""
    found = density(f"{panel}.{part}", n_labels)
    inside = np.logaddexp.reduce(found.tempered(warm[0]), axis=1) - math.log(n_labels)
    signs = {
        "likelihood": found.neutral / warm[0] - inside + logit(NONE_PRIOR),
        "ask": -log_softmax(letters(f"{panel}.{part}"), axis=1).max(axis=1),
    }
    kept = np.load(SCORES / f"{panel}.simulate_{bank}.npz")
    if f"{part}_none" in kept:
        signs["simulate"] = logit(np.clip(kept[f"{part}_none"], FLOOR, 1 - FLOOR))
        signs["simulate + likelihood + ask"] = (signs["simulate"] + signs["likelihood"]) / 2
    return signs


def _there(panel: str, part: str) -> bool:
    return (SCORES / f"{panel}.{part}.npz").is_file()


def accuracy_and_ece(p: Float, truth: Int) -> tuple[float, float]:
    right = p.argmax(axis=1) == truth
    return float(right.mean()), top_label_ece(p.max(axis=1), right.astype(float))


def figures(p: Float, truth: Int, rng: np.random.Generator) -> dict[str, Any]:
    """Accuracy and ECE with 95 % bootstrap intervals over cases, and the ECE that chance alone would show."""
    draws = rng.integers(0, len(truth), size=(RESAMPLES, len(truth)))
    again = np.array([accuracy_and_ece(p[d], truth[d]) for d in draws])
    low, high = np.quantile(again, [0.025, 0.975], axis=0)
    sure = p.max(axis=1)
    chance = [top_label_ece(sure, (rng.random(len(sure)) < sure).astype(float)) for _ in range(CHANCE)]
    return {
        "accuracy": accuracy_and_ece(p, truth)[0], "accuracy_interval": [float(low[0]), float(high[0])],
        "ece": accuracy_and_ece(p, truth)[1], "ece_interval": [float(low[1]), float(high[1])],
        "ece_if_calibrated": float(np.mean(chance)),
    }  # fmt: skip


def measure(panel: str, warm: tuple[float, float], about: str, bank: str = "own") -> dict[str, Any]:
    n_labels, checklist = PANELS[panel]
    truth = np.load(SCORES / f"{panel}.simulate_{bank}.npz")["y"]
    rng, prior = np.random.default_rng(0), Prior.uniform(n_labels)
    voices = heard(panel, "cases", bank, n_labels, warm)
    rows: dict[str, Any] = {}
    for size in (1, 2, 3):
        for names in itertools.combinations(voices, size):
            some = {name: voices[name] for name in names}
            p = posterior_under(pooled(some, np.full(len(truth), checklist)), prior)
            rows[" + ".join(names)] = figures(p, truth, rng)
    if _there(panel, "ood"):
        inside, outside = (none_signs(panel, part, bank, n_labels, warm) for part in ("cases", "ood"))
        for name in [name for name in inside if name in outside]:
            sign = inside[name]
            joined = np.concatenate([sign, outside[name]])
            positive = np.r_[np.zeros(len(sign)), np.ones(len(outside[name]))]
            rows[name]["none_auroc"] = auroc(joined, positive).value
    return {
        "n": len(truth), "labels": n_labels, "bank": bank, "checklist": checklist, "voices": rows,
        "temperature": {"likelihood": warm[0], "ask": warm[1], "found_on": about},
    }  # fmt: skip


def second_voice(panel: str, warm: tuple[float, float]) -> dict[str, Any]:
    """The same pool on texts that a large model wrote: what the rule could be judged by without a label."""
    kept, n_labels = np.load(SCORES / f"{panel}.simulate_on_strong.npz"), PANELS[panel][0]
    voices = {
        "simulate": np.log(np.maximum(kept["p"], FLOOR)),
        "likelihood": density(f"{panel}.strong", n_labels).tempered(warm[0]),
        "ask": letters(f"{panel}.strong") / warm[1],
    }
    rng, prior = np.random.default_rng(0), Prior.uniform(n_labels)
    every = {**{name: {name: v} for name, v in voices.items()}, " + ".join(voices): voices}
    return {
        name: figures(posterior_under(pooled(some), prior), kept["y"], rng) for name, some in every.items()
    }


def main() -> None:
    found = {panel: temperatures(panel) for panel in PANELS}
    known = [warm for warm in found.values() if warm is not None]
    middle = np.exp(np.mean(np.log([warm for warm, _ in known]), axis=0))
    shared = (float(middle[0]), float(middle[1])), "the other panels' mean"
    settled = {panel: warm or shared for panel, warm in found.items()}
    panels = {panel: measure(panel, *settled[panel]) for panel in PANELS}
    names = list(next(iter(panels.values()))["voices"])
    means = {
        name: {
            key: float(np.mean([p["voices"][name][key] for p in panels.values()]))
            for key in ("accuracy", "ece", "ece_if_calibrated")
        }
        for name in names
    }
    record = {
        "model": "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M read as bfloat16), one H200",
        "command": "python -m benchmarks.voices",
        "panels": panels, "mean": means,
        "beside_a_large_models_bank": {
            panel: measure(panel, *settled[panel], "strong")
            for panel in PANELS
            if _there(panel, "simulate_strong")
        },
        "second_voice": {
            panel: second_voice(panel, settled[panel][0])
            for panel in PANELS
            if _there(panel, "simulate_on_strong")
        },
    }  # fmt: skip
    (FOLDER / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    lines = [
        "| | " + " | ".join(f"{p} ({r['n']})" for p, r in panels.items()) + " | mean |",
        "|---" * (len(panels) + 2) + "|",
    ]
    for name in names:
        cells = []
        for row in panels.values():
            one = row["voices"][name]
            low, high = one["accuracy_interval"]
            cells.append(f"{one['accuracy']:.3f} [{low:.2f}, {high:.2f}] ({one['ece']:.3f})")
        mean = means[name]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {mean['accuracy']:.3f} ({mean['ece']:.3f}) |")
    lines += [
        "",
        "Out-of-class AUROC:",
        "",
        "| | " + " | ".join(panels) + " |",
        "|---" * (len(panels) + 1) + "|",
    ]
    for name in ("simulate", "likelihood", "ask", names[-1]):
        aurocs = [row["voices"][name].get("none_auroc") for row in panels.values()]
        lines.append(f"| {name} | " + " | ".join("–" if a is None else f"{a:.3f}" for a in aurocs) + " |")
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
