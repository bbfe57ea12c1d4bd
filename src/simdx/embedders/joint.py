"""Several embedders side by side. A joint cosine is the mean of the parts' cosines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from simdx.egress import is_remote
from simdx.embedders.base import Embedder, unit_blocks
from simdx.types import Float


class JointEmbedder:
    def __init__(self, parts: Sequence[Embedder]) -> None:
        self.parts = tuple(parts)
        self.remote = any(is_remote(p) for p in self.parts)
        self.id = "+".join(p.id for p in self.parts)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        # Not when it is made: a server is asked for its width, and may be asked nothing yet.
        return tuple(width for p in self.parts for width in p.blocks)

    def embed_batch(self, texts: Sequence[str]) -> Float:
        return np.concatenate([unit_blocks(p.embed_batch(texts), p.blocks) for p in self.parts], axis=1)
