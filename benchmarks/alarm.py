"""Does the shared-bias alarm see confident errors that entropy does not?

    python benchmarks/alarm.py [--shared FOLDER] [--methods "auto;m-smc;…"] [--embedder NAME]

Every labelled case of the three packaged panels is answered; among answers with mass of at least .8 on one
label, the alarm should flag at least half of the errors and at most a tenth of the correct ones. Its
thresholds come from simulated text (see `simdx.decide.alarm`); labelled cases are only counted here, nothing
is chosen by them. Entropy gets the same test twice: with a threshold from the same simulated text, and, more
than fairly, with the threshold that spends exactly the alarm's own false alarms on these very cases.
Intervals of a rate are exact (Clopper–Pearson) where every case counts once; all others are percentile
bootstraps over cases, each panel resampled on its own. "auto, no background" is the shipped method without
the none-of-these hypothesis, which otherwise draws most errors below the confidence looked at here.

Writes results/alarm.json and results/alarm.md: counts and rates, no texts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import beta

from simdx import __version__
from simdx.bank.files import packaged_bank
from simdx.classifier import Classifier
from simdx.decide.alarm import CONFIDENT, LEAST_NULL, RATE
from simdx.experiments.records import current_commit
from simdx.panels import load_source
from simdx.types import Float, Int, entropy_bits

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "symptom-to-diagnosis": "data/sd/cases.jsonl",
    "oral-lesions": "data/oral/vignettes.jsonl",
    "case-reports": "data/pmc/cases.jsonl",
}
RESAMPLES = 2_000


@dataclass(frozen=True)
class Sample:
    """The confident answers of one panel: which are wrong, and what each detector says."""

    panel: str
    n: int
    case: Int  # (C,) which case each answer is of
    wrong: Float  # (C,) bool
    alarm: Float  # (C,) score
    alarm_p: Float  # (C,) the score against its own panel's null: comparable over panels
    flag: Float  # (C,) bool, thresholds from simulated text
    entropy: Float  # (C,)
    entropy_flag: Float  # (C,) bool, threshold from simulated text


def sample(panel: str, path: Path, method: str, embedder: str | None) -> Sample:
    method, _, variant = method.partition(", ")
    bank = replace(packaged_bank(load_source(panel)), background=()) if variant else None
    classifier = Classifier(panel, bank, method=method, embedder=embedder)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    truth = np.array([classifier.panel.names.index(row["label"]) for row in rows])
    batch = classifier.infer_batch([row["text"] for row in rows], alarm=True)
    assert batch.alarm is not None
    sure = batch.posterior.max(axis=1) >= CONFIDENT
    # Entropy's threshold from the same simulated answers as the alarm's: confident and correct.
    _, simulated_truth, answers = classifier.desk._simulated
    assert answers is not None
    right = answers.posterior.argmax(axis=1) == simulated_truth
    null = right & (answers.posterior.max(axis=1) >= CONFIDENT)
    null = null if null.sum() >= LEAST_NULL else right
    limit = np.quantile(entropy_bits(answers.posterior[null]), 1 - RATE, method="higher")
    bits = entropy_bits(batch.posterior[sure])
    wrong = (batch.posterior.argmax(axis=1) != truth)[sure]
    raised = batch.alarm
    return Sample(
        panel,
        len(rows),
        np.flatnonzero(sure),
        wrong,
        raised.score[sure],
        raised.p_value[sure],
        raised.flag[sure],
        bits,
        bits > limit,
    )


def measures(parts: list[Sample], weights: list[Float] | None = None) -> dict[str, float]:
    """Pooled rates; with bootstrap counts as weights, those of a resample."""
    w = np.concatenate(weights) if weights is not None else np.ones(sum(len(s.wrong) for s in parts))
    wrong = np.concatenate([s.wrong for s in parts])

    def both(flag: Float) -> tuple[float, float]:
        return _rate(flag, wrong, w), _rate(flag, ~wrong, w)

    recall, false_alarm = both(np.concatenate([s.flag for s in parts]))
    entropy_recall, entropy_false = both(np.concatenate([s.entropy_flag for s in parts]))
    score = np.concatenate([-s.alarm_p for s in parts])
    bits = np.concatenate([s.entropy for s in parts])
    return {
        "recall": recall,
        "false_alarm": false_alarm,
        "entropy_recall_simulated_threshold": entropy_recall,
        "entropy_false_alarm_simulated_threshold": entropy_false,
        "entropy_recall_at_same_false_alarms": _recall_at(bits, wrong, w, false_alarm),
        "recall_at_10_percent": _recall_at(score, wrong, w, RATE),
        "entropy_recall_at_10_percent": _recall_at(bits, wrong, w, RATE),
        "auroc": _auroc(score, wrong, w),
        "entropy_auroc": _auroc(bits, wrong, w),
    }


def report(parts: list[Sample], rng: np.random.Generator) -> dict[str, Any]:
    point = measures(parts)
    draws: dict[str, list[float]] = {name: [] for name in point}
    ahead: list[float] = []
    for _ in range(RESAMPLES):
        # Cases are drawn, not answers: several answers to one case come and go together.
        weights = [np.bincount(rng.integers(0, s.n, s.n), minlength=s.n)[s.case].astype(float) for s in parts]
        drawn = measures(parts, weights)
        for name, value in drawn.items():
            draws[name].append(value)
        ahead.append(drawn["recall"] - drawn["entropy_recall_at_same_false_alarms"])
    wrong = np.concatenate([s.wrong for s in parts])
    flag = np.concatenate([s.flag for s in parts])
    once = all(len(set(s.case.tolist())) == len(s.case) for s in parts)
    result = {
        "n_cases": {s.panel: s.n for s in parts},
        "n_confident": sum(len(s.wrong) for s in parts),
        "n_confident_errors": int(sum(s.wrong.sum() for s in parts)),
        "by_panel": {
            s.panel: {
                "confident_errors": int(s.wrong.sum()),
                "flagged_errors": int((s.flag & s.wrong).sum()),
                "confident_correct": int((~s.wrong).sum()),
                "flagged_correct": int((s.flag & ~s.wrong).sum()),
            }
            for s in parts
        },
        **{
            name: {"value": _clean(value), "interval": _interval(draws[name])}
            for name, value in point.items()
        },
        "recall_minus_entropy_at_same_false_alarms": {
            "value": _clean(point["recall"] - point["entropy_recall_at_same_false_alarms"]),
            "interval": _interval(ahead),
        },
    }
    if once:  # every case counts once: exact intervals, which 4 of 4 also have
        result["recall"]["interval"] = exact_interval(int(flag[wrong].sum()), int(wrong.sum()))
        result["false_alarm"]["interval"] = exact_interval(int(flag[~wrong].sum()), int((~wrong).sum()))
    return result


def exact_interval(count: int, n: int) -> list[float] | None:
    """Clopper–Pearson, 95 %."""
    if not n:
        return None
    low = beta.ppf(0.025, count, n - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, n - count) if count < n else 1.0
    return [round(float(low), 4), round(float(high), 4)]


def _rate(flag: Float, among: Float, w: Float) -> float:
    total = w[among].sum()
    return float(w[among] @ flag[among] / total) if total else float("nan")


def _recall_at(score: Float, wrong: Float, w: Float, rate: float) -> float:
    """Share of errors above the score that this share of correct answers exceed; ties shared evenly."""
    if not (w[wrong].sum() and w[~wrong].sum()) or np.isnan(rate):
        return float("nan")
    order = np.argsort(-score, kind="stable")
    _, block = np.unique(-score[order], return_inverse=True)
    good = np.bincount(block, weights=(w * ~wrong)[order])
    bad = np.bincount(block, weights=(w * wrong)[order])
    x = np.append(0, np.cumsum(good) / good.sum())
    y = np.append(0, np.cumsum(bad) / bad.sum())
    return float(np.interp(rate, x, y))


def _auroc(score: Float, wrong: Float, w: Float) -> float:
    if not (w[wrong].sum() and w[~wrong].sum()):
        return float("nan")
    a, b = score[wrong][:, None], score[~wrong][None, :]
    pairs = np.outer(w[wrong], w[~wrong])
    return float((pairs * ((a > b) + 0.5 * (a == b))).sum() / pairs.sum())


def _clean(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def _interval(values: list[float]) -> list[float] | None:
    known = np.array([v for v in values if not np.isnan(v)])
    # a rate that is undefined in many resamples (no error drawn) has no honest interval
    if len(known) < 0.9 * len(values):
        return None
    return [round(float(q), 4) for q in np.quantile(known, [0.025, 0.975])]


def markdown(record: dict[str, Any]) -> str:
    lines = [
        "# Shared-bias alarm on confident errors",
        "",
        f"Command: `{record['command']}`. Commit {record['commit']}, simdx {record['version']}, embedder "
        f"{record['embedder']}.",
        f"Confident: mass of at least {CONFIDENT} on one label. Pooled over the three packaged panels "
        f"({', '.join(f'{p} {n}' for p, n in record['n_cases'].items())} cases); 95 % intervals, "
        "exact for the alarm's rates per method, else bootstrap over cases within panels. "
        f"Alarm thresholds: simulated text only, {RATE:.0%} false alarms.",
        "",
        "| answers by | confident errors / correct | errors flagged | correct flagged | entropy, "
        "threshold from simulated text: errors / correct flagged | entropy at the alarm's own false "
        "alarms | at exactly 10 % false alarms: alarm / entropy | AUROC alarm | AUROC entropy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["methods"].items():
        lines.append(
            f"| {name} | {row['n_confident_errors']} / {row['n_confident'] - row['n_confident_errors']} | "
            f"{_cell(row['recall'])} | {_cell(row['false_alarm'])} | "
            f"{_cell(row['entropy_recall_simulated_threshold'])} / "
            f"{_cell(row['entropy_false_alarm_simulated_threshold'])} | "
            f"{_cell(row['entropy_recall_at_same_false_alarms'])} | {_cell(row['recall_at_10_percent'])} / "
            f"{_cell(row['entropy_recall_at_10_percent'])} | {_cell(row['auroc'])} | "
            f"{_cell(row['entropy_auroc'])} |"
        )
    lines += [
        "",
        "Per panel (flagged / all):",
        "",
        "| answers by | panel | errors | correct |",
        "|---|---|---|---|",
    ]
    for name, row in record["methods"].items():
        for panel, part in row["by_panel"].items():
            lines.append(
                f"| {name} | {panel} | {part['flagged_errors']} / {part['confident_errors']} | "
                f"{part['flagged_correct']} / {part['confident_correct']} |"
            )
    lines += [
        "",
        "“all methods” pools the answers of every method above: the same case can count more than once.",
        "",
    ]
    return "\n".join(lines)


def _cell(entry: dict[str, Any]) -> str:
    if entry["value"] is None:
        return "–"
    interval = entry["interval"]
    return f"{entry['value']:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--shared", type=Path, default=Path(os.environ.get("SIMDX_SHARED", ROOT.parent / "shared"))
    )
    parser.add_argument("--methods", default="auto;auto, no background;m-smc;bank-logistic")
    parser.add_argument("--embedder", default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "command": " ".join(["python benchmarks/alarm.py", *(a for a in sys.argv[1:] if "/" not in a)]),
        "commit": current_commit(),
        "version": __version__,
        "embedder": arguments.embedder or "each panel's own",
        "n_cases": {},
        "methods": {},
    }  # fmt: skip
    everything: dict[str, list[Sample]] = {panel: [] for panel in CASES}
    for method in arguments.methods.split(";"):
        places = {panel: arguments.shared / path for panel, path in CASES.items()}
        parts = [sample(panel, path, method, arguments.embedder) for panel, path in places.items()]
        for part in parts:
            everything[part.panel].append(part)
        row = report(parts, np.random.default_rng(0))
        record["n_cases"] = row["n_cases"]
        record["methods"][method] = row
        print(f"{method}: errors {row['recall']}, correct {row['false_alarm']}", file=sys.stderr)
    if len(record["methods"]) > 1:
        record["methods"]["all methods"] = report(
            [_stack(parts) for parts in everything.values()], np.random.default_rng(0)
        )
    arguments.out.mkdir(exist_ok=True)
    (arguments.out / "alarm.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "alarm.md").write_text(markdown(record), encoding="utf-8")
    print(markdown(record))


def _stack(parts: list[Sample]) -> Sample:
    arrays = ("case", "wrong", "alarm", "alarm_p", "flag", "entropy", "entropy_flag")
    joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in arrays}
    return Sample(parts[0].panel, parts[0].n, **joined)


if __name__ == "__main__":
    main()
