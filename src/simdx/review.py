"""Expert review of cases and banks: blinded forms out, scores in; means, spread, agreement, what to revise.

A form (HTML, with a CSV twin) shows a number and a text: no id, no source, no other reviewer, and no gold
label unless asked for. Each reviewer's order is shuffled on its own, so that fatigue does not fall on the
same cases. A filled form is untrusted: it must name this review and one of its reviewers, and every score
must be a whole number from 1 to 5. Cases without both scores are left out and counted. Scores lie beside the
data with a hash of the text they were given for, so that a revised text counts as unreviewed.

Agreement is over cases that at least two reviewers scored: exact and within-one shares, the mean pairwise
quadratically weighted kappa (chance-corrected, for ordered scores) and, on cases all reviewers scored,
ICC(2,1). When nearly every score is a 5, kappa and ICC are low or undefined although reviewers agree.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from simdx.bank.files import BANK_FILE
from simdx.datasets import load_oral
from simdx.datasets.dataset import Columns, Dataset, read_cases
from simdx.disk import cannot_write, filling, refuse_occupied, write_atomically
from simdx.errors import BadInput
from simdx.metrics.scores import Value, defined, undefined
from simdx.report.page import fill
from simdx.rows import data_blocks, jsonl_rows
from simdx.types import NONE_OF_THESE, Case, Float, content_hash

KEY_FILE = "review.json"
SCALES: dict[str, str] = {
    "completeness": "Are the features needed for a diagnosis there: morphology, course over time, site?",
    "correctness": "Is this constellation of findings medically plausible?",
}
LOWEST, HIGHEST, ACCEPTED = 1, 5, 4
MOST_CASES = 999  # of a form
_MOST_FEEDBACK = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class SentCase(BaseModel):
    """A text that was sent out, by its hash, and its gold label."""

    hash: str
    label: str | None


class ReviewSheet(BaseModel):
    """The organiser's key. `order[reviewer]` lists case ids as that reviewer's form numbers them."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    review: str  # identity of this review; forms carry it and answers must
    dataset: str
    scores_file: str  # where the scores go: beside the data
    labels: tuple[str, ...]
    seed: int
    label_shown: bool
    cases: dict[str, SentCase]
    order: dict[str, tuple[str, ...]]
    folder: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if not {case for order in self.order.values() for case in order} <= self.cases.keys():
            raise ValueError("a form names a case that was not sent out")
        return self


def open_review(folder: str | Path) -> ReviewSheet:
    """The key of a review made earlier."""
    path = Path(folder) / KEY_FILE
    if not path.is_file():
        raise BadInput(f"{folder} holds no review: make one with 'simdx review make'")
    try:
        found = ReviewSheet.model_validate_json(path.read_bytes())
    except ValidationError:
        raise BadInput(f"{path} is not a review key that this version reads") from None
    return found.model_copy(update={"folder": path.parent})


# --------------------------------------------------------------------------- forms out


def make_review(
    data: str | Path,
    out: str | Path,
    *,
    reviewers: Sequence[str] = ("reviewer-1",),
    seed: int = 0,
    sample: int | None = None,
    only: Sequence[str] | None = None,
    show_label: bool = False,
    columns: Columns | None = None,
) -> ReviewSheet:
    """Write forms for a data file, a bank (folder or JSONL) or a packaged set into a new folder.

    `sample` takes that many cases at random; `only` takes the named ids (a second round on revised cases).
    """
    folder = Path(out)
    refuse_occupied(folder)
    for name in reviewers:
        if not _NAME.fullmatch(name):
            raise BadInput(f"'{name[:40]}' cannot name a reviewer: use letters, digits, - and _, at most 40")
    if not reviewers or len(set(reviewers)) != len(reviewers):
        raise BadInput("a review needs at least one reviewer, and each name once")
    dataset, scores_file = _source(data, folder, columns)
    cases = {case.id: case for case in _chosen(dataset, seed, sample, only)}
    identity = content_hash("review", dataset.hash, *cases, str(seed), *reviewers)[:16]
    order = {}
    for name in reviewers:
        rng = np.random.default_rng(int(content_hash(identity, name)[:16], 16))
        order[name] = tuple(np.array(list(cases), dtype=object)[rng.permutation(len(cases))])
    sent = {
        case.id: SentCase(hash=content_hash("reviewed text", case.text)[:16], label=case.label)
        for case in cases.values()
    }
    sheet = ReviewSheet(
        folder=folder, review=identity, dataset=dataset.name, scores_file=str(scores_file),
        labels=dataset.labels, seed=seed, label_shown=show_label, cases=sent, order=order,
    )  # fmt: skip
    # With the label hidden, asking for a diagnosis checks the gold label at no extra cost.
    choices = [] if show_label else sorted(dataset.labels)
    with filling(folder, "form-*.html", "form-*.csv", KEY_FILE):
        for name, ids in order.items():
            items = [
                {"code": f"{i:03d}", "text": case.text, "label": case.label if show_label else None}
                for i, case in enumerate(map(cases.__getitem__, ids), start=1)
            ]
            write_atomically(folder / f"form-{name}.html", form_page(identity, name, items, choices))
            write_atomically(folder / f"form-{name}.csv", _csv(identity, name, items))
        write_atomically(folder / KEY_FILE, sheet.model_dump_json(indent=2))
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
        if missing := [i for i in only if i not in {c.id for c in cases}]:
            raise BadInput(f"{dataset.name} has no case '{missing[0][:40]}'")
        cases = [c for c in cases if c.id in set(only)]
    if sample is not None:
        if not 1 <= sample <= len(cases):
            raise BadInput(f"a sample of {sample} cannot be taken from {len(cases)} cases")
        cases.sort(key=lambda c: content_hash("review sample", str(seed), c.id, c.text))
        cases = cases[:sample]
    if len(cases) > MOST_CASES:
        raise BadInput(f"{len(cases)} cases are too many for one form: take a sample of at most {MOST_CASES}")
    return cases


def _csv(identity: str, reviewer: str, items: Sequence[dict[str, str | None]]) -> str:
    """The same form for a spreadsheet; the first row names the review so that answers find their way back."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("code", "text", *SCALES, "diagnosis", "feedback"))
    writer.writerow(["review", f"{identity}/{reviewer}", "", "", "", "do not change this row"])
    for item in items:
        text = (f"[{item['label']}] " if item["label"] else "") + str(item["text"])
        # A spreadsheet would run a cell that begins like a formula.
        writer.writerow([item["code"], "'" + text if text[:1] in "=+-@" else text, "", "", "", ""])
    return stream.getvalue()


def form_page(
    review: str, reviewer: str, items: Sequence[dict[str, str | None]], choices: Sequence[str]
) -> str:
    """One HTML file that works offline: every change goes to the browser's local storage; "Save" downloads
    this same page with the answers inside, to be opened again anywhere."""
    setup = {
        "review": review, "reviewer": reviewer, "items": list(items), "choices": list(choices),
        "scales": SCALES, "low": LOWEST, "high": HIGHEST,
    }  # fmt: skip
    return fill("form.html", title=f"Review {review}, {reviewer}", setup=setup)


# --------------------------------------------------------------------------- filled forms

Answers = dict[str, Mapping[str, Any]]  # by the code of the case
Points = Annotated[int, Field(ge=LOWEST, le=HIGHEST)]


class Score(BaseModel):
    """One reviewer's judgement of one text, as it is stored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    id: str
    text_hash: str
    review: str
    reviewer: str
    role: str
    completeness: Points
    correctness: Points
    diagnosis: str | None = None
    feedback: str = ""


def import_scores(sheet: ReviewSheet, form: str | Path, *, role: str) -> dict[str, Any]:
    """Check a filled form and store its scores, with the reviewer's role, beside the data."""
    path = Path(form)
    if not role.strip() or len(role) > 80:
        raise BadInput("say in a few words what the reviewer is (role), for example 'oral pathologist'")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path} is not a readable UTF-8 file") from None
    read = _from_html if content.lstrip().startswith("<") else _from_csv
    review, reviewer, answers = read(content, path.name)
    if review != sheet.review:
        raise BadInput(f"{path.name} belongs to another review than {sheet.folder}")
    if reviewer not in sheet.order:
        raise BadInput(f"{path.name} names the reviewer '{reviewer[:40]}', who has no form in this review")
    found = (_score(sheet, reviewer, role.strip(), c, a, path.name) for c, a in answers.items())
    scores = [score for score in found if score is not None]
    target = Path(sheet.scores_file)
    fresh = {(s.id, s.text_hash) for s in scores}
    try:
        # Two imports at once must not undo each other: read, merge and write as one step.
        with FileLock(target.with_name(f".{target.name}.lock")):
            earlier = read_scores(target)
            kept = [s for s in earlier if s.reviewer != reviewer or (s.id, s.text_hash) not in fresh]
            rows = sorted([*kept, *scores], key=lambda s: (s.id, s.reviewer, s.text_hash))
            write_atomically(target, "".join(f"{s.model_dump_json()}\n" for s in rows))
    except OSError as error:  # of the lock
        raise cannot_write(target, error) from None
    unscored = len(sheet.order[reviewer]) - len(scores)
    return {"reviewer": reviewer, "scored": len(scores), "unscored": unscored, "scores": str(target)}


def read_scores(path: str | Path) -> list[Score]:
    """Stored scores; a file that is not there has none."""
    path = Path(path)
    if not path.is_file():
        return []
    found = []
    for number, row in jsonl_rows(path):
        try:
            found.append(Score.model_validate(row))
        except ValidationError:
            raise BadInput(f"{path.name}, line {number}: not a stored score") from None
    return found


def _score(
    sheet: ReviewSheet, reviewer: str, role: str, code: str, answer: Mapping[str, Any], form: str
) -> Score | None:
    """The score of the case behind a code such as "017"; None where a scale was left empty."""
    cases, where = sheet.order[reviewer], f"{form}, case {code}"
    if not code.isdecimal() or not 1 <= int(code) <= len(cases):
        raise BadInput(f"'{code[:20]}' is not a code of {reviewer}'s form")
    case = cases[int(code) - 1]
    points = {scale: _points(answer.get(scale), f"{where}: {scale}") for scale in SCALES}
    if None in points.values():
        return None
    diagnosis = str(answer.get("diagnosis") or "").strip() or None
    if diagnosis is not None and diagnosis not in (*sheet.labels, NONE_OF_THESE):
        raise BadInput(f"{where}: the diagnosis is not one the form offers")
    feedback = str(answer.get("feedback") or "").strip()
    if len(feedback) > _MOST_FEEDBACK:
        raise BadInput(f"{where}: the feedback has more than {_MOST_FEEDBACK} characters")
    about: dict[str, Any] = {**points, "diagnosis": diagnosis, "feedback": feedback}
    text_hash = sheet.cases[case].hash
    return Score(id=case, text_hash=text_hash, review=sheet.review, reviewer=reviewer, role=role, **about)


def _points(value: object, where: str) -> int | None:
    """A score, None where nothing was entered; a spreadsheet's "4.0" counts as 4."""
    if value is None or value == "":
        return None
    try:
        number = float(str(value))  # of True too: no number
    except ValueError:
        number = float("nan")
    if number not in range(LOWEST, HIGHEST + 1):
        raise BadInput(f"{where} must be a whole number from {LOWEST} to {HIGHEST}")
    return int(number)


def _from_html(content: str, name: str) -> tuple[str, str, Answers]:
    blocks = data_blocks(content)
    try:
        setup, answers = json.loads(blocks["setup"]), json.loads(blocks["answers"])
        review, reviewer = str(setup["review"]), str(setup["reviewer"])
        if not isinstance(answers, dict) or not all(isinstance(a, dict) for a in answers.values()):
            raise TypeError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise BadInput(f"{name} is not a saved review form") from None
    return review, reviewer, answers


def _from_csv(content: str, name: str) -> tuple[str, str, Answers]:
    delimiter = max(",;", key=content.split("\n", 1)[0].count)  # many spreadsheets save with semicolons
    try:
        reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, restkey="more")
        if not set(SCALES) | {"code", "text"} <= set(reader.fieldnames or ()):
            raise BadInput(f"{name} is neither a saved review form nor its CSV file")
        rows = [row for row in reader if any(str(v or "").strip() for k, v in row.items() if k != "more")]
    except csv.Error:
        raise BadInput(f"{name} is not valid CSV") from None
    told = (rows[0]["text"] or "") if rows and rows[0]["code"] == "review" else ""
    if "/" not in told:
        raise BadInput(f"{name}: the row that names the review is missing")
    review, _, reviewer = told.partition("/")
    answers: Answers = {}
    for row in rows[1:]:
        code = (row["code"] or "").strip()
        code = code.zfill(3) if code.isdigit() else code  # spreadsheets turn 007 into 7
        if code in answers:
            raise BadInput(f"{name}: case {code[:20]} occurs twice")
        answers[code] = row
    return review, reviewer, answers


# --------------------------------------------------------------------------- what the reviewers said


def summarise(sheet: ReviewSheet) -> dict[str, Any]:
    """The outcome as plain values; `undefined` says why one is None.

    Only scores of the texts that this review sent out count, not those of other versions.
    """
    sent, stored = sheet.cases, read_scores(sheet.scores_file)
    current = [s for s in stored if s.id in sent and sent[s.id].hash == s.text_hash]
    cases, roles = sorted({s.id for s in current}), {s.reviewer: s.role for s in current}
    names = sorted(roles)
    reviewers = {name: {"role": roles[name], "n": sum(s.reviewer == name for s in current)} for name in names}
    lowest: dict[str, dict[str, int]] = {case: {} for case in cases}
    scales: dict[str, dict[str, Any]] = {}
    reasons: dict[str, str] = {}
    for scale in SCALES:
        table = np.full((len(cases), len(names)), np.nan)
        for s in current:
            table[cases.index(s.id), names.index(s.reviewer)] = getattr(s, scale)
        values = _summary_of(table)
        counts = {str(i): int((table == i).sum()) for i in range(LOWEST, HIGHEST + 1)}
        scales[scale] = {key: value.value for key, value in values.items()} | {"counts": counts}
        reasons |= {f"{scale}.{key}": value.reason for key, value in values.items() if value.reason}
        for name, column in zip(names, table.T, strict=True):
            reviewers[name][scale] = float(np.nanmean(column))
        for case, row in zip(cases, table, strict=True):
            lowest[case][scale] = int(np.nanmin(row))
    revise: list[dict[str, Any]] = [
        {"id": case, **least, "feedback": [s.feedback for s in current if s.id == case and s.feedback]}
        for case, least in lowest.items()
        if min(least.values()) < ACCEPTED
    ]
    revise.sort(key=lambda row: min(row[scale] for scale in SCALES))  # the worst first
    # The diagnosis that a blinded reviewer names checks the gold label.
    named = [s for s in current if s.diagnosis and sent[s.id].label]
    differing = [s.id for s in named if s.diagnosis != sent[s.id].label]
    agreed = {
        "n": len(named), "agreement": 1 - len(differing) / max(len(named), 1),
        "differing": sorted(set(differing)),
    }  # fmt: skip
    return {
        "n_cases": len(sent), "n_scored": len(cases), "reviewers": reviewers, "scales": scales,
        "label_agreement": agreed if named else None, "revise": revise, "undefined": reasons,
    }  # fmt: skip


def weighted_kappa(a: Sequence[int], b: Sequence[int]) -> Value:
    """Cohen's kappa with quadratic weights over the five points."""
    from sklearn.metrics import cohen_kappa_score

    if len({*a, *b}) == 1:
        return undefined("both reviewers gave one and the same score throughout, so chance explains it all")
    return defined(cohen_kappa_score(a, b, labels=range(LOWEST, HIGHEST + 1), weights="quadratic"))


def icc(table: Float) -> Value:
    """ICC(2,1): two-way random effects, absolute agreement, single reviewer; rows are cases."""
    n, k = table.shape if table.ndim == 2 else (0, 0)
    if n < 2 or k < 2:
        return undefined("ICC needs two cases that two reviewers scored")
    cases, judges = table.mean(axis=1, keepdims=True), table.mean(axis=0)
    between_cases = k * ((cases - table.mean()) ** 2).sum() / (n - 1)
    between_judges = n * ((judges - table.mean()) ** 2).sum() / (k - 1)
    error = ((table - cases - judges + table.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    whole = between_cases + (k - 1) * error + k * (between_judges - error) / n
    if whole <= 1e-12:
        return undefined("all scores are equal, so there is no variance to share")
    return defined((between_cases - error) / whole)


def _summary_of(points: Float) -> dict[str, Value]:
    """One scale, from the points (cases, reviewers); NaN where a reviewer did not score a case."""
    values, complete = points[np.isfinite(points)], points[np.isfinite(points).all(axis=1)]
    pairs = [points[:, both] for both in combinations(range(points.shape[1]), 2)]
    pairs = [pair[np.isfinite(pair).all(axis=1)] for pair in pairs]
    kappas = [weighted_kappa(*pair.astype(int).T.tolist()) for pair in pairs if len(pair)]
    known = [kappa.value for kappa in kappas if kappa.value is not None]
    gaps = np.abs(np.diff(np.concatenate(pairs))) if kappas else np.zeros(0)
    nothing, few = undefined("no scores yet"), undefined("fewer than two reviewers scored the same case")
    return {
        "mean": defined(values.mean()) if values.size else nothing,
        "sd": defined(values.std(ddof=1)) if values.size > 1 else undefined("fewer than two scores"),
        "median": defined(float(np.median(values))) if values.size else nothing,
        "exact_agreement": defined((gaps == 0).mean()) if gaps.size else few,
        "within_one": defined((gaps <= 1).mean()) if gaps.size else few,
        "weighted_kappa": defined(float(np.mean(known))) if known else next(iter(kappas), few),
        "icc": icc(complete) if points.shape[1] > 1 else few,
    }
