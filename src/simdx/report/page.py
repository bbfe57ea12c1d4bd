"""Answers as one self-contained HTML page: no script, no request to any host, readable in print.

Pages are Jinja2 templates that escape every value. Our own drawings alone are HTML, and marked `safe` there.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from simdx.answer import NO_PROMISE, Answer
from simdx.panels import disclaimer
from simdx.report import plots
from simdx.types import Float, Panel


@dataclass(frozen=True, slots=True)
class Section:
    """One case on the page: a heading, the text that was classified, and its answer."""

    heading: str
    text: str
    answer: Answer
    simplex: Float | None = None  # draws from the simplex posterior, for the picture

    @property
    def most_bits(self) -> float:
        return math.log2(len(self.answer.posterior))

    @property
    def label_bits(self) -> float:
        return math.log2(len(self.answer.among_labels))

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """The text in pieces, each with its mark: an assertion that is not the patient's present, or none;
        "unexplained" ends a sentence that the leading label does not explain."""
        spans = sorted((span.start, span.end, span.assertion) for span in self.answer.spans)
        found = [(self.text.find(sentence), len(sentence)) for sentence in self.answer.unexplained]
        ends = {at + length for at, length in found if at >= 0 and length}
        cuts = sorted({0, len(self.text), *ends, *(place for span in spans for place in span[:2])})
        out: list[tuple[str, str]] = []
        for start, end in pairwise(cut for cut in cuts if cut <= len(self.text)):
            mark = next((what for low, high, what in spans if low <= start and end <= high), "")
            out.append((self.text[start:end], mark))
            if end in ends:
                out.append(("", "unexplained"))
        return out

    def quoted(self, part: str) -> list[tuple[str, bool]]:
        """A part of the text in pieces, each with whether it is denied."""
        denied = [self.text[s.start : s.end] for s in self.answer.spans if s.assertion == "negated"]
        cut = re.split("(" + "|".join(map(re.escape, denied)) + ")", part) if denied else [part]
        return [(piece, i % 2 == 1) for i, piece in enumerate(cut) if piece]

    @property
    def provenance(self) -> str:
        return json.dumps(self.answer.to_json()["provenance"], indent=1, ensure_ascii=False)


class Afterword(NamedTuple):
    """A table after the answers."""

    title: str
    words: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def render(
    title: str,
    sections: Sequence[Section],
    *,
    panel: Panel | None = None,
    notice: str = "",
    afterword: Afterword | None = None,
) -> str:
    """The page; `panel` says whether its disclaimer is a clinic's."""
    return fill(
        "answers.html", title=title, disclaimer=disclaimer(panel), notice=notice, sections=sections,
        afterword=afterword, no_promise=NO_PROMISE,
    )  # fmt: skip


def fill(template: str, **values: Any) -> str:
    """A template with these values in it."""
    return _templates().get_template(template).render(plots=plots, **values)


def number(value: float | None, missing: str = "undefined") -> str:
    return missing if value is None else f"{value:.3f}"


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("simdx.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found.filters["number"] = number
    return found
