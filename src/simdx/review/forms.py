"""Make a review: per reviewer a blinded, shuffled form (HTML) with its CSV twin, and the organiser's key.

Blind means that a form shows a number and a text: no id, no source, no difficulty, no other reviewer, and no
gold label unless asked for. Each reviewer's order is shuffled on its own, so that fatigue does not fall
on the same cases.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simdx.bank.files import BANK_FILE
from simdx.datasets.dataset import Dataset
from simdx.datasets.files import Columns, read_cases
from simdx.datasets.oral import load_oral
from simdx.disk import filling, refuse_occupied, write_atomically
from simdx.errors import BadInput
from simdx.report.page import fill
from simdx.review.sheet import HIGHEST, KEY_FILE, LOWEST, SCALES, ReviewSheet, SentCase
from simdx.review.tools import SHARED_FILES, TOOLS, tool_files
from simdx.types import Case, content_hash

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
CSV_HEADER = ("code", "text", *SCALES, "diagnosis", "feedback")


def make_review(
    data: str | Path,
    out: str | Path,
    *,
    reviewers: Sequence[str] = ("reviewer-1",),
    seed: int = 0,
    sample: int | None = None,
    only: Sequence[str] | None = None,
    show_label: bool = False,
    tool: str | None = None,
    columns: Columns | None = None,
) -> ReviewSheet:
    """Write forms for a data file, a bank (folder or JSONL) or a packaged set into a new folder.

    `sample` takes that many cases at random; `only` takes the named ids (a second round on revised cases).
    `tool` adds the forms as files of Label Studio or Argilla.
    """
    folder = Path(out)
    refuse_occupied(folder)
    names = list(reviewers)
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadInput(f"'{name[:40]}' cannot name a reviewer: use letters, digits, - and _, at most 40")
    if tool is not None and tool not in TOOLS:
        raise BadInput(f"'{tool[:40]}' is no tool that forms can be written for: choose {' or '.join(TOOLS)}")
    if not names or len(set(names)) != len(names):
        raise BadInput("a review needs at least one reviewer, and each name once")
    dataset, scores_file = _source(data, folder, columns)
    cases = _chosen(dataset, seed, sample, only)
    identity = content_hash("review", dataset.hash, *(c.id for c in cases), str(seed), *names)[:16]
    order = {}
    for name in names:
        rng = np.random.default_rng(int(content_hash(identity, name)[:16], 16))
        order[name] = [cases[i] for i in rng.permutation(len(cases))]
    # A revised text has another hash.
    hashes = {c.id: content_hash("reviewed text", c.text)[:16] for c in cases}
    sheet = ReviewSheet(
        folder=folder, review=identity, dataset=dataset.name, scores_file=str(scores_file),
        labels=dataset.labels, seed=seed, label_shown=show_label,
        cases={c.id: SentCase(hash=hashes[c.id], label=c.label) for c in cases},
        order={name: tuple(c.id for c in shuffled) for name, shuffled in order.items()},
    )  # fmt: skip
    with filling(folder, "form-*.html", "form-*.csv", "form-*.json", *SHARED_FILES, KEY_FILE):
        for name, shuffled in order.items():
            items = [
                {"code": f"{i + 1:03d}", "text": c.text, "label": c.label if show_label else None}
                for i, c in enumerate(shuffled)
            ]
            # with the label hidden, asking for a diagnosis checks the gold label at no extra cost
            choices = [] if show_label else sorted(dataset.labels)
            write_atomically(folder / f"form-{name}.html", form_page(identity, name, items, choices))
            write_atomically(folder / f"form-{name}.csv", _csv(identity, name, items))
            if tool is not None:
                for file, content in tool_files(tool, identity, name, items, choices).items():
                    write_atomically(folder / file, content)
        write_atomically(folder / KEY_FILE, sheet.model_dump_json(indent=1) + "\n")
    return sheet


def _source(data: str | Path, folder: Path, columns: Columns | None) -> tuple[Dataset, Path]:
    """What is reviewed (a packaged set, a bank folder, a file), and the file beside it for the scores."""
    path = Path(data)
    if path.is_dir():
        if not (path / BANK_FILE).is_file():
            raise BadInput(f"{path} is neither a file of cases nor a bank folder")
        found = read_cases(path / BANK_FILE, columns=columns, name=path.name)
        return found, path.resolve() / "review.jsonl"
    if not path.exists() and str(data) == "oral-lesions":
        return load_oral().cases, folder.resolve() / "scores.jsonl"  # a packaged set is read-only
    return read_cases(path, columns=columns), Path(f"{path.resolve()}.review.jsonl")


def _chosen(dataset: Dataset, seed: int, sample: int | None, only: Sequence[str] | None) -> list[Case]:
    cases = list(dataset.cases)
    if only is not None:
        known = {c.id for c in cases}
        missing = [i for i in only if i not in known]
        if missing:
            raise BadInput(f"{dataset.name} has no case '{missing[0][:40]}'")
        cases = [c for c in cases if c.id in set(only)]
    if sample is not None:
        if not 1 <= sample <= len(cases):
            raise BadInput(f"a sample of {sample} cannot be taken from {len(cases)} cases")
        cases.sort(key=lambda c: content_hash("review sample", str(seed), c.id, c.text))
        cases = cases[:sample]
    if len(cases) > 999:
        raise BadInput(f"{len(cases)} cases are too many for one form: take a sample of at most 999")
    return cases


def _csv(identity: str, reviewer: str, items: Sequence[dict[str, str | None]]) -> str:
    """The same form for a spreadsheet; the first row names the review so that answers find their way back."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    writer.writerow(["review", f"{identity}/{reviewer}", "", "", "", "do not change this row"])
    for item in items:
        text = str(item["text"])
        if item["label"]:
            text = f"[{item['label']}] {text}"
        # a spreadsheet would run a cell that begins like a formula
        writer.writerow([item["code"], "'" + text if text[:1] in "=+-@" else text, "", "", "", ""])
    return stream.getvalue()


def form_page(
    review: str, reviewer: str, items: Sequence[dict[str, str | None]], choices: Sequence[str]
) -> str:
    """One HTML file that works offline. Answers live in the page: every change goes to the browser's local
    storage; "Save" downloads this same page with the answers inside, so that opening the saved file, here or
    on another machine, goes on where it stopped."""
    setup = {
        "review": review, "reviewer": reviewer, "items": list(items), "choices": list(choices),
        "scales": SCALES, "low": LOWEST, "high": HIGHEST,
    }  # fmt: skip
    return fill("form.html", "simdx.review", title=f"Review {review}, {reviewer}", setup=setup)
