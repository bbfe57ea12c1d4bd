"""Questions that bring their own options: the labels of the panel among which one case is to be told."""

from collections.abc import Sequence

from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from simdx.types import Case


def options_of(case: Case, field: str) -> tuple[str, ...]:
    """The options in a field of a case: a list, or one string with | between them (CSV)."""
    value = case.fields.get(field)
    parts = value.split("|") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise BadInput(f"a case's '{field}' is neither a list of labels nor labels with | between them")
    return tuple(dict.fromkeys(part.strip() for part in parts))


def check_options(dataset: Dataset, field: str, labels: Sequence[str]) -> None:
    """Refuse options that are no labels of the panel, fewer than two, or without the case's own label."""
    dataset.field(field)
    for i, case in enumerate(dataset.cases):
        options = options_of(case, field)
        where = f"case {i + 1} of {dataset.name}"
        if not set(options) <= set(labels):  # never the value: the wrong column may hold a case's own words
            raise BadInput(f"{where}: what stands in '{field}' is not all labels of the panel")
        if len(options) < 2:
            raise BadInput(f"{where}: a question needs two options or more")
        if case.label not in options:
            raise BadInput(f"{where}: its label is not among its options")
