"""Figures that pages quote, written from the committed records: `python docs/tools/figures.py`.

A page marks the place: what stands between `<!-- figures: NAME -->` and `<!-- /figures -->` is replaced by
what the function NAME makes of the records. `--check` writes nothing and fails where a page differs, so that
README, model card and record cannot quote two figures for one thing. Run it after a record has changed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md", "docs/model-card.md", "docs/intended-use.md", "docs/method/calibration.md",
    "docs/service.md",
)  # fmt: skip
PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- /figures -->)", re.S)

# What a panel's texts are, in words; the order is that of the tables.
PANELS = {
    "symptom-to-diagnosis": ("six diagnoses, patients' words", "synthetic"),
    "oral-lesions": ("three oral lesions, vignettes", "synthetic"),
    "case-reports": ("seven conditions, published case reports", "real"),
    "reports8": ("eight specialties, dictated reports", "real"),
    "injuries": ("eight kinds of injury, emergency notes", "real"),
    "clauses10": ("ten kinds of contract clause", "real"),
    "clinc10": ("ten requests to an assistant", "real"),
    "abstracts": ("five subjects of medical abstracts", "real"),
    "airways": ("eight airway illnesses, question and answer", "synthetic"),
}
PACKAGED = ("symptom-to-diagnosis", "oral-lesions", "case-reports")


def record(path: str) -> Any:
    return json.loads((ROOT / "results" / path).read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    """The panels of the transfer record, in the tables' order."""
    found = {row["panel"]: row for row in record("transfer/record.json")["panels"]}
    return [found[name] for name in PANELS if name in found]


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def caught(row: dict[str, Any]) -> tuple[str, str]:
    outside = row["outside"] or {}
    return percent(outside.get("caught")), percent(outside.get("wrongly_rejected"))


def interval(figure: dict[str, float], show: Callable[[float], str]) -> str:
    """A figure with its interval; a unit behind the figure is not repeated."""
    low, high = (show(figure[end]).removesuffix(" %") for end in ("low", "high"))
    return f"{show(figure['value'])} ({low}–{high})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def transfer(rows: list[dict[str, Any]] | None = None) -> str:
    """Accuracy, calibration error and the two rates of none of these; the worst panel in words."""
    head = ["panel (cases)", "text", "accuracy", "calibration error", "outside cases caught",
            "inside cases wrongly rejected"]  # fmt: skip
    cells = []
    for row in rows or panels():
        words, kind = PANELS[row["panel"]]
        shown = (interval(row[name], percent) for name in ("accuracy", "ece"))
        cells.append([f"{words} ({row['n']})", kind, *shown, *caught(row)])
    return _table(head, cells)


def packaged() -> str:
    return transfer([row for row in panels() if row["panel"] in PACKAGED])


def worst() -> str:
    """The least accurate panel, the one with the largest calibration error, the one that catches least."""
    rows = panels()
    least = min(rows, key=lambda row: row["accuracy"]["value"])
    largest = max(rows, key=lambda row: row["ece"]["value"])
    weighed = [row for row in rows if (row["outside"] or {}).get("caught") is not None]
    said = f"The worst panel is {PANELS[least['panel']][0]}: {percent(least['accuracy']['value'])} accuracy"
    if least["supervised"] is not None:
        said += f" (a supervised model with the labels: {percent(least['supervised'])})"
    error = percent(largest["ece"]["value"])
    if largest is least:
        said += f" and a calibration error of {error}."
    else:
        said += f". The largest calibration error, {error}, is on {PANELS[largest['panel']][0]}."
    if weighed:
        fewest = min(weighed, key=lambda row: row["outside"]["caught"])
        said += f" Outside cases are caught least among {PANELS[fewest['panel']][0]}: {caught(fewest)[0]}."
    return fill(said, 118)


VERDICTS = {"agrees": "agree", "disagrees": "disagree"}


def claims() -> str:
    """The verdicts on the paper's claims, counted."""
    verdicts = [claim["verdict"] for claim in record("paper/claims.json")["claims"]]
    names = sorted(set(verdicts), key=lambda v: (v not in VERDICTS, v))
    said = ", ".join(f"{verdicts.count(name)} {VERDICTS.get(name, name)}" for name in names)
    return f"The paper's {len(verdicts)} claims, tested on our records: {said}."


def timings() -> str:
    """One line: a single answer, a batch, the service."""
    answers, service = record("answers/answers.json")["after"], record("../benchmarks/results/service.json")
    single, batch, cold = (answers[key] for key in ("single_ms", "batch_us", "cold_cpu_s"))
    said = (
        f"Timings: one answer {single:.0f} ms on a core, {batch:.0f} µs in a batch, cold start {cold:.1f} s; "
        f"the service answers {service['rps']:.0f} requests a second on two cores."
    )
    return fill(said, 118)


def rates() -> str:
    """What the service answers: one process, then two replicas."""
    one = record("../benchmarks/results/service.json")
    said = (
        f"`{one['command']}`, {one['cores']} cores shared with the load generator, {one['clients']} clients, "
        f"{one['seconds']:.0f} s ([record](../benchmarks/results/service.json)): {one['rps']:.0f} requests a "
        f"second, median {one['p50_ms']:.0f} ms, p99 {one['p99_ms']:.0f} ms, {one['errors'] or 'no'} errors."
    )
    if two := one.get("two_replicas"):
        said += f" Two replicas: {two['rps']:.0f}."
    return fill(said, 118)


def aurocs() -> str:
    """How well none of these is ranked on the packaged panels."""
    found = [row["outside"]["auroc"]["value"] for row in panels() if row["panel"] in PACKAGED]
    return f"The AUROC of *none of these* on the packaged panels is {min(found):.2f} to {max(found):.2f}."


def three(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".removeprefix("0")


def calibration() -> str:
    """The table of the calibration page: with the supervised ceiling, fifty labels and the AUROC."""
    head = ["panel (cases)", "accuracy / supervised", "ECE", "with 50 labels", "out-of-class AUROC",
            "none of these, mean outside / inside"]  # fmt: skip
    cells = []
    for row in panels():
        outside, beyond = row["outside"], ["–", "–"]
        if outside is not None:
            masses = f"{outside['mean_outside']:.2f} / {outside['mean_inside']:.3f}"
            beyond = [interval(outside["auroc"], three), masses]
        learnt = {step["cases"]: step["ece_handful"] for step in row["labelled"]}
        both = f"{three(row['accuracy']['value'])} / {three(row['supervised'])}"
        about = f"{PANELS[row['panel']][0]} ({row['n']})"
        cells.append([about, both, interval(row["ece"], three), three(learnt.get(50)), *beyond])
    whole = record("transfer/record.json")
    said = f"Mean ECE {three(whole['mean_ece'])}; largest {three(whole['worst']['ece'])}."
    return f"{_table(head, cells)}\n\n{said}"


MADE: dict[str, Callable[[], str]] = {
    "transfer": transfer, "packaged": packaged, "worst": worst, "claims": claims, "timings": timings,
    "rates": rates, "aurocs": aurocs, "calibration": calibration,
}  # fmt: skip


def filled(text: str) -> str:
    return PLACE.sub(lambda place: f"{place[1]}{MADE[place[2]]()}\n{place[3]}", text)


def main(arguments: list[str]) -> int:
    stale = {}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            stale[page] = new
    if "--check" not in arguments:
        for page, new in stale.items():
            (ROOT / page).write_text(new, encoding="utf-8")
    elif stale:
        print(f"{', '.join(stale)}: other figures than the records; run python docs/tools/figures.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
