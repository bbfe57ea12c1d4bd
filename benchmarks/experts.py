"""The pool of experts and its calibration over panels of real text, leaving one panel out.

    python -m benchmarks.experts --data ../shared/data --panels MORE --out results/experts

MORE: a folder of panels (panel.yaml, a bank written from label names alone, cases.jsonl, ood.jsonl) beside
those of the data. For each panel the experts are fitted to the bank and asked about the cases; every constant
that panels share (the level of sharpness and its spread) is then taken from the other panels. `--scores`
keeps what the experts said (numbers, no text) and takes it from there the next time. Writes `record.json` and
`README.md`.
"""

import argparse
import json
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods import calibration_record as shipped
from simdx.methods.calibration import (
    OWN_SHARE,
    HeldOutScores,
    calibrate,
    fit_on,
    least_loss,
    log_loss,
    rehearsal,
    scores_of,
    thinned,
)
from simdx.methods.calibration_record import Calibration
from simdx.metrics.calibration import ece
from simdx.metrics.scores import ood_auroc
from simdx.panels import load_source
from simdx.runs import current_commit
from simdx.types import Float, Int

PACKAGED = {
    "symptom-to-diagnosis": "sd/cases.jsonl",
    "oral-lesions": "oral/vignettes.jsonl",
    "case-reports": "pmc/cases.jsonl",
}
EMBEDDER = "wordllama+minilm"
FIRST = [0, 1, 3]  # features of another condition that the first expert brings, of both experts' five
BASELINES = ("bank-logistic", "m-smc", "d-smc")
LABELLED = (12, 50)
OUTSIDE_SHARE = 0.2  # of labelled rows, none of these
DRAWS = 5
WEIGHTS = (0.0, 0.25, 0.5, 1.0)
FEWEST_LEFT = 40  # cases that answers with labels are measured on


@dataclass(frozen=True)
class Panel:
    name: str
    packaged: bool
    cases: HeldOutScores
    outside: HeldOutScores | None
    own: tuple[HeldOutScores, ...]  # rehearsed: as written, in haste
    beyond: HeldOutScores | None
    names: tuple[str, ...]
    baselines: dict[str, Float]

    def alone(self) -> "Panel":
        """The first expert alone."""
        own = tuple(_first(h) for h in self.own)
        outside = None if self.outside is None else _first(self.outside)
        beyond = None if self.beyond is None else _first(self.beyond)
        return replace(self, cases=_first(self.cases), outside=outside, own=own, beyond=beyond)

    def second(self) -> "Panel":
        """The second expert alone, in the place of the first; none of these is not weighed."""

        def only(h: HeldOutScores) -> HeldOutScores:
            assert h.second is not None
            return HeldOutScores(h.second, h.label_index, None)

        return replace(
            self, cases=only(self.cases), outside=None, own=tuple(map(only, self.own)), beyond=None
        )

    def rehearsed(self, level: float, spread: float) -> Calibration:
        """The calibration without labels under a level and a spread."""
        found = calibrate(self.names, self.own, self.beyond)
        assert found.rehearsed_sharpness is not None
        sharpness = float(np.exp(OWN_SHARE * np.log(found.rehearsed_sharpness) + level))
        if found.outside is None:
            pooled = self.own[0].second is not None
            sharpness = min(sharpness, shipped.UNOPPOSED_POOLED if pooled else shipped.UNOPPOSED_SHARPNESS)
        return replace(found, sharpness=sharpness, spread=spread)


def _first(h: HeldOutScores) -> HeldOutScores:
    return replace(h, features=None if h.features is None else h.features[:, FIRST], second=None)


# --------------------------------------------------------------------------- what the experts say


def ask(path: str, cases: Path, ood: Path | None, packaged: bool) -> Panel:
    source = load_source(path)
    panel, bank = source.panel, packaged_bank(source)
    data = PanelData.prepare(replace(panel, world=False), bank, get_embedder(EMBEDDER))
    given = read_cases(cases, labels=panel.names)
    truth = np.array([panel.names.index(str(case.label)) for case in given.cases])
    seen = data.observe(given.texts)
    asked = replace(scores_of(data, seen, truth), texts=())
    outside = None
    if ood is not None and bank.background:
        outside = replace(scores_of(data, data.observe(read_cases(ood, labelled=False).texts)), texts=())
    own, beyond = rehearsal(thinned(data))
    words = PanelData.prepare(
        replace(panel, world=False), bank, get_embedder("wordllama"), reading=data.reading
    )
    width, prior = words.embedded.blocks[0], Prior.uniform(len(panel.names))
    observed = replace(seen, vectors=seen.vectors[:, :width])
    answers = {
        method: fit_method(words, Settings(method=method)).answer(observed, prior).posterior
        for method in BASELINES
    }
    return Panel(panel.name, packaged, asked, outside, tuple(own), beyond, panel.names, answers)


def keep(path: Path, panel: Panel) -> None:
    arrays: dict[str, Float] = {}
    parts = {"cases": panel.cases, "outside": panel.outside, "beyond": panel.beyond}
    parts |= {f"own{i}": h for i, h in enumerate(panel.own)}
    for name, held in parts.items():
        for f in fields(HeldOutScores):
            value = None if held is None else getattr(held, f.name)
            if isinstance(value, np.ndarray):
                arrays[f"{name}.{f.name}"] = value
    arrays |= {f"baseline.{name}": p for name, p in panel.baselines.items()}
    about = json.dumps([panel.name, panel.packaged, panel.names])
    np.savez_compressed(path, about=np.array(about), **arrays)


def kept(path: Path) -> Panel:
    with np.load(path) as file:
        arrays = dict(file)
    name, packaged, names = json.loads(str(arrays.pop("about")))

    def held(prefix: str) -> HeldOutScores | None:
        own = {k.split(".")[1]: v for k, v in arrays.items() if k.startswith(prefix + ".")}
        return HeldOutScores(**({"features": None} | own)) if own else None

    cases, first, second = held("cases"), held("own0"), held("own1")
    assert cases is not None
    assert first is not None
    assert second is not None
    said = {k.split(".")[1]: v for k, v in arrays.items() if k.startswith("baseline.")}
    return Panel(name, packaged, cases, held("outside"), (first, second), held("beyond"), tuple(names), said)


# --------------------------------------------------------------------------- leaving one out


def best_sharpness(panel: Panel, weight: float) -> float:
    """Of least log loss among the labels, told the answers."""
    truth = panel.cases.label_index
    return least_loss(
        lambda s: log_loss(panel.cases.among_labels(Calibration(sharpness=s, weight=weight)), truth)
    )


def levels(panels: list[Panel], weight: float) -> Float:
    """What the logarithm of the best sharpness is above the share of the rehearsed one, for each panel."""
    out = []
    for panel in panels:
        found = panel.rehearsed(0.0, 0.0)
        assert found.rehearsed_sharpness is not None
        out.append(np.log(best_sharpness(panel, weight)) - OWN_SHARE * np.log(found.rehearsed_sharpness))
    return np.array(out)


def measured(posterior: Float, truth: Int, rng: np.random.Generator) -> dict[str, float]:
    sure, right = posterior.max(axis=1), posterior.argmax(axis=1) == truth
    drawn = []
    bins = np.minimum((sure * 10).astype(int), 9)
    for _ in range(200):
        off = sure - (rng.random(len(sure)) < sure)
        drawn.append(np.abs(np.bincount(bins, off, minlength=10)).sum() / len(sure))
    return {
        "accuracy": float(right.mean()),
        "ece": float(ece(posterior, truth).value or 0.0),
        "ece_if_calibrated": float(np.mean(drawn)),
        "over": float(sure.mean() - right.mean()),
        "log_loss": log_loss(posterior, truth),
    }


def answered(panel: Panel, under: Calibration, rng: np.random.Generator) -> dict[str, float]:
    """Over all outcomes, none of these included; `closed`: among the labels."""
    truth = panel.cases.label_index
    out = measured(panel.cases.posterior(under), truth, rng)
    out |= {f"closed_{k}": v for k, v in measured(panel.cases.among_labels(under), truth, rng).items()}
    among = panel.cases.outside(under)
    others = None if panel.outside is None else panel.outside.outside(under)
    if among is not None and others is not None:
        out |= {"auroc": ood_auroc(among, others).value or 0.0}
        out |= {"none_inside": float(among.mean()), "none_outside": float(others.mean())}
    return out


def with_labels(panel: Panel, base: Calibration, many: int) -> dict[str, float] | None:
    """Answers to the other cases once so many rows are labelled, a share of them none of these: means."""
    n, drawn = len(panel.cases.label_index), []
    others = 0 if panel.outside is None else round(OUTSIDE_SHARE * many)
    if n - (many - others) < FEWEST_LEFT:
        return None
    for draw in range(DRAWS):
        rng = np.random.default_rng([many, draw])
        order = rng.permutation(n)
        given, rest = order[: many - others], order[many - others :]
        beyond, outside = None, panel.outside
        if panel.outside is not None:
            far = rng.permutation(len(panel.outside.label_index))
            beyond, outside = panel.outside.at(far[:others]), panel.outside.at(far[others:])
        found = fit_on(panel.cases.at(given), base, beyond)
        drawn.append(answered(replace(panel, cases=panel.cases.at(rest), outside=outside), found, rng))
    return {key: float(np.mean([d[key] for d in drawn])) for key in drawn[0]}


def run(panels: list[Panel]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {
        "recipe": ([p.alone() for p in panels], 0.0),
        "minilm": ([p.second() for p in panels], 0.0),
        "pool": (panels, shipped.SECOND_WEIGHT),
    }
    rows: dict[str, dict[str, Any]] = {
        p.name: {"n": len(p.cases.label_index), "labels": len(p.names), "packaged": p.packaged}
        for p in panels
    }
    shared = {}
    for shape, (several, weight) in shapes.items():
        level = levels(several, weight)
        # A panel without a background has a limit of its own, and says nothing about the level of others.
        opposed = np.array([p.beyond is not None for p in panels])
        shared[shape] = {"level": float(level[opposed].mean()), "spread": float(level[opposed].std(ddof=1))}
        for i, panel in enumerate(several):
            others = level[opposed & (np.arange(len(level)) != i)]
            base = panel.rehearsed(float(others.mean()), float(others.std(ddof=1)))
            row = rows[panel.name]
            row[shape] = answered(panel, base, rng)
            row[shape]["best_sharpness"] = best_sharpness(panel, weight)
            if shape == "pool":
                row |= {f"labels_{m}": with_labels(panel, base, m) for m in LABELLED}
                print(panel.name, row[shape], file=sys.stderr, flush=True)
    for panel in panels:
        row, truth = rows[panel.name], panel.cases.label_index
        row |= {name: measured(said, truth, rng) for name, said in panel.baselines.items()}
        assert panel.cases.second is not None
        row["accuracy_by_weight"] = {
            f"{w:g}": float(((panel.cases.likelihood + w * panel.cases.second).argmax(1) == truth).mean())
            for w in WEIGHTS
        }
    return {"shared": shared, "panels": rows}


def mean_of(rows: dict[str, Any], way: str, metric: str, *, packaged: bool | None = None) -> float:
    kept_rows = [r for r in rows.values() if packaged is None or r["packaged"] == packaged]
    values = [r[way][metric] for r in kept_rows if r.get(way) and metric in r[way]]
    return float(np.mean(values)) if values else float("nan")


WAYS = ("recipe", "minilm", "pool", "labels_12", "labels_50", *BASELINES)


def table(record: dict[str, Any]) -> str:
    out = [
        "# Two experts and a calibration over panels",
        "",
        f"`{record['command']}` at {record['commit']}. Each cell: accuracy / ECE (what a calibrated "
        "answer of that sureness would show on so many cases) / confidence minus accuracy / out-of-class "
        "AUROC, over all outcomes. Every panel is answered with constants of the others.",
        "",
        "| panel (N, labels) | " + " | ".join(WAYS) + " |",
        "|---|" + "---|" * len(WAYS),
    ]
    rows = record["panels"]
    for name, row in rows.items():
        out.append(
            f"| {name} ({row['n']}, {row['labels']}) | " + " | ".join(_cell(row.get(w)) for w in WAYS) + " |"
        )
    means = []
    for way in WAYS:
        each = {m: mean_of(rows, way, m) for m in ("accuracy", "ece", "ece_if_calibrated", "over", "auroc")}
        means.append(_cell(each))
    out += ["| **mean** | " + " | ".join(means) + " |", ""]
    return "\n".join(out)


def _cell(m: dict[str, float] | None) -> str:
    if not m:
        return "–"
    auroc = f" / {m['auroc']:.2f}" if m.get("auroc") == m.get("auroc") and m.get("auroc") is not None else ""
    return f"{m['accuracy']:.3f} / {m['ece']:.3f} ({m['ece_if_calibrated']:.3f}) / {m['over']:+.3f}{auroc}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--panels", type=Path, action="append", default=[])
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("results/experts"))
    arguments = parser.parse_args()
    found = []
    for folder in (arguments.data / "transfer", *arguments.panels):
        for path in sorted(folder.glob("*/panel.yaml")):
            cases, ood = path.parent / "cases.jsonl", path.parent / "ood.jsonl"
            if cases.is_file() and load_source(str(path)).banks:
                found.append((path.parent.name, str(path), cases, ood if ood.is_file() else None, False))
    for name, file in PACKAGED.items():
        cases = arguments.data / file
        found.append((name, name, cases, cases.parent / "ood.jsonl", True))
    panels = []
    for name, path, cases, ood, packaged in found:
        if arguments.only and name not in arguments.only:
            continue
        place = None if arguments.scores is None else arguments.scores / f"{name}.npz"
        if place is None or not place.is_file():
            panel = ask(path, cases, ood, packaged)
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                keep(place, panel)
            print(f"{name}: asked", file=sys.stderr, flush=True)
        panels.append(panel if place is None else kept(place))
    record = {
        "command": "python -m benchmarks.experts --data DATA --panels MORE",
        "commit": current_commit(),
        "embedder": get_embedder(EMBEDDER).id,
        "own_share": OWN_SHARE,
        "weight": shipped.SECOND_WEIGHT,
        "outside_share_of_labels": OUTSIDE_SHARE,
        "draws": DRAWS,
        **run(panels),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "README.md").write_text(table(record), encoding="utf-8")


if __name__ == "__main__":
    main()
