"""What a clinical text says of its patient: each stretch is present, negated, possible, past or another's.

`read(text).spans` gives places, assertion, section and trigger; `split(text)` gives three texts for methods:
what is asserted, what is denied, and what is past, hypothetical or another person's.
"""

from __future__ import annotations

from simdx.reading.language import is_english
from simdx.reading.text import (
    CUT,
    DENIED,
    FOUND,
    HEAVY,
    LIGHT,
    PLAIN,
    WAYS,
    Reading,
    Span,
    Split,
    as_read,
    is_checklist,
    masked,
    not_counted,
    read,
    split,
    split_sentences,
    stems,
)

__all__ = [
    "CUT",
    "DENIED",
    "FOUND",
    "HEAVY",
    "LIGHT",
    "PLAIN",
    "WAYS",
    "Reading",
    "Span",
    "Split",
    "as_read",
    "is_checklist",
    "is_english",
    "masked",
    "not_counted",
    "read",
    "split",
    "split_sentences",
    "stems",
]
