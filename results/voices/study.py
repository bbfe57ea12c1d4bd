"""One local model heard three ways: the table of `results/voices`, from scores that were made on a GPU.

    python results/voices/study.py [--simulate ../shared/data]

`scores/` holds what Qwen2.5-Coder-1.5B said (numbers in the order of the cases; its README says how):
log-probabilities of every text under every prompt, those of the option letters in every order, and the
recipe's posteriors over the bank that the same model wrote (`simulate_own`) or that a large model wrote
(`simulate_strong`), which `--simulate` makes again. Temperatures and pool are the product's. No label of a
case is used but to score answers; what was chosen by labels was chosen on the development panels.
"""

import argparse
import itertools
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, logit, softmax

from simdx.abc.prior import Prior
from simdx.classifier import Classifier
from simdx.metrics.calibration import top_label_ece
from simdx.metrics.scores import auroc
from simdx.panels import load_panel
from simdx.types import Bank, Float, Int
from simdx_contrib.likelihood import (
    NONE_PRIOR,
    WINDOW_WORDS,
    CaseScores,
    fit_temperature,
    length,
    mixture,
    posterior_under,
    stretched,
)
from simdx_contrib.own_texts import texts_of_a_label
from simdx_contrib.voices import FLOOR, pooled

FOLDER = Path("results/voices")
SCORES = FOLDER / "scores"
BANKS = Path("results/banks")
RESAMPLES = 2000
FEW_DRAWS = 25
CHANCE = 200  # draws of what would be right if the answers were calibrated


class Tried(NamedTuple):
    """A panel with its cases, of the data folder; `checklist`: they are lists of questions and answers."""

    labels: int
    cases: str
    ood: str | None = None
    checklist: bool = False
    own_panel: str | None = None  # a file of the data folder; none: packaged, or a development panel


def transferred(name: str, labels: int, *, ood: bool = True, checklist: bool = False) -> Tried:
    outside = f"transfer/{name}/ood.jsonl" if ood else None
    return Tried(labels, f"transfer/{name}/cases.jsonl", outside, checklist, f"transfer/{name}/panel.yaml")


PANELS = {
    "symptom-to-diagnosis": Tried(6, "sd/cases.jsonl", "sd/ood.jsonl"),
    "oral-lesions": Tried(3, "oral/vignettes.jsonl", "oral/ood.jsonl"),
    "case-reports": Tried(7, "pmc/cases.jsonl", "pmc/ood.jsonl"),
    "airways": transferred("airways", 8, checklist=True),
    "clinc10": transferred("clinc10", 10),
    "abstracts": transferred("abstracts", 5, ood=False),
}
# Labels that no panel above has; their cases are among those that are outside of it there.
DEVELOPMENT = {
    "skin": Tried(6, "sd/ood.jsonl"),
    "general": Tried(10, "sd/ood.jsonl"),
    "belly": Tried(6, "pmc/ood.jsonl"),
    "head": Tried(6, "pmc/ood.jsonl"),
    "requests": Tried(16, "transfer/clinc10/ood.jsonl"),
    "heart": Tried(8, "transfer/ddxplus41/cases.jsonl", checklist=True),
    "nerves": Tried(8, "transfer/ddxplus41/cases.jsonl", checklist=True),
}
EVERY = PANELS | DEVELOPMENT


# ----------------------------------------------------------------------------- the recipe's voice


def simulate(panel: str, data: Path) -> None:
    """The recipe's answers over each bank, and how long the cases and the bank's texts are."""
    tried = EVERY[panel]
    source = str(FOLDER / "development" / f"{panel}.yaml") if panel in DEVELOPMENT else panel
    if tried.own_panel is not None:
        source = str(data / tried.own_panel)
    loaded = load_panel(source)
    cases = [row for row in _rows(data / tried.cases) if _label(row) in loaded.names]
    outside = [] if tried.ood is None else _rows(data / tried.ood)
    doors = {"own": Classifier(loaded, _own_bank(panel, loaded.names))}
    if panel in PANELS:
        doors["strong"] = Classifier(source)
    for bank, door in doors.items():
        kept: dict[str, Any] = {"y": [loaded.names.index(_label(row)) for row in cases]}
        for part, rows in (("cases", cases), ("ood", outside)):
            if rows:
                texts = [row["text"] for row in rows]
                table = door.infer_batch_observed(door.observe(texts))
                kept |= {part: table.among_labels, f"{part}_length": [length(text) for text in texts]}
                if table.out_of_class is not None:
                    kept[f"{part}_none"] = table.out_of_class
        kept["usual_length"] = np.mean([min(len(text.split()), WINDOW_WORDS) for text in door.bank.texts])
        np.savez_compressed(SCORES / f"{panel}.simulate_{bank}.npz", **kept)


def _own_bank(panel: str, names: tuple[str, ...]) -> Bank:
    folder = BANKS / f"{panel}-qwen2.5-coder-1.5b"
    beside = folder / "background.jsonl"
    if not beside.is_file():
        beside = BANKS / "backgrounds" / f"{folder.name}-broad.jsonl"
    rows = _rows(folder / "bank.jsonl")
    index = np.array([names.index(row["label"]) for row in rows])
    background = tuple(row["text"] for row in _rows(beside))
    return Bank(panel, names, tuple(row["text"] for row in rows), index, background, name="own")


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _label(row: dict[str, str]) -> str:
    return row["label"] if "label" in row else row["topic"]


# ----------------------------------------------------------------------------- voices


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


def temperatures(panel: str, rows: Int | None = None) -> tuple[float, float]:
    """Of likelihood and letters, found on texts of the model's own bank: all that were scored, or these."""
    some = slice(None) if rows is None else rows
    truth = np.load(SCORES / f"{panel}.own.npz")["label"][some]
    likelihood = fit_temperature(density(f"{panel}.own", EVERY[panel].labels).labels[some], truth)
    return max(1.0, likelihood), fit_temperature(letters(f"{panel}.own")[some], truth)


def heard(
    panel: str, part: str, bank: str, warm: tuple[float, float]
) -> tuple[dict[str, Float], dict[str, Float]]:
    """Each voice's log-likelihoods, and its log odds of none of these.

    Asking has none of the latter, so how unsure it is stands for them.
    """
    n_labels = EVERY[panel].labels
    kept = np.load(SCORES / f"{panel}.simulate_{bank}.npz")
    by_case = stretched(warm[0], kept[f"{part}_length"], float(kept["usual_length"]))
    found, asked = density(f"{panel}.{part}", n_labels).tempered(by_case), letters(f"{panel}.{part}")
    voices = {
        "simulate": np.log(np.maximum(kept[part], FLOOR)),
        "likelihood": found.labels,
        "ask": asked / warm[1],
    }
    inside = np.logaddexp.reduce(found.labels, axis=1) - math.log(n_labels)
    none = {
        "likelihood": found.neutral - inside + logit(NONE_PRIOR),
        "ask": -log_softmax(asked, axis=1).max(axis=1),
    }
    if f"{part}_none" in kept:
        none["simulate"] = logit(np.clip(kept[f"{part}_none"], FLOOR, 1 - FLOOR))
        none[" + ".join(voices)] = (none["simulate"] + none["likelihood"]) / 2
    return voices, none


# ----------------------------------------------------------------------------- figures


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
        "log_loss": -float(np.log(np.maximum(p[np.arange(len(p)), truth], FLOOR)).mean()),
    }  # fmt: skip


def measure(panel: str, bank: str = "own") -> dict[str, Any]:
    tried, warm = EVERY[panel], temperatures(panel)
    truth = np.load(SCORES / f"{panel}.simulate_{bank}.npz")["y"]
    rng, prior = np.random.default_rng(0), Prior.uniform(tried.labels)
    voices, inside = heard(panel, "cases", bank, warm)
    rows: dict[str, Any] = {}
    for size in (1, 2, 3):
        for names in itertools.combinations(voices, size):
            some = {name: voices[name] for name in names}
            p = posterior_under(pooled(some, np.full(len(truth), tried.checklist)), prior)
            rows[" + ".join(names)] = figures(p, truth, rng)
    right = {name: v.argmax(axis=1) == truth for name, v in voices.items()}
    best = max(right, key=lambda name: float(right[name].mean()))
    pool = pooled(voices, np.full(len(truth), tried.checklist)).argmax(axis=1) == truth
    gap = pool.astype(float) - right[best]
    draws = gap[rng.integers(0, len(gap), size=(RESAMPLES, len(gap)))].mean(axis=1)
    interval = np.quantile(draws, [0.025, 0.975]).tolist()
    beside = {"voice": best, "difference": gap.mean(), "interval": interval}
    if (SCORES / f"{panel}.ood.npz").is_file():
        outside = heard(panel, "ood", bank, warm)[1]
        for name in [name for name in inside if name in outside]:
            joined = np.concatenate([inside[name], outside[name]])
            positive = np.r_[np.zeros(len(inside[name])), np.ones(len(outside[name]))]
            rows[name]["none_auroc"] = auroc(joined, positive).value
    return {
        "n": len(truth), "labels": tried.labels, "bank": bank, "checklist": tried.checklist, "voices": rows,
        "temperature": {"likelihood": warm[0], "ask": warm[1]}, "beside_best_voice": beside,
    }  # fmt: skip


def few_texts(panel: str) -> dict[str, float]:
    """All three voices at temperatures from as few texts as a processor is given: the mean over draws."""
    tried, rng = EVERY[panel], np.random.default_rng(0)
    truth = np.load(SCORES / f"{panel}.simulate_own.npz")["y"]
    label = np.load(SCORES / f"{panel}.own.npz")["label"]
    each, found = texts_of_a_label(tried.labels, quick=False), list[tuple[float, float]]()
    for _ in range(FEW_DRAWS):
        by_label = [rng.permutation(np.flatnonzero(label == k))[:each] for k in range(tried.labels)]
        voices, _ = heard(panel, "cases", "own", temperatures(panel, np.concatenate(by_label)))
        pool = pooled(voices, np.full(len(truth), tried.checklist))
        found.append(accuracy_and_ece(posterior_under(pool, Prior.uniform(tried.labels)), truth))
    accuracy, ece = np.mean(found, axis=0)
    return {"accuracy": float(accuracy), "ece": float(ece)}


def trials() -> list[dict[str, Any]]:
    """What was tried on the development panels: the rule first, then one or two changes of it."""
    plain = {"hotter": 1.0, "simulate": 1.0, "total": 1.0, "checklist": 0.5, "growth": 0.5, "ask": "ask"}
    changes: list[dict[str, Any]] = [
        {}, {"hotter": 2**0.25}, {"hotter": 2**0.5}, {"simulate": 2**0.5}, {"total": 1.25}, {"total": 1.5},
        {"simulate": 2**0.5, "total": 1.25}, {"checklist": 0.0}, {"checklist": 1.0}, {"growth": 0.0},
        {"growth": 1.0}, {"hotter": 2**0.5, "growth": 0.0}, {"ask": "described"},
    ]  # fmt: skip
    keys = ("accuracy", "ece", "log_loss")
    found = []
    for change in changes:
        rows = [tried_so(panel, **(plain | change)) for panel in DEVELOPMENT]
        found.append(change | {key: float(np.mean([row[key] for row in rows])) for key in keys})
    return found


def tried_so(
    panel: str, *, hotter: float, simulate: float, total: float, checklist: float, growth: float, ask: str
) -> dict[str, float]:
    """All three voices of a development panel, put together in another way."""
    kept = np.load(SCORES / f"{panel}.simulate_own.npz")
    warm = temperatures(panel)
    longer = np.maximum(kept["cases_length"] / kept["usual_length"], 1.0)[:, None] ** growth
    by_ask = letters(f"{panel}.cases") / warm[1]
    if ask == "described":
        own = np.load(SCORES / f"{panel}.own_described.ask.npz")
        by_ask = letters(f"{panel}.cases_described")
        by_ask = by_ask / fit_temperature(letters(f"{panel}.own_described"), own["label"])
    voices = {
        "simulate": np.log(np.maximum(kept["cases"], FLOOR)) / simulate,
        "likelihood": density(f"{panel}.cases", EVERY[panel].labels).labels / (warm[0] * hotter * longer),
        "ask": by_ask / hotter,
    }
    parts = [np.maximum(log_softmax(v, axis=1), math.log(FLOOR)) for v in voices.values()]
    weights = [1.0, checklist if EVERY[panel].checklist else 1.0, 1.0]
    p = softmax(total * np.average(parts, axis=0, weights=weights), axis=1)
    accuracy, ece = accuracy_and_ece(p, kept["y"])
    loss = -float(np.log(p[np.arange(len(p)), kept["y"]]).mean())
    return {"accuracy": accuracy, "ece": ece, "log_loss": loss}


def means(panels: dict[str, Any]) -> dict[str, Any]:
    keys = ("accuracy", "ece", "ece_if_calibrated", "log_loss")
    names = next(iter(panels.values()))["voices"]
    return {
        name: {key: float(np.mean([p["voices"][name][key] for p in panels.values()])) for key in keys}
        for name in names
    }


def table(panels: dict[str, Any]) -> list[str]:
    lines = [
        "| | " + " | ".join(f"{p} ({r['n']})" for p, r in panels.items()) + " | mean |",
        "|---" * (len(panels) + 2) + "|",
    ]
    for name, mean in means(panels).items():
        cells = []
        for row in panels.values():
            one = row["voices"][name]
            low, high = one["accuracy_interval"]
            cells.append(f"{one['accuracy']:.3f} [{low:.2f}, {high:.2f}] ({one['ece']:.3f})")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {mean['accuracy']:.3f} ({mean['ece']:.3f}) |")
    return lines


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--simulate", type=Path, metavar="DATA", help="answer the cases by the recipe again")
    if (data := parse.parse_args().simulate) is not None:
        for panel in EVERY:
            simulate(panel, data)
    panels = {panel: measure(panel) for panel in PANELS}
    development = {panel: measure(panel) for panel in DEVELOPMENT}
    record = {
        "model": "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M read as bfloat16), one H200",
        "command": "python results/voices/study.py --simulate ../shared/data",
        "panels": panels, "mean": means(panels),
        "few_texts": {panel: few_texts(panel) for panel in PANELS},
        "development": {"panels": development, "mean": means(development), "trials": trials()},
        "beside_a_large_models_bank": {panel: measure(panel, "strong") for panel in PANELS},
    }  # fmt: skip
    (FOLDER / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    head = ["| | " + " | ".join(panels) + " |", "|---" * (len(panels) + 1) + "|"]
    lines = [*table(panels), "", "Out-of-class AUROC:", "", *head]
    for name in ("simulate", "likelihood", "ask", "simulate + likelihood + ask"):
        aurocs = [row["voices"][name].get("none_auroc") for row in panels.values()]
        lines.append(f"| {name} | " + " | ".join("–" if a is None else f"{a:.3f}" for a in aurocs) + " |")
    lines += ["", "Development panels:", "", *table(development)]
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
