"""Learning curves: what a handful of real labelled cases adds to a bank.

    python benchmarks/real_cases.py weight                # what one real case counts: simulated text only
    python benchmarks/real_cases.py curves --panel NAME   # 0, 1, 2, 5, 10, 20 real cases per label
    python benchmarks/real_cases.py report

`weight` plays the question on simulated text: a panel's first bank is the simulator, its second bank the
real world, and the weight with the least log loss over all panels and sizes becomes `methods.real.WEIGHT`.
It was run, and the constant fixed, before the curves. `curves` draws real cases at random, ten times, and
tests on the cases not drawn, leaving out every text that equals a drawn one. Figures are those of the
in-class posterior under a uniform prior.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank, read_bank
from simdx.baselines.supervised import supervised_ceiling
from simdx.datasets import read_cases
from simdx.embedders import embed_cached, embed_texts, get_embedder
from simdx.experiments.records import current_commit
from simdx.methods import Material, Observations
from simdx.methods.lexical import Lexicon
from simdx.methods.logistic import fit_logistic
from simdx.methods.material import RealCases
from simdx.methods.real import WEIGHT, RealRecipe
from simdx.methods.recipe import Recipe
from simdx.metrics.resampling import WeightedMetrics
from simdx.panels import PACKAGED, load_source
from simdx.report.axes import Axes
from simdx.types import Float, Int, content_hash

WEIGHTS = (1.0, 3.0, 10.0, 30.0)
PSEUDO_SIZES, PSEUDO_REPEATS = (1, 5, 20), 2
SIZES, REPEATS = (1, 2, 5, 10, 20), 10
HEAVY, HEAVY_SIZES, HEAVY_REPEATS = 10.0, (5, 20), 3  # another weight, reported beside the chosen one
METRICS = ("accuracy", "ece", "nll")
RESAMPLES = 1000
PENALTY = 0.1  # of the comparison without simulations: the recipe's own
FILES = {
    "oral-lesions": "oral/vignettes.jsonl",
    "symptom-to-diagnosis": "sd/cases.jsonl",
    "case-reports": "pmc/cases.jsonl",
}


def draw(y: Int, keys: list[str], per_label: int, rng: np.random.Generator) -> tuple[Int, Int]:
    """(rows drawn, rows to test on): no text of the test is among those drawn. A label with few cases gives
    at most half of them, so that every label stays in the test."""
    drawn: list[int] = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        drawn += rng.permutation(rows)[: min(per_label, len(rows) // 2)].tolist()
    taken = {keys[i] for i in drawn}
    return np.array(drawn), np.array([i for i, key in enumerate(keys) if key not in taken])


def keys_of(texts: tuple[str, ...]) -> list[str]:
    return [content_hash(" ".join(text.lower().split())) for text in texts]


class KeptRows(Lexicon):
    """A vocabulary that has taken every text apart already: on long texts that costs more than a fit."""

    def __init__(self, lexicon: Lexicon, texts: Sequence[str]) -> None:
        self._all = lexicon.rows(texts)
        self._place = {text: i for i, text in enumerate(texts)}

    def rows(self, texts: Sequence[str]) -> csr_matrix:
        return self._all[[self._place[text] for text in texts]]


def observed(texts: tuple[str, ...], vectors: Float, rows: Int) -> Observations:
    return Observations(tuple(texts[i] for i in rows), vectors[rows], tuple(range(len(rows))))


def posterior(
    material: Material, texts: tuple[str, ...], vectors: Float, y: Int, drawn: Int, test: Int, weight: float
) -> Float:
    real = RealCases(
        tuple(texts[i] for i in drawn),
        y[drawn],
        vectors[drawn],
        np.full(len(drawn), weight),
        np.full(len(drawn), -1),
    )
    taught = replace(material, real=real)
    # The vocabulary is the simulations' alone, so all fits share one.
    taught.__dict__["lexicon"] = material.lexicon
    return RealRecipe(taught)(observed(texts, vectors, test), Prior.uniform(len(material.panel.names)))[
        0
    ].probabilities


def choose_weight(folder: Path) -> None:
    embedder = get_embedder("wordllama")
    losses: dict[str, dict[str, float]] = {}
    for name in PACKAGED:
        source = load_source(name)
        first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
        material = Material.prepare(source.panel, first, embedder)
        vectors, y = embed_cached(embedder, second.texts), second.label_index
        keys = keys_of(second.texts)
        found: dict[str, list[float]] = {f"{w:g}": [] for w in WEIGHTS}
        for size in PSEUDO_SIZES:
            for repeat in range(PSEUDO_REPEATS):
                drawn, test = draw(y, keys, size, np.random.default_rng([size, repeat]))
                for weight in WEIGHTS:
                    p = posterior(material, second.texts, vectors, y, drawn, test, weight)
                    loss = -np.log(np.maximum(p[np.arange(len(test)), y[test]], 1e-12)).mean()
                    found[f"{weight:g}"].append(float(loss))
        losses[name] = {weight: float(np.mean(values)) for weight, values in found.items()}
        print(name, losses[name], flush=True)
    mean = {w: float(np.mean([losses[n][w] for n in PACKAGED])) for w in losses[PACKAGED[0]]}
    write(folder / "weight.json", {
        "command": "python benchmarks/real_cases.py weight", "commit": current_commit(),
        "what": "log loss on bank_b rows not drawn, bank as simulator, mean over sizes and repeats",
        "sizes": PSEUDO_SIZES, "repeats": PSEUDO_REPEATS, "loss": losses, "mean": mean,
        "chosen": min(mean, key=mean.__getitem__),
    })  # fmt: skip
    print(mean)


def curves(name: str, data: Path, folder: Path) -> None:
    source = load_source(name)
    embedder = get_embedder("wordllama")
    material = Material.prepare(source.panel, packaged_bank(source), embedder)
    k = len(source.panel.names)
    cases = read_cases(data / FILES[name], labels=source.panel.names)
    texts, y = tuple(cases.texts), cases.label_index(source.panel.names)
    vectors = embed_texts(embedder, texts)
    keys = keys_of(texts)
    material.__dict__["lexicon"] = KeptRows(material.lexicon, [*material.bank.texts, *texts])
    everything = np.arange(len(y))
    plain = Recipe(material)(observed(texts, vectors, everything), Prior.uniform(k))[0].probabilities
    points: list[dict[str, Any]] = [{"per_label": 0, **summary([(plain, everything)], y)}]
    for size in SIZES:
        with_bank, alone = [], []
        for repeat in range(REPEATS):
            drawn, test = draw(y, keys, size, np.random.default_rng([size, repeat]))
            with_bank.append((posterior(material, texts, vectors, y, drawn, test, WEIGHT), test))
            centre = vectors[drawn].mean(axis=0)
            model = fit_logistic(vectors[drawn] - centre, y[drawn], k, PENALTY)
            alone.append((model.probabilities(vectors[test] - centre), test))
        points.append({"per_label": size, **summary(with_bank, y), "without_bank": summary(alone, y)})
        if size in HEAVY_SIZES:
            heavy = []
            for repeat in range(HEAVY_REPEATS):
                drawn, test = draw(y, keys, size, np.random.default_rng([size, repeat]))
                heavy.append((posterior(material, texts, vectors, y, drawn, test, HEAVY), test))
            points[-1]["heavier"] = {"weight": HEAVY, "repeats": HEAVY_REPEATS, **summary(heavy, y)}
        print(name, size, {m: round(points[-1][m]["mean"], 3) for m in METRICS}, flush=True)
        record = {
            "panel": name, "cases": len(y), "per_label_available": np.bincount(y, minlength=k).tolist(),
            "weight": WEIGHT, "repeats": REPEATS, "embedder": embedder.id, "dataset": cases.hash,
            "command": f"python benchmarks/real_cases.py curves --panel {name}", "commit": current_commit(),
            "points": points, "ceiling": None,
        }  # fmt: skip
        write(folder / f"{name}.json", record)
    ceiling = supervised_ceiling(vectors, y, k, list(texts))
    record["ceiling"] = summary([(ceiling, everything)], y)
    write(folder / f"{name}.json", record)
    print(name, "ceiling", record["ceiling"], flush=True)


def summary(answers: list[tuple[Float, Int]], y: Int) -> dict[str, Any]:
    """Mean over draws; intervals resample the draws and, with the same counts in every draw, the cases."""
    rng = np.random.default_rng(0)
    counts = np.array(
        [np.bincount(rng.integers(0, len(y), len(y)), minlength=len(y)) for _ in range(RESAMPLES)]
    )
    values, resampled = [], []
    for p, rows in answers:
        measured = WeightedMetrics(p, y[rows], METRICS)
        values.append(measured(np.ones((1, len(rows))))[0])
        resampled.append(measured(counts[:, rows].astype(float)))
    stacked = np.array(resampled)  # (draws, B, metrics)
    pick = rng.integers(0, len(answers), size=(RESAMPLES, len(answers)))
    spread = np.array([stacked[pick[b], b].mean(axis=0) for b in range(RESAMPLES)])
    low, high = np.percentile(spread, [2.5, 97.5], axis=0)
    mean = np.mean(values, axis=0)
    return {m: {"mean": float(mean[i]), "ci": [float(low[i]), float(high[i])]} for i, m in enumerate(METRICS)}


# --------------------------------------------------------------------------- report


def report(folder: Path) -> None:
    panels = {n: json.loads((folder / f"{n}.json").read_text()) for n in PACKAGED}
    weight = json.loads((folder / "weight.json").read_text())
    write(folder / "record.json", {"weight": weight, "panels": panels})
    lines = [
        "# A handful of real cases",
        "",
        f"Real labelled cases enter the packaged bank as simulations of weight {WEIGHT:g}. The weight "
        "was fixed on simulated text alone (first bank as the simulator, second as the real world): mean log "
        "loss "
        + ", ".join(f"{loss:.3f} at {w}" for w, loss in weight["mean"].items())
        + ". Cases are drawn at random, ten times a size; the test is the cases not drawn, disjoint by text. "
        "95 % intervals resample draws and cases (a resampled ECE is biased upwards). `without bank` is a "
        "logistic regression on the embeddings of the same drawn cases; the ceiling is cross-validated on "
        "all cases, on the same embeddings. The last column is another weight (three draws), reported and "
        "not chosen.",
        "",
        "Commands: `python benchmarks/real_cases.py weight`, `… curves --panel NAME`, `… report`.",
    ]
    for name, record in panels.items():
        lines += ["", f"## {name} ({record['cases']} cases)", ""]
        lines += ["| per label | accuracy | ECE | NLL | accuracy without bank | accuracy, NLL at weight 10 |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for point in record["points"]:
            alone = point.get("without_bank")
            lines.append(
                f"| {point['per_label']} | " + " | ".join(shown(point[m]) for m in METRICS)
                + f" | {shown(alone['accuracy']) if alone else 'none'} | {heavier(point)} |"
            )  # fmt: skip
        if record["ceiling"]:
            lines.append(
                "| all (ceiling) | " + " | ".join(shown(record["ceiling"][m]) for m in METRICS) + " | | |"
            )
    (folder / "README.md").write_text("\n".join(lines) + "\n")
    (folder / "curves.svg").write_text(picture(panels))


def heavier(point: dict[str, Any]) -> str:
    heavy = point.get("heavier")
    return f"{heavy['accuracy']['mean']:.3f}, {heavy['nll']['mean']:.3f}" if heavy else ""


def shown(value: dict[str, Any]) -> str:
    return f"{value['mean']:.3f} [{value['ci'][0]:.3f}, {value['ci'][1]:.3f}]"


def picture(panels: dict[str, Any]) -> str:
    """One row a panel, accuracy beside log loss; the bars are intervals, the dashes the ceiling."""
    style = (
        "<style>text{font:11px sans-serif;fill:#333}.tick-x{text-anchor:middle}.tick-y{text-anchor:end}"
        ".grid{stroke:#e5e5e5}.frame{fill:none;stroke:#555}.with{fill:none;stroke:#1b6ca8;stroke-width:2}"
        ".alone{fill:none;stroke:#b5651d}.ceiling{fill:none;stroke:#666;stroke-dasharray:5 4}"
        ".bar{fill:none;stroke:#1b6ca8;stroke-width:1}.dot{fill:#1b6ca8}</style>"
    )
    parts = []
    for row, (name, record) in enumerate(panels.items()):
        for column, metric in enumerate(("accuracy", "nll")):
            points = record["points"]
            places = [float(i) for i in range(len(points))]
            alone = [(x, p["without_bank"][metric]["mean"]) for x, p in zip(places, points, strict=True)
                     if "without_bank" in p]  # fmt: skip
            values = [p[metric]["mean"] for p in points]
            every = [*values, *(v for _, v in alone), *(v for p in points for v in p[metric]["ci"])]
            top = 1.0 if metric == "accuracy" else max(every)
            sizes = ", ".join(str(p["per_label"]) for p in points)
            axes = Axes(
                f"{name}: {metric}", f"{name}: real cases per label, left to right {sizes}", metric,
                x=(0, places[-1]), y=(min(every) if metric == "accuracy" else 0.0, top), size=(440, 280),
            )  # fmt: skip
            axes.line(places, values, "with")
            axes.line([x for x, _ in alone], [v for _, v in alone], "alone")
            for x, point in zip(places, points, strict=True):
                axes.line([x, x], point[metric]["ci"], "bar")
                axes.dot(x, point[metric]["mean"], "dot", note=shown(point[metric]))
            if record["ceiling"]:
                axes.line([0, places[-1]], [min(record["ceiling"][metric]["mean"], top)] * 2, "ceiling")
            parts.append(f'<g transform="translate({column * 450},{row * 290})">{axes.svg()}</g>')
    key = (
        '<text x="10" y="885">blue: bank and real cases; brown: real cases alone (logistic on embeddings); '
        "dashes: supervised ceiling on all cases</text>"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 895" width="900">'
        f"{style}{''.join(parts)}{key}</svg>\n"
    )


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("weight", "curves", "report"))
    parser.add_argument("--panel", choices=PACKAGED, default=PACKAGED[0])
    shared = Path(os.environ.get("SIMDX_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    parser.add_argument("--data", type=Path, default=shared / "data", help="Folder with oral/, sd/ and pmc/.")
    parser.add_argument("--out", type=Path, default=Path("results/real_cases"))
    arguments = parser.parse_args()
    if arguments.what == "weight":
        choose_weight(arguments.out)
    elif arguments.what == "curves":
        curves(arguments.panel, arguments.data, arguments.out)
    else:
        report(arguments.out)


if __name__ == "__main__":
    main()
