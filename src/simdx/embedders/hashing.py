"""A deterministic embedder without weights: signed hashes of words and word pairs.

For tests and dry runs. It has no idea of meaning beyond shared words, and needs no model at all.
"""

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from simdx.types import Float


class HashingEmbedder:
    remote = False
    blocks = (256,)
    id = "hashing/256"

    def embed_batch(self, texts: Sequence[str]) -> Float:
        out = np.zeros((len(texts), self.blocks[0]), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            words = re.findall(r"\w+", text.lower())
            for token in words + [f"{a} {b}" for a, b in pairwise(words)]:
                h = zlib.crc32(token.encode("utf-8", "surrogatepass"))
                row[h % len(row)] += 1.0 if h & 0x8000_0000 else -1.0
            if not words:  # punctuation or symbols only: still a defined direction
                row[0] = 1.0
        return out
