"""A library of conditions and everyday topics, each with simulated texts: banks without a model, and the rest
of medicine as a background."""

from simdx.library.conditions import (
    REGISTERS,
    Condition,
    LibraryText,
    condition,
    conditions,
    digest,
    texts,
    vectors,
    version,
)
from simdx.library.search import Match, embedded, find, meant_by, related_to, suggestions
