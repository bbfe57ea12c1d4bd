"""The pool of experts and its calibration over panels of real text, leaving one panel out.

    python -m benchmarks.experts --data ../shared/data --panels MORE --out results/experts

MORE: a folder of panels (panel.yaml, a bank written from label names alone, cases.jsonl, ood.jsonl) beside
those of the data. For each panel the experts are fitted to the bank and asked about the cases; every constant
that panels share (the level of sharpness and its spread) is then taken from the other panels. Writes
`record.json` and `README.md`.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.bench import records
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
from simdx.metrics.calibration import debiased_ece
from simdx.panels import load_source
from simdx.transfer import at_level, level_of
from simdx.types import Float, Int

EMBEDDER = "wordllama+minilm"
FIRST = [0, 1, 3]  # features of another condition that the first expert brings, of both experts' five
BASELINES = ("bank-logistic", "m-smc", "d-smc")
LABELLED = (12, 50)
OUTSIDE_SHARE = 0.2  # of labelled rows, none of these
DRAWS = 5
WEIGHTS = (0.0, 0.25, 0.5, 1.0)
CALIBRATED = 20  # draws of what a calibrated answer would show
FEWEST_LEFT = 40  # cases that answers with labels are measured on
SHARED = ("recipe_equal", "recipe", "pool_equal", "pool")
MIXED = (
    "A fifth of the cases asked is of no label, as among the labelled rows; above, only cases of the labels."
)
MIXED_WAYS = ("pool", "labels_12", "labels_50")
WAYS = ("recipe", "minilm", "pool", "labels_12", "labels_50", *BASELINES)


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

    def heard(self, change: Callable[[HeldOutScores], HeldOutScores], *, outside: bool = True) -> "Panel":
        """The same panel with other scores; without `outside` none of these is not weighed."""
        far, beyond = (
            None if held is None or not outside else change(held) for held in (self.outside, self.beyond)
        )
        own = tuple(map(change, self.own))
        return replace(self, cases=change(self.cases), own=own, outside=far, beyond=beyond)

    def rehearsed(self, level: float, spread: float) -> Calibration:
        """The calibration without labels under a level and a spread."""
        return at_level(calibrate(self.names, self.own, self.beyond), level, spread)

    def level(self) -> float:
        return level_of(self.cases, calibrate(self.names, self.own, self.beyond))


def first(held: HeldOutScores) -> HeldOutScores:
    """The first expert alone."""
    features = None if held.features is None else held.features[:, FIRST]
    return replace(held, features=features, second=None, direction=None)


def second(held: HeldOutScores) -> HeldOutScores:
    """The second expert alone, in the place of the first."""
    assert held.second is not None
    return HeldOutScores(held.second, held.label_index, None)


def equal(held: HeldOutScores) -> HeldOutScores:
    """Regression and kernel in equal shares."""
    return replace(held, kernel=None)


def ask(path: str, inside: Path, outside: Path | None, packaged: bool) -> Panel:
    """What the experts, and the methods beside them, say about a panel's cases."""
    source = load_source(path)
    panel, bank = replace(source.panel, world=False), packaged_bank(source)
    data = PanelData.prepare(panel, bank, get_embedder(EMBEDDER))
    cases = records.cases_of(panel.names, inside, outside)
    seen = data.observe(cases.texts)
    asked, beyond_all = replace(scores_of(data, seen, cases.truth), texts=()), None
    if cases.outside and bank.background:
        beyond_all = replace(scores_of(data, data.observe(cases.outside)), texts=())
    own, beyond = rehearsal(thinned(data))
    words = PanelData.prepare(panel, bank, get_embedder("wordllama"), reading=data.reading)
    observed = replace(seen, vectors=seen.vectors[:, : words.embedded.blocks[0]])
    prior = Prior.uniform(len(panel.names))
    answers = {
        method: fit_method(words, Settings(method=method)).answer(observed, prior).posterior
        for method in BASELINES
    }
    return Panel(panel.name, packaged, asked, beyond_all, tuple(own), beyond, panel.names, answers)


# --------------------------------------------------------------------------- leaving one out


def best_sharpness(panel: Panel, under: Calibration) -> float:
    """Of least log loss among the labels, told the answers."""
    truth = panel.cases.label_index
    return least_loss(
        lambda s: log_loss(panel.cases.among_labels(replace(under, sharpness=s, spread=0.0)), truth)
    )


def measured(posterior: Float, truth: Int, rng: np.random.Generator) -> dict[str, float]:
    """Two estimators of the calibration error, each beside what it is where stated probabilities are true."""
    sure, given = posterior.max(axis=1), posterior.argmax(axis=1)
    another = (given + 1) % posterior.shape[1]
    if_calibrated = [np.where(rng.random(len(sure)) < sure, given, another) for _ in range(CALIBRATED)]
    accuracy = records.accuracy(posterior, truth)
    over = float(sure.mean()) - accuracy
    out = {"accuracy": accuracy, "over": over, "log_loss": log_loss(posterior, truth)}
    for name, error in {"ece": records.calibration_error, "debiased": debiased}.items():
        out[name] = error(posterior, truth)
        out[f"{name}_if_calibrated"] = float(np.mean([error(posterior, drawn) for drawn in if_calibrated]))
    return out


def debiased(posterior: Float, truth: Int) -> float:
    return debiased_ece(posterior, truth, np.random.default_rng(0))[0]


def answered(panel: Panel, under: Calibration, rng: np.random.Generator) -> dict[str, float]:
    """Over all outcomes, none of these included; `closed`: among the labels."""
    truth = panel.cases.label_index
    out = measured(panel.cases.posterior(under), truth, rng)
    out |= {f"closed_{k}": v for k, v in measured(panel.cases.among_labels(under), truth, rng).items()}
    among = panel.cases.outside(under)
    others = None if panel.outside is None else panel.outside.outside(under)
    if among is not None and others is not None:
        out |= {"auroc": records.outside_auroc(among, others) or 0.0}
        out |= {"none_inside": float(among.mean()), "none_outside": float(others.mean())}
        out |= {f"mixed_{k}": v for k, v in measured(*mixed(panel, under), rng).items()}
    return out


def mixed(panel: Panel, under: Calibration) -> tuple[Float, Int]:
    """Answers to cases of the labels and of none, in the shares of the labelled rows; and the truth."""
    assert panel.outside is not None
    truth = panel.cases.label_index
    many = len(panel.outside.label_index)
    wanted = min(many, round(len(truth) * OUTSIDE_SHARE / (1 - OUTSIDE_SHARE)))
    others = panel.outside.at(np.linspace(0, many - 1, wanted).astype(int))
    parts = [panel.cases.posterior(under), others.posterior(under)]
    return np.concatenate(parts), np.concatenate([truth, np.full(len(parts[1]), len(panel.names))])


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
        "recipe": [p.heard(first) for p in panels],
        "minilm": [p.heard(second, outside=False) for p in panels],
        "pool": panels,
        "recipe_equal": [p.heard(first).heard(equal) for p in panels],
        "pool_equal": [p.heard(equal) for p in panels],
    }
    rows: dict[str, dict[str, Any]] = {
        p.name: {"n": len(p.cases.label_index), "labels": len(p.names), "packaged": p.packaged}
        for p in panels
    }
    # A panel without a background has a limit of its own, and says nothing about the level of others.
    opposed = np.array([p.beyond is not None for p in panels])
    shared = {}
    for shape, several in shapes.items():
        level = np.array([panel.level() for panel in several])
        shared[shape] = {"level": float(level[opposed].mean()), "spread": float(level[opposed].std(ddof=1))}
        for i, panel in enumerate(several):
            others = level[opposed & (np.arange(len(level)) != i)]
            base, row = panel.rehearsed(float(others.mean()), float(others.std(ddof=1))), rows[panel.name]
            row[shape] = answered(panel, base, rng) | {"best_sharpness": best_sharpness(panel, base)}
            row[shape] |= {"regression_share": base.share}
            if shape == "pool":
                row |= {f"labels_{m}": with_labels(panel, base, m) for m in LABELLED}
                print(panel.name, row[shape], file=sys.stderr, flush=True)
    for panel in panels:
        truth, under = panel.cases.label_index, panel.rehearsed(0.0, 0.0)
        rows[panel.name] |= {name: measured(said, truth, rng) for name, said in panel.baselines.items()}
        rows[panel.name]["accuracy_by_weight"] = {
            f"{w:g}": records.accuracy(panel.cases.among_labels(replace(under, weight=w)), truth)
            for w in WEIGHTS
        }
    return {"shared": shared, "panels": rows}


def page(record: dict[str, Any]) -> str:
    rows, cells = record["panels"], []
    for name, row in rows.items():
        cells.append([f"{name} ({row['n']}, {row['labels']})", *(_cell(row.get(way)) for way in WAYS)])
    means = []
    for way in WAYS:
        found = [row[way] for row in rows.values() if row.get(way)]
        means.append(_cell(_mean(found)))
    said = (
        f"`{record['command']}` at {record['commit']}. Each cell: accuracy / ECE by ten bins, and debiased "
        "(each: what a calibrated answer of that sureness would show on so many cases) / confidence minus "
        "accuracy / out-of-class AUROC, over all outcomes. Every panel is answered with constants of others."
    )
    lines = records.table(["panel (N, labels)", *WAYS], [*cells, ["**mean**", *means]])
    lines += ["", "## Cases of no label among those asked", "", MIXED, "", *_mixed_table(rows)]
    shares, mean = [], {way: _mean([row[way] for row in rows.values()]) for way in SHARED}
    for name, row in {**rows, "**mean**": mean}.items():
        both = [f"{row[way]['closed_accuracy']:.3f} / {row[way]['closed_log_loss']:.3f}" for way in SHARED]
        shares.append([name, *(f"{row[way]['regression_share']:.2f}" for way in ("recipe", "pool")), *both])
    head = ["panel", "regression's share", "with MiniLM", *(way.replace("_", ", ") for way in SHARED)]
    about = (
        "Accuracy / log loss among the labels, regression and kernel in the bank's shares or in equal ones."
    )
    lines += ["", "## Regression and kernel", "", about, "", *records.table(head, shares)]
    return "\n".join(["# Two experts and a calibration over panels", "", said, "", *lines, ""])


def _mixed_table(rows: dict[str, Any]) -> list[str]:
    found = {
        name: [_of_mix(row[way]) for way in MIXED_WAYS] for name, row in rows.items() if row["labels_50"]
    }
    found = {name: some for name, some in found.items() if all(some)}
    means = [_mean(list(some)) for some in zip(*found.values(), strict=True)]
    body = [[name, *map(_cell, some)] for name, some in {**found, "**mean**": means}.items()]
    return records.table(["panel", *MIXED_WAYS], body)


def _of_mix(one: dict[str, float]) -> dict[str, float]:
    return {key.removeprefix("mixed_"): value for key, value in one.items() if key.startswith("mixed_")}


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    keys = {key for one in found for key in one}
    return {key: float(np.mean([one[key] for one in found if key in one])) for key in keys}


def _cell(m: dict[str, float] | None) -> str:
    if not m:
        return "–"
    auroc = f" / {m['auroc']:.2f}" if "auroc" in m else ""
    errors = ", ".join(f"{m[e]:.3f} ({m[f'{e}_if_calibrated']:.3f})" for e in ("ece", "debiased"))
    return f"{m['accuracy']:.3f} / {errors} / {m['over']:+.3f}{auroc}"


def found_panels(data: Path, more: list[Path]) -> Iterator[tuple[str, str, Path, Path | None, bool]]:
    """Name, address, cases, outside cases, and whether it is packaged."""
    for folder in (data / "transfer", *more):
        for path in sorted(folder.glob("*/panel.yaml")):
            cases, ood = path.parent / "cases.jsonl", path.parent / "ood.jsonl"
            if cases.is_file() and load_source(str(path)).banks:
                yield path.parent.name, str(path), cases, ood if ood.is_file() else None, False
    for name, (inside, outside) in records.CASES.items():
        yield name, name, data / inside, data / outside, True


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--panels", type=Path, action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("results/experts"))
    arguments = parser.parse_args()
    panels = []
    for name, *where in found_panels(arguments.data, arguments.panels):
        if not arguments.only or name in arguments.only:
            panels.append(ask(*where))
            print(f"{name}: asked", file=sys.stderr, flush=True)
    record = {
        **records.heading("python -m benchmarks.experts --data DATA --panels MORE"),
        "embedder": get_embedder(EMBEDDER).id,
        "own_share": OWN_SHARE,
        "weight": shipped.SECOND_WEIGHT,
        "outside_share_of_labels": OUTSIDE_SHARE,
        "draws": DRAWS,
        **run(panels),
    }
    records.write_record(arguments.out / "record.json", record)
    (arguments.out / "README.md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
