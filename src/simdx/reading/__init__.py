"""What a clinical text says of its patient: each stretch is present, negated, possible, past or another's.

`read(text).spans` gives places, assertion, section and trigger; `split(text)` gives three texts for methods:
what is asserted, what is denied, and what is past, hypothetical or another person's.
"""

from __future__ import annotations

from simdx.reading.language import is_english
from simdx.reading.text import Reading, Span, Split, read, rows, split

__all__ = ["Reading", "Span", "Split", "is_english", "read", "rows", "split"]
