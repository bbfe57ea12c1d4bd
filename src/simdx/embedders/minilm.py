"""MiniLM by its hash-checked weights in numpy: importing torch takes longer than a hundred answers.

The six layers of BERT with mean pooling, as sentence-transformers runs them; a test holds the vectors against
its own. On a processor numpy is as fast, in batches too; a graphics card is left to torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from simdx.disk import read_safetensors
from simdx.embedders.base import embed_halved
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.types import Float, Int

if TYPE_CHECKING:
    from simdx.embedders.sentence import SentenceEmbedder

LAYERS, HEADS, WIDTH, WINDOW = 6, 12, 384, 256
TEXTS_AT_ONCE = 16  # of one length: the products are full, and their results small
MANY = 64  # texts worth the start of torch, where there is a graphics card


class MiniLMEmbedder:
    """all-MiniLM-L6-v2; pieces longer than its window are halved until they fit."""

    remote = False
    blocks = (WIDTH,)
    id = f"minilm/{REGISTRY['minilm'].files['model.safetensors'][:12]}"

    def __init__(self) -> None:
        folder = locate("minilm")
        from tokenizers import Tokenizer

        self._weights = read_safetensors(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed_batch(self, texts: Sequence[str]) -> Float:
        if len(texts) > MANY and self._on_gpu is not None:
            return self._on_gpu.embed_batch(texts)
        return embed_halved(texts, WIDTH, self._fits, self._encode)

    @cached_property
    def _on_gpu(self) -> SentenceEmbedder | None:
        from simdx.embedders.sentence import on_gpu

        return on_gpu("minilm")

    def _fits(self, text: str) -> bool:
        return len(self._tokenizer.encode(text)) <= WINDOW

    def _encode(self, texts: Sequence[str]) -> Float:
        """Unit vectors; texts of one length go together, so that nothing is padded."""
        tokens = [found.ids for found in self._tokenizer.encode_batch(list(texts))]
        out = np.empty((len(texts), WIDTH), dtype=np.float32)
        lengths = np.array([len(ids) for ids in tokens])
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            for rows in np.split(alike, range(TEXTS_AT_ONCE, len(alike), TEXTS_AT_ONCE)):
                out[rows] = self._forward(np.array([tokens[i] for i in rows]))
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def _forward(self, ids: Int) -> Float:
        """(texts, WIDTH) means over the last layer, for texts of as many tokens each."""
        n, t = ids.shape
        w = self._weights
        x: Float = (
            w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:t]
        )
        x = (x + w["embeddings.token_type_embeddings.weight"][0]).reshape(n * t, WIDTH)
        x = self._normed(x, "embeddings")
        for layer in range(LAYERS):
            here = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(x, f"{here}.attention.self.{part}").reshape(n, t, HEADS, -1).swapaxes(1, 2)
                for part in ("query", "key", "value")
            )
            heard = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(WIDTH // HEADS))
            heard = np.exp(heard - heard.max(axis=-1, keepdims=True))
            heard /= heard.sum(axis=-1, keepdims=True)
            mixed = (heard @ value).swapaxes(1, 2).reshape(n * t, WIDTH)
            x = self._normed(
                x + self._linear(mixed, f"{here}.attention.output.dense"), f"{here}.attention.output"
            )
            inner = _gelu(self._linear(x, f"{here}.intermediate.dense"))
            x = self._normed(x + self._linear(inner, f"{here}.output.dense"), f"{here}.output")
        return x.reshape(n, t, WIDTH).mean(axis=1)

    def _linear(self, x: Float, name: str) -> Float:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normed(self, x: Float, name: str) -> Float:
        """Layer normalisation."""
        x = x - x.mean(axis=1, keepdims=True)
        scale = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-12))
        weight = self._weights[f"{name}.LayerNorm.weight"]
        return x / scale * weight + self._weights[f"{name}.LayerNorm.bias"]


def _gelu(x: Float) -> Float:
    """x times the normal distribution function at x, to 1.5e-7: Abramowitz and Stegun 7.1.26."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911 / np.sqrt(2)) * size)
    rest = np.float32(1.061405429) * t
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        rest += np.float32(term)
        rest *= t
    rest *= np.exp(np.float32(-0.5) * size * size)  # erfc(|x| / √2)
    return np.maximum(x, 0) - np.float32(0.5) * size * rest
