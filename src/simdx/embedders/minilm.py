"""MiniLM by its hash-checked weights in numpy: importing torch takes longer than a hundred answers.

The six layers of BERT with mean pooling, as sentence-transformers runs them; a test holds the vectors against
its own. On a processor numpy is as fast, in batches too; a graphics card is left to torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from simdx.disk import read_safetensors
from simdx.embedders.base import embed_halved
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.types import Float

if TYPE_CHECKING:
    from simdx.embedders.sentence import SentenceEmbedder

LAYERS, HEADS, WIDTH, WINDOW = 6, 12, 384, 256
TEXTS_AT_ONCE = 16  # the products are full, and their results small
FEW_ROWS, BLOCK = 64, 64  # tokens of a short text; columns of a weight's block
ROWS_AT_ONCE = 32  # of a layer's widest result: they stay in the processor's cache
MANY = 64  # texts worth the start of torch, where there is a graphics card


class MiniLMEmbedder:
    """all-MiniLM-L6-v2; pieces longer than its window are halved until they fit."""

    remote = False
    blocks = (WIDTH,)
    id = f"minilm/{REGISTRY['minilm'].files['model.safetensors'][:12]}"

    def __init__(self) -> None:
        folder = locate("minilm")
        from tokenizers import Tokenizer

        self._weights = dict(read_safetensors(folder / "model.safetensors"))
        self._blocks: dict[str, Float] = {}
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
        """Unit vectors."""
        tokens = [found.ids for found in self._tokenizer.encode_batch(list(texts))]
        out = np.empty((len(texts), WIDTH), dtype=np.float32)
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        for start in range(0, len(order), TEXTS_AT_ONCE):
            rows = order[start : start + TEXTS_AT_ONCE]
            out[rows] = self._forward([tokens[i] for i in rows])
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def _forward(self, tokens: list[list[int]]) -> Float:
        """(texts, WIDTH) means over the last layer. Texts are concatenated, not padded."""
        w, ends = self._weights, np.cumsum([0, *map(len, tokens)])
        texts = [slice(start, end) for start, end in pairwise(ends)]
        place = np.concatenate([np.arange(len(ids)) for ids in tokens])
        word = np.fromiter(chain.from_iterable(tokens), np.int64, ends[-1])
        x: Float = w["embeddings.word_embeddings.weight"][word]
        x = x + w["embeddings.position_embeddings.weight"][place]
        x = self._normed(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(LAYERS):
            here = f"encoder.layer.{layer}"
            sides = self._linear(x, f"{here}.attention.self").reshape(-1, 3, HEADS, WIDTH // HEADS)
            query, key, value = sides.transpose(1, 2, 0, 3)
            mixed = np.concatenate([_attended(query[:, t], key[:, t], value[:, t]) for t in texts])
            x = x + self._linear(mixed, f"{here}.attention.output.dense")
            x = self._normed(x, f"{here}.attention.output")
            inner = _gelu(self._linear(x, f"{here}.intermediate.dense"))
            x = self._normed(x + self._linear(inner, f"{here}.output.dense"), f"{here}.output")
        return np.stack([x[t].mean(axis=0) for t in texts])

    def _linear(self, x: Float, name: str) -> Float:
        weight, bias = self._joined(name)
        if len(x) > FEW_ROWS:
            return x @ weight.T + bias
        # For few rows a product spends its time on packing the weights; in narrow blocks they are not packed.
        if name not in self._blocks:
            self._blocks[name] = np.ascontiguousarray(weight.reshape(-1, BLOCK, len(weight.T)).swapaxes(1, 2))
        return (x @ self._blocks[name]).swapaxes(0, 1).reshape(len(x), -1) + bias

    def _joined(self, name: str) -> tuple[Float, Float]:
        """Weight and bias of a layer; query, key and value of an attention are one product."""
        held = self._weights
        if f"{name}.weight" not in held:
            for part in ("weight", "bias"):
                sides = [held.pop(f"{name}.{side}.{part}") for side in ("query", "key", "value")]
                held[f"{name}.{part}"] = np.concatenate(sides)
        return held[f"{name}.weight"], held[f"{name}.bias"]

    def _normed(self, x: Float, name: str) -> Float:
        x = x - x.mean(axis=1, keepdims=True)
        scale = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-12))
        weight = self._weights[f"{name}.LayerNorm.weight"]
        return x / scale * weight + self._weights[f"{name}.LayerNorm.bias"]


def _attended(query: Float, key: Float, value: Float) -> Float:
    """(tokens, WIDTH) self-attention within one text, from (HEADS, tokens, .) of each."""
    heard = query @ key.swapaxes(1, 2)
    heard *= np.float32(1 / np.sqrt(WIDTH // HEADS))
    heard -= heard.max(axis=-1, keepdims=True)
    np.exp(heard, out=heard)
    heard /= heard.sum(axis=-1, keepdims=True)
    return (heard @ value).swapaxes(0, 1).reshape(-1, WIDTH)


def _gelu(x: Float) -> Float:
    """x times the normal distribution function at x, to 1.5e-7: Abramowitz and Stegun 7.1.26."""
    for start in range(0, len(x), ROWS_AT_ONCE):
        part = x[start : start + ROWS_AT_ONCE]
        size = np.abs(part)
        t = 1 / (1 + np.float32(0.3275911 / np.sqrt(2)) * size)
        rest = np.float32(1.061405429) * t
        for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            rest += np.float32(term)
            rest *= t
        rest *= np.exp(np.float32(-0.5) * size * size)  # erfc(|x| / √2)
        rest *= size
        rest *= np.float32(0.5)
        np.maximum(part, 0, out=part)
        part -= rest
    return x
