"""Does a score that sees no label rank banks as their labelled accuracy does?

    python benchmarks/bank_scores.py banks --panel NAME     # scores and labelled results of many banks
    python benchmarks/bank_scores.py report                 # rank correlations, README

Banks of a panel: its two reference banks, both together, mixtures, thinned ones, ones with swapped labels,
one-sided ones (only the shorter or the longer half of every label), and any given with --extra NAME=PATH.
Every candidate score is computed from texts alone; labels of cases are used for the reported accuracy and log
loss only. `fidelity`, the score `simdx bank score` calls by that name, was fixed before this was first run.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from simdx.bank.files import background_texts, read_bank
from simdx.bank_score import score_bank
from simdx.datasets import read_cases
from simdx.embedders import embed_cached, embed_texts, get_embedder
from simdx.experiments.records import current_commit
from simdx.methods import Material, Observations
from simdx.panels import PACKAGED, load_source
from simdx.types import Bank, EmbeddedBank, Float, Int

FILES = {
    "oral-lesions": "oral/vignettes.jsonl",
    "symptom-to-diagnosis": "sd/cases.jsonl",
    "case-reports": "pmc/cases.jsonl",
}
# Each candidate with the sign that should make larger better.
CANDIDATES = {
    "fidelity": 1,
    "confidence": 1,
    "agreement": 1,
    "view_agreement": 1,
    "balance": 1,
    "self_accuracy": 1,
    "typicality_median": 1,
    "typicality_low": -1,
    "coverage": 1,
    "usefulness": 1,
    "mmd_squared": -1,
    "n_simulations": 1,
}
SHOWN = ("fidelity", "confidence", "agreement", "view_agreement", "balance", "self_accuracy",
         "typicality_median", "coverage", "mmd_squared")  # fmt: skip
SEEDS = 3
RESAMPLES = 2000
PERMUTATIONS = 20  # the study ranks by the estimate, not by its p-value


def variants(first: Bank, second: Bank, seeds: int) -> Iterator[tuple[str, str, Bank]]:
    """(kind, name, bank) of everything made from two reference banks."""
    both = joined(first, second, "both")
    yield "reference", "bank", first
    yield "reference", "bank_b", second
    yield "reference", "both", both
    for seed in range(seeds):
        for share in (0.5, 0.25):
            yield "thinned", f"both {share:.0%} #{seed}", thinned(both, share, seed)
        for count in (10, 5):
            yield "thinned", f"both {count} a label #{seed}", thinned(both, count, seed)
    for seed in range(min(seeds, 2)):
        for share in (0.1, 0.2, 0.3):
            yield "noised", f"both {share:.0%} swapped #{seed}", noised(both, share, seed)
    for name in ("short", "long"):
        yield "one-sided", f"both {name}", one_sided(both, longer=name == "long")
    for share in (0.25, 0.75):
        mixed = joined(thinned(first, share, 0), thinned(second, 1 - share, 1), "mixture")
        yield "mixture", f"bank {share:.0%} + bank_b {1 - share:.0%}", mixed


def rows_of(bank: Bank, rows: Int) -> Bank:
    return bank.subset(rows)


def joined(one: Bank, two: Bank, name: str) -> Bank:
    index = np.concatenate([one.label_index, two.label_index])
    return replace(one, texts=(*one.texts, *two.texts), label_index=index, name=name)


def thinned(bank: Bank, amount: float, seed: int) -> Bank:
    """A share (below 1) or a number of every label's rows."""
    rng = np.random.default_rng([seed, round(amount * 100)])
    kept: list[int] = []
    for label in range(len(bank.labels)):
        rows = rng.permutation(np.flatnonzero(bank.label_index == label))
        kept += rows[: int(amount) if amount >= 1 else max(2, round(amount * len(rows)))].tolist()
    return rows_of(bank, np.sort(kept))


def noised(bank: Bank, share: float, seed: int) -> Bank:
    """That share of rows gets another label, chosen at random."""
    rng = np.random.default_rng([seed, round(share * 100), 7])
    index, k = bank.label_index.copy(), len(bank.labels)
    wrong = rng.permutation(len(index))[: round(share * len(index))]
    index[wrong] = (index[wrong] + rng.integers(1, k, len(wrong))) % k
    return replace(bank, label_index=index)


def one_sided(bank: Bank, *, longer: bool) -> Bank:
    kept: list[int] = []
    for label in range(len(bank.labels)):
        rows = np.flatnonzero(bank.label_index == label)
        order = rows[np.argsort([len(bank.texts[i]) for i in rows], kind="stable")]
        half = len(order) // 2
        kept += (order[half:] if longer else order[:half]).tolist()
    return rows_of(bank, np.sort(kept))


def banks(name: str, data: Path, folder: Path, extra: list[str], seeds: int) -> None:
    source = load_source(name)
    embedder = get_embedder("wordllama")
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    background = background_texts(source.folder / "background.jsonl")
    every = list(variants(first, second, seeds))
    for entry in extra:
        label, _, path = entry.partition("=")
        every.append(("simulator", label, read_bank(Path(path), source.panel)))
    texts = sorted({text for _, _, bank in every for text in bank.texts})
    vector_of = dict(zip(texts, embed_cached(embedder, texts), strict=True))
    cases = read_cases(data / FILES[name], labels=source.panel.names)
    y = cases.label_index(source.panel.names)
    seen = Observations(tuple(cases.texts), embed_texts(embedder, cases.texts), tuple(range(len(y))))
    k = len(source.panel.names)
    out: list[dict[str, Any]] = []
    for kind, title, bank in every:
        # The background belongs to the vocabulary of every bank alike, as it does in the shipped recipe.
        bank = replace(bank, background=background)
        vectors = np.array([vector_of[text] for text in bank.texts])
        material = Material(
            source.panel, bank, EmbeddedBank(vectors, bank.label_index, k, embedder.blocks), embedder
        )
        found = score_bank(material, seen, permutations=PERMUTATIONS)
        p = found.posterior
        truth = p[np.arange(len(y)), y]
        out.append({
            "kind": kind, "bank": title, "scores": found.as_dict(),
            "labelled": {
                "accuracy": float((p.argmax(axis=1) == y).mean()),
                "nll": float(-np.log(np.maximum(truth, 1e-12)).mean()),
            },
        })  # fmt: skip
        print(name, title, out[-1]["labelled"], round(found.fidelity, 3), flush=True)
        write(folder / f"{name}.json", {
            "panel": name, "dataset": cases.hash, "cases": len(y), "embedder": embedder.id,
            "command": f"python benchmarks/bank_scores.py banks --panel {name} --seeds {seeds}"
            + "".join(f" --extra {entry.partition('=')[0]}=DIR" for entry in extra),
            "commit": current_commit(), "banks": out,
        })  # fmt: skip


# --------------------------------------------------------------------------- rank correlations


def correlation(score: Float, target: Float) -> float:
    if len(np.unique(score)) < 2 or len(np.unique(target)) < 2:
        return float("nan")
    return float(spearmanr(score, target).statistic)


def column(rows: list[dict[str, Any]], candidate: str) -> Float:
    return CANDIDATES[candidate] * np.array([row["scores"][candidate] for row in rows])


def target(rows: list[dict[str, Any]], name: str) -> Float:
    return (1 if name == "accuracy" else -1) * np.array([row["labelled"][name] for row in rows])


def mean_within(panels: list[list[dict[str, Any]]], candidate: str, of: str) -> float:
    """Rank correlations inside each panel, averaged: a score need not compare banks of two panels."""
    return float(np.nanmean([correlation(column(rows, candidate), target(rows, of)) for rows in panels]))


def interval(panels: list[list[dict[str, Any]]], candidate: str, of: str, clustered: bool) -> list[float]:
    """Percentile bootstrap over the banks of each panel; `clustered` resamples whole panels first."""
    rng = np.random.default_rng(0)
    each = np.stack([resampled(column(rows, candidate), target(rows, of), rng) for rows in panels])
    if clustered:
        picked = rng.integers(0, len(panels), size=(len(panels), RESAMPLES))
        each = each[picked, np.arange(RESAMPLES)]
    return [float(v) for v in np.nanpercentile(np.nanmean(each, axis=0), [2.5, 97.5])]


def resampled(score: Float, truth: Float, rng: np.random.Generator) -> Float:
    """(RESAMPLES,) rank correlations of bootstrap samples of the banks."""
    rows = rng.integers(0, len(score), size=(RESAMPLES, len(score)))
    a, b = (rankdata(values[rows], axis=1) for values in (score, truth))
    a, b = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in (a, b))
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(scale > 0, (a * b).sum(axis=1) / np.where(scale > 0, scale, 1), np.nan)


def left_out(panels: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The best candidate of two panels, judged on the third."""
    out: dict[str, Any] = {}
    for name, rows in panels.items():
        others = [r for n, r in panels.items() if n != name]
        best = max(CANDIDATES, key=lambda candidate: mean_within(others, candidate, "accuracy"))
        out[name] = {"chosen": best, "spearman": correlation(column(rows, best), target(rows, "accuracy"))}
    out["mean"] = float(np.mean([out[name]["spearman"] for name in panels]))
    return out


def report(folder: Path) -> None:
    records = {n: json.loads((folder / f"{n}.json").read_text()) for n in PACKAGED}
    panels = {n: r["banks"] for n, r in records.items()}
    lists = list(panels.values())
    whole = {n: [r for r in rows if r["kind"] in ("reference", "mixture", "one-sided", "simulator")]
             for n, rows in panels.items()}  # fmt: skip
    found: dict[str, Any] = {}
    for candidate in CANDIDATES:
        found[candidate] = {
            of: {
                "per_panel": {n: correlation(column(r, candidate), target(r, of)) for n, r in panels.items()},
                "mean": mean_within(lists, candidate, of),
                "ci_banks": interval(lists, candidate, of, clustered=False),
                "ci_panels": interval(lists, candidate, of, clustered=True),
            }
            for of in ("accuracy", "nll")
        }
        found[candidate]["undamaged_mean"] = mean_within(list(whole.values()), candidate, "accuracy")
    chosen = left_out(panels)
    write(folder / "record.json", {
        "fixed_in_advance": "fidelity", "correlations": found, "left_out_choice": chosen, "panels": records,
    })  # fmt: skip
    (folder / "README.md").write_text(readme(records, found, chosen))


def readme(records: dict[str, Any], found: dict[str, Any], chosen: dict[str, Any]) -> str:
    def line(name: str) -> str:
        a, loss = found[name]["accuracy"], found[name]["nll"]
        each = " | ".join(f"{a['per_panel'][n]:.2f}" for n in records)
        spans = " | ".join(f"[{a[c][0]:.2f}, {a[c][1]:.2f}]" for c in ("ci_banks", "ci_panels"))
        rest = f"{found[name]['undamaged_mean']:.2f} | {loss['mean']:.2f}"
        return f"| {name} | {a['mean']:.2f} | {spans} | {each} | {rest} |"

    total = sum(len(r["banks"]) for r in records.values())
    ordered = sorted(found, key=lambda name: -found[name]["accuracy"]["mean"])
    lines = [
        "# Ranking banks without labels",
        "",
        f"{total} banks over three panels, wordllama, the shipped recipe. Spearman rank correlation of each "
        "label-free score with labelled accuracy inside a panel, averaged over panels; 95 % bootstrap "
        "intervals over banks, and over panels then banks (three clusters, so wide and rough). Banks of one "
        "panel share texts and are not independent: read the intervals as lower bounds of the uncertainty. "
        "`fidelity` was fixed in advance; every other row is exploration. Scores have the sign that should "
        "make larger better. `balance`, and with it `fidelity`, supposes cases mixed about evenly over the "
        "labels (here 25 to 100 a label); on a skewed sample read `confidence`.",
        "",
        "| score | Spearman | over banks | over panels | "
        + " | ".join(records)
        + " | undamaged banks | with −NLL |",
        "|---|---|---|---|" + "---|" * len(records) + "---|---|",
        *(line(name) for name in ordered),
        "",
        "`undamaged banks` leaves out thinned and noised ones: what is left are banks one might truly choose "
        "between (few of them).",
        "",
        "Choosing the candidate on two panels and judging it on the third: "
        + "; ".join(f"{n} {chosen[n]['chosen']} {chosen[n]['spearman']:.2f}" for n in records)
        + f"; mean {chosen['mean']:.2f}.",
        "",
        "## Every bank",
    ]
    for name, record in records.items():
        heads = ("bank", "n", "accuracy", "NLL", *SHOWN)
        lines += ["", f"### {name}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in sorted(record["banks"], key=lambda r: -r["labelled"]["accuracy"]):
            s, t = row["scores"], row["labelled"]
            lines.append(
                f"| {row['bank']} | {s['n_simulations']} | {t['accuracy']:.3f} | {t['nll']:.3f} | "
                + " | ".join(f"{s[key]:.3f}" for key in SHOWN)
                + " |"
            )
    lines += ["", "Commands: `python benchmarks/bank_scores.py banks --panel NAME`, `… report`."]
    return "\n".join(lines) + "\n"


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("banks", "report"))
    parser.add_argument("--panel", choices=PACKAGED, default=PACKAGED[0])
    parser.add_argument("--extra", action="append", default=[], metavar="NAME=PATH", help="One more bank.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="Random banks of each kind; 1 to save time.")
    shared = Path(os.environ.get("SIMDX_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    parser.add_argument("--data", type=Path, default=shared / "data", help="Folder with oral/, sd/ and pmc/.")
    parser.add_argument("--out", type=Path, default=Path("results/bank_scores"))
    arguments = parser.parse_args()
    if arguments.what == "banks":
        banks(arguments.panel, arguments.data, arguments.out, arguments.extra, arguments.seeds)
    else:
        report(arguments.out)


if __name__ == "__main__":
    main()
