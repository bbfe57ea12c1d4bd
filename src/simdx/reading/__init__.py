"""What a clinical text says of its patient: each stretch is present, negated, possible, past or another's.

`read(text).spans` gives places, assertion, section and trigger; `as_read(text, way)` gives what a method
takes as said and as denied.
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
