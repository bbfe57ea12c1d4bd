"""Filled forms in, scores beside the data out.

A filled form is the saved HTML page or its CSV twin. Both are untrusted: they must name this review and one
of its reviewers, and every score must be a whole number from 1 to 5. Cases without both scores are left out
and counted. Importing a reviewer's form again replaces their earlier scores of the same texts.
"""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from filelock import FileLock
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from simdx.disk import cannot_write, write_atomically
from simdx.errors import BadInput
from simdx.markup import data_blocks
from simdx.review.forms import HIGHEST, LOWEST, SCALES, ReviewSheet
from simdx.types import NONE_OF_THESE

_MOST_FEEDBACK = 10_000
Answers = dict[str, dict[str, Any]]
Points = Annotated[int, Field(ge=LOWEST, le=HIGHEST)]


@dataclass(frozen=True, slots=True)
class Score:
    """One reviewer's judgement of one text."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    id: str
    text_hash: str
    review: str
    reviewer: str
    role: str
    completeness: Points
    correctness: Points
    diagnosis: str | None = None
    feedback: str = ""


_STORED = TypeAdapter(Score)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a form brought."""

    reviewer: str
    scored: int
    unscored: int
    scores_file: Path


def import_scores(sheet: ReviewSheet, form: str | Path, *, role: str) -> Imported:
    """Check a filled form and store its scores, with the reviewer's role, beside the data."""
    path = Path(form)
    if not role.strip() or len(role) > 80:
        raise BadInput("say in a few words what the reviewer is (role), for example 'oral pathologist'")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path} is not a readable UTF-8 file") from None
    read = _html if content.lstrip().startswith("<") else _csv
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
            lines = "".join(json.dumps(asdict(s), ensure_ascii=False) + "\n" for s in rows)
            write_atomically(target, lines)
    except OSError as error:  # of the lock
        raise cannot_write(target, error) from None
    return Imported(reviewer, len(scores), len(sheet.order[reviewer]) - len(scores), target)


def read_scores(path: str | Path) -> list[Score]:
    """Stored scores; a file that is not there has none."""
    path = Path(path)
    if not path.is_file():
        return []
    found = []
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path.name} is not a readable UTF-8 file") from None
    # By line feeds alone: `splitlines` would also cut at separators a reviewer's words may hold.
    lines = content.removesuffix("\n").split("\n") if content else []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_STORED.validate_json(line))
        except ValidationError:
            raise BadInput(f"{path.name}, line {number}: not a stored score") from None
    return found


def _score(
    sheet: ReviewSheet, reviewer: str, role: str, code: str, answer: Mapping[str, Any], where: str
) -> Score | None:
    case, where = sheet.case_of(reviewer, code), f"{where}, case {code}"
    points: dict[str, Any] = {s: _points(answer.get(s), f"{where}: {s}") for s in SCALES}
    if None in points.values():
        return None
    diagnosis = str(answer.get("diagnosis") or "").strip() or None
    if diagnosis is not None and diagnosis not in (*sheet.labels, NONE_OF_THESE):
        raise BadInput(f"{where}: the diagnosis is not one the form offers")
    feedback = str(answer.get("feedback") or "").strip()
    if len(feedback) > _MOST_FEEDBACK:
        raise BadInput(f"{where}: the feedback has more than {_MOST_FEEDBACK} characters")
    text_hash = sheet.hashes[case]
    return Score(
        case, text_hash, sheet.review, reviewer, role, **points, diagnosis=diagnosis, feedback=feedback
    )


def _points(value: object, where: str) -> int | None:
    """A score, None where nothing was entered; a spreadsheet's "4.0" counts as 4."""
    if value is None or value == "":
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or number not in range(LOWEST, HIGHEST + 1):
        raise BadInput(f"{where} must be a whole number from {LOWEST} to {HIGHEST}")
    return int(number)


def _html(content: str, name: str) -> tuple[str, str, Answers]:
    blocks = data_blocks(content)
    try:
        setup, answers = json.loads(blocks["setup"]), json.loads(blocks["answers"])
        review, reviewer = str(setup["review"]), str(setup["reviewer"])
        if not isinstance(answers, dict) or not all(isinstance(a, dict) for a in answers.values()):
            raise TypeError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise BadInput(f"{name} is not a saved review form") from None
    return review, reviewer, answers


def _csv(content: str, name: str) -> tuple[str, str, Answers]:
    delimiter = max(",;", key=content.split("\n", 1)[0].count)  # many spreadsheets save with semicolons
    try:
        reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, restkey="more")
        if not set(SCALES) | {"code", "text"} <= set(reader.fieldnames or ()):
            raise BadInput(f"{name} is neither a saved review form nor its CSV twin")
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
