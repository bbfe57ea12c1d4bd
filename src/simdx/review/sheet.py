"""The key of a review, kept by its organiser: which case hides behind which code of which form."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from simdx.errors import BadInput

FORMAT = 1
KEY_FILE = "review.json"
SCALES: dict[str, str] = {
    "completeness": "Are the features needed for a diagnosis there: morphology, course over time, site?",
    "correctness": "Is this constellation of findings medically plausible?",
}
LOWEST, HIGHEST, ACCEPTED = 1, 5, 4


class SentCase(BaseModel):
    """A text that was sent out, by its hash, and its gold label."""

    model_config = ConfigDict(frozen=True)

    hash: str
    label: str | None


class ReviewSheet(BaseModel):
    """What was sent out. `order[reviewer]` lists case ids as that reviewer's form numbers them."""

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

    @property
    def hashes(self) -> dict[str, str]:
        """Case id -> hash of the text that was sent out."""
        return {case: sent.hash for case, sent in self.cases.items()}

    def case_of(self, reviewer: str, code: str) -> str:
        """The case behind a code such as "017"; anything else is refused."""
        cases = self.order[reviewer]
        if not code.isdecimal() or not 1 <= int(code) <= len(cases):
            raise BadInput(f"'{code[:20]}' is not a code of {reviewer}'s form")
        return cases[int(code) - 1]


def open_review(folder: str | Path) -> ReviewSheet:
    """The key of a review made earlier."""
    path = Path(folder) / KEY_FILE
    if not path.is_file():
        raise BadInput(f"{folder} holds no review: make one with 'simdx review make'")
    try:
        found = ReviewSheet.model_validate_json(path.read_bytes())
    except ValidationError as error:
        for wrong in error.errors():
            if wrong["loc"] == ("format",) and isinstance(wrong["input"], int):
                said = f"{path} has the review format {wrong['input']}, this version reads {FORMAT}"
                raise BadInput(said) from None
        raise BadInput(f"{path} is not a readable review key") from None
    return found.model_copy(update={"folder": path.parent})
