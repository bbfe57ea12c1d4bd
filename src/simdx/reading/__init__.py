"""How findings of a clinical text are asserted: present, negated, possible, hypothetical, past, or of family.

`read(text).spans` gives positions, assertion, section and trigger; `as_read(text, way)` gives the text that a
method uses as stated and as denied.
"""

from __future__ import annotations

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
    as_read,
    is_checklist,
    is_english,
    masked,
    not_present,
    read,
    says_something,
    sentence_at,
    split_sentences,
    stated_now,
    states_own,
    stems,
    words,
)
