"""Does the recipe transfer? Every panel with constants chosen on the others.

A folder with `panel.yaml`, its bank, `cases.jsonl` and perhaps `ood.jsonl` is a panel of the suite; packaged
panels are added by name. The constants that all panels share are found for each panel on the labelled cases
of the *others* (leave one panel out): the level of the best sharpness relative to the rehearsed one, and its
spread. The panel is then answered with these constants; the rest comes from its own simulated text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from simdx.bank.files import packaged_bank
from simdx.baselines.by_bank import supervised_ceiling
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import PanelData
from simdx.methods.calibration import (
    OWN_SHARE,
    HeldOutScores,
    calibrated,
    fit_on,
    least_loss,
    log_loss,
    scores_of,
)
from simdx.methods.calibration_record import (
    POOLED_SHARPNESS,
    SHARPNESS,
    SPREAD,
    UNOPPOSED_POOLED,
    UNOPPOSED_SHARPNESS,
    Calibration,
)
from simdx.methods.experts import Pool
from simdx.metrics.calibration import apply_temperature, ece, fit_temperature, top_label_ece
from simdx.metrics.resampling import bootstrap_intervals
from simdx.metrics.scores import ood_auroc
from simdx.panels import load_source
from simdx.types import Float

BANDWIDTHS = (0.03, 0.05, 0.07, 0.1, 0.15)  # of the kernel: does the shipped one transfer?
FEWEST_PANELS = 3  # needed for a mean level
LABELLED = (12, 20, 50, 100)
DRAWS = 5
RESAMPLES = 1_000
CAUGHT = 0.5  # a case counts as rejected from this probability of none of these


class LabelledPanel(NamedTuple):
    panel: str
    cases: Path
    outside: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A panel's answers before any shared constant is applied."""

    name: str
    cases: HeldOutScores
    outside: HeldOutScores | None
    calibration: Calibration  # under the shipped constants
    supervised: float | None
    by_bandwidth: dict[str, float]  # log loss at the best sharpness of each: only the ranking counts

    def level(self) -> float:
        """The logarithm of the best sharpness minus OWN_SHARE times that of the rehearsed one."""
        return level_of(self.cases, self.calibration)


def level_of(cases: HeldOutScores, found: Calibration) -> float:
    """The level, where the best sharpness has the least log loss among the labels on labelled cases."""

    def loss(sharpness: float) -> float:
        return log_loss(
            cases.among_labels(replace(found, sharpness=sharpness, spread=0.0)), cases.label_index
        )

    return float(np.log(least_loss(loss)) - OWN_SHARE * np.log(_rehearsed(found)))


def at_level(found: Calibration, level: float, spread: float) -> Calibration:
    """The calibration without labelled cases, under this level and spread of the other panels."""
    sharpness = float(np.exp(OWN_SHARE * np.log(_rehearsed(found)) + level))
    if found.outside is None:
        sharpness = min(sharpness, UNOPPOSED_POOLED if found.weight else UNOPPOSED_SHARPNESS)
    return replace(found, sharpness=sharpness, spread=spread)


def _rehearsed(found: Calibration) -> float:
    return found.rehearsed_sharpness or found.sharpness


def entries(folders: Sequence[Path], packaged: Mapping[str, tuple[Path, Path | None]]) -> list[LabelledPanel]:
    """The panels below these folders that have a bank and cases, then the packaged ones."""
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"'{folder}' is not a folder: give one that holds panels")
        for path in sorted({*folder.glob("panel.yaml"), *folder.glob("*/panel.yaml")}):
            cases, outside = path.parent / "cases.jsonl", path.parent / "ood.jsonl"
            if cases.is_file() and load_source(path).banks:
                found.append(LabelledPanel(str(path), cases, outside if outside.is_file() else None))
    found += [LabelledPanel(name, *files) for name, files in packaged.items()]
    if len(found) < 2:
        raise BadInput("at least two panels are needed: give folders with panel.yaml and cases.jsonl")
    return found


def ask(entry: LabelledPanel, embedder: str | None = None) -> Asked:
    source = load_source(entry.panel)
    panel = source.panel
    model = get_embedder(embedder or panel.embedder)
    data = calibrated(PanelData.prepare(panel, packaged_bank(source), model))
    assert data.calibration is not None
    cases = read_cases(entry.cases, labels=panel.names)
    truth = np.array([panel.names.index(str(case.label)) for case in cases.cases])
    seen = data.observe(cases.texts)
    outside = None
    if entry.outside is not None and data.calibration.outside is not None:
        others = read_cases(entry.outside, labelled=False)
        outside = scores_of(data, data.observe(others.texts))
    try:
        ceiling = supervised_ceiling(seen.vectors, truth, len(panel.names), list(cases.texts))
        supervised = float((ceiling.argmax(axis=1) == truth).mean())
    except BadInput:
        supervised = None
    by_bandwidth = {}
    for bandwidth in BANDWIDTHS:
        likelihood = Pool.fit(data, bandwidth).log_likelihoods(seen).pooled(data.calibration)

        def loss(sharpness: float, likelihood: Float = likelihood) -> float:
            return log_loss(softmax(sharpness * likelihood, axis=1), truth)

        by_bandwidth[f"{bandwidth:g}"] = loss(least_loss(loss))
    answered = scores_of(data, seen, truth)
    return Asked(panel.name, answered, outside, data.calibration, supervised, by_bandwidth)


def run(
    suite: Sequence[LabelledPanel], embedder: str | None = None, seed: int = 0, told: Any = lambda _: None
) -> dict[str, Any]:
    asked = []
    for entry in suite:
        told(entry.panel)
        asked.append(ask(entry, embedder))
    panels = [_row(one, *chosen([a for a in asked if a is not one]), seed) for one in asked]
    errors = {p["panel"]: p["ece"]["value"] for p in panels}
    worst = max(errors, key=lambda name: errors[name])
    return {
        "panels": panels,
        "mean_ece": float(np.mean(list(errors.values()))),
        "worst": {"panel": worst, "ece": errors[worst]},
        "shipped": {
            "sharpness": SHARPNESS,
            "pooled_sharpness": POOLED_SHARPNESS,
            "own_share": OWN_SHARE,
            "spread": SPREAD,
        },
    }


def chosen(others: Sequence[Asked]) -> tuple[float, float]:
    """Level and spread of other panels; the shipped ones if fewer than three of them have a level.

    A panel without a background has its own limit of the sharpness, so its level does not count.
    """
    levels = [other.level() for other in others if other.calibration.outside is not None]
    if len(levels) >= FEWEST_PANELS:
        return float(np.mean(levels)), float(np.std(levels, ddof=1))
    shipped = POOLED_SHARPNESS if others[0].calibration.weight else SHARPNESS
    return (1 - OWN_SHARE) * float(np.log(shipped)), SPREAD


def _row(asked: Asked, level: float, spread: float, seed: int) -> dict[str, Any]:
    found, truth = at_level(asked.calibration, level, spread), asked.cases.label_index
    posterior = asked.cases.posterior(found)
    rng = np.random.default_rng(seed)
    around = bootstrap_intervals(posterior, truth, metrics=("accuracy", "ece"), resamples=RESAMPLES, rng=rng)

    def with_interval(name: str, value: float) -> dict[str, float | None]:
        return {"value": value, "low": around[name].low, "high": around[name].high}

    inside = asked.cases.outside(found)
    outside = None if asked.outside is None else asked.outside.outside(found)
    told = None
    if inside is not None and outside is not None:
        draws = [
            ood_auroc(rng.choice(inside, len(inside)), rng.choice(outside, len(outside))).value
            for _ in range(RESAMPLES)
        ]
        low, high = np.quantile([d for d in draws if d is not None], (0.025, 0.975)).tolist()
        told = {
            "n": len(outside),
            "auroc": {"value": ood_auroc(inside, outside).value, "low": low, "high": high},
            "mean_inside": float(inside.mean()),
            "mean_outside": float(outside.mean()),
            "caught": float((outside >= CAUGHT).mean()),
            "wrongly_rejected": float((inside >= CAUGHT).mean()),
        }
    return {
        "panel": asked.name,
        "n": len(truth),
        "accuracy": with_interval("accuracy", float((posterior.argmax(axis=1) == truth).mean())),
        "supervised": asked.supervised,
        "ece": with_interval("ece", ece(posterior, truth).value or 0.0),
        "confidence": float(posterior.max(axis=1).mean()),
        "log_loss": log_loss(posterior, truth),
        "log_loss_by_bandwidth": asked.by_bandwidth,
        "constants": {"level": level, "spread": spread},
        "sharpness": found.sharpness,
        "outside": told,
        "labelled": list(_learning(asked, found, seed)),
    }


def _learning(asked: Asked, found: Calibration, seed: int) -> Iterator[dict[str, Any]]:
    """Calibration error on the remaining cases for each number of labelled cases: means over draws."""
    from sklearn.isotonic import IsotonicRegression

    truth = asked.cases.label_index
    for many in LABELLED:
        if len(truth) < 2 * many:
            continue
        draws = []
        for draw in range(DRAWS):
            order = np.random.default_rng([seed, draw]).permutation(len(truth))
            given, rest = asked.cases.at(order[:many]), asked.cases.at(order[many:])
            before, after, y = given.posterior(found), rest.posterior(found), rest.label_index
            by_labelled = rest.posterior(fit_on(given, found))
            cooled = apply_temperature(after, fit_temperature(before, given.label_index).value)
            top = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
            top.fit(before.max(axis=1), before.argmax(axis=1) == given.label_index)
            right = (after.argmax(axis=1) == y).astype(float)
            draws.append(
                {
                    "accuracy": float((by_labelled.argmax(axis=1) == y).mean()),
                    "ece_handful": ece(by_labelled, y).value or 0.0,
                    "ece_temperature": ece(cooled, y).value or 0.0,
                    "ece_isotonic": top_label_ece(top.predict(after.max(axis=1)), right),
                }
            )
        yield {"cases": many, **{key: float(np.mean([one[key] for one in draws])) for key in draws[0]}}


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{'panel':24} {'n':>4} {'accuracy':>20} {'superv.':>7} {'ECE':>20} {'conf.':>6} {'AUROC':>20} "
        f"{'none of these out / in':>22}"
    )
    for p in result["panels"]:
        out = p["outside"]
        auroc, masses = "–", "–"
        if out is not None:
            auroc, masses = _shown(out["auroc"]), f"{out['mean_outside']:.2f} / {out['mean_inside']:.3f}"
        ceiling = "–" if p["supervised"] is None else f"{p['supervised']:.3f}"
        yield (
            f"{p['panel']:24} {p['n']:4} {_shown(p['accuracy']):>20} {ceiling:>7} {_shown(p['ece']):>20} "
            f"{p['confidence']:6.3f} {auroc:>20} {masses:>22}"
        )
        losses = ", ".join(f"{b}: {loss:.3f}" for b, loss in p["log_loss_by_bandwidth"].items())
        yield f"{'':24} log loss by the kernel's bandwidth: {losses}"
        for step in p["labelled"]:
            yield (
                f"{'':24} with {step['cases']} labelled cases: ECE {step['ece_handful']:.3f} (temperature "
                f"{step['ece_temperature']:.3f}, isotonic {step['ece_isotonic']:.3f}), "
                f"accuracy {step['accuracy']:.3f}"
            )
    worst = result["worst"]
    yield f"mean ECE {result['mean_ece']:.3f}; largest {worst['ece']:.3f} ({worst['panel']})"


def _shown(figure: Mapping[str, float | None]) -> str:
    low, high = figure["low"], figure["high"]
    return f"{figure['value']:.3f}" + ("" if low is None else f" [{low:.3f}, {high:.3f}]")
