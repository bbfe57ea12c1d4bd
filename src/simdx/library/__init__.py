"""A library of conditions and everyday topics, each with simulated texts: banks without a model, and the rest
of medicine as a background."""

from simdx.library.conditions import (
    REGISTERS,
    Condition,
    LibraryText,
    condition,
    conditions,
    digest,
    number_of,
    texts,
    version,
)
from simdx.library.likeness import EMBEDDER, Likeness, directions, embedded, library_likeness, words
from simdx.library.red_flags import RedFlag, found_in, red_flags, red_flags_version
from simdx.library.search import (
    Match,
    conditions_of,
    find,
    meant_by,
    named_twice,
    nearest,
    refuse_twice,
    related_to,
    suggestions,
    texts_for,
)
