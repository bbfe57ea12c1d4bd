"""Texts to unit vectors.

An embedder implements one batch method on short texts. Everything around it lives here once: long
texts are cut into chunks of `CHUNK_WORDS` words and the chunk vectors averaged, so that no text is
ever silently truncated, and every block of a result has unit length. Embeddings of banks are kept on disk by
their content; case texts and their embeddings are never written.
"""

import re
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from simdx.disk import CannotWrite, load_arrays, make_folder, read_safetensors, save_arrays
from simdx.egress import is_remote
from simdx.models import describe, verify
from simdx.models.registry import home
from simdx.types import Float, Int, content_hash

CHUNK_WORDS = 150
# A "word" longer than this is a run without spaces (a script without word breaks, a pasted blob).
LONGEST_WORD = 40
TEXTS_PER_BATCH = 256  # bounds the memory of a call; vectors do not depend on it
_FORMAT = "1"  # of kept embeddings: raise it when chunking or pooling changes what an embedding is


@runtime_checkable
class Embedder(Protocol):
    """`id` names the weights, not only the model: it is part of every cache key."""

    @property
    def id(self) -> str:
        """Weights and settings, as exactly as is known."""
        ...

    @property
    def blocks(self) -> tuple[int, ...]:
        """The width of each part; a plain embedder has one, a joint one several."""
        ...

    @property
    def remote(self) -> bool:
        """True where texts leave this machine (`simdx.egress`)."""
        ...

    def embed_batch(self, texts: Sequence[str]) -> Float:
        """(n, sum(blocks)) vectors of any scale for n short texts."""
        ...


def chunks(text: str) -> list[str]:
    """A text as consecutive pieces of at most CHUNK_WORDS words; at least one piece."""
    words = text.split()
    if max(map(len, words), default=0) > LONGEST_WORD:
        words = [word[i : i + LONGEST_WORD] for word in words for i in range(0, len(word), LONGEST_WORD)]
    pieces = [" ".join(words[i : i + CHUNK_WORDS]) for i in range(0, len(words), CHUNK_WORDS)]
    return pieces or [""]


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Float:
    """(n, d) float32; each embedder block of each row has unit length (or is zero for empty text)."""
    by_text = [chunks(text) for text in texts]
    pieces = list(chain.from_iterable(by_text))
    width = sum(embedder.blocks)
    if not pieces:
        return np.zeros((0, width), dtype=np.float32)
    starts = range(0, len(pieces), TEXTS_PER_BATCH)
    parts = [embedder.embed_batch(pieces[i : i + TEXTS_PER_BATCH]) for i in starts]
    vectors = np.concatenate(parts).astype(np.float32, copy=False)
    vectors = unit_blocks(vectors, embedder.blocks)
    if len(pieces) == len(texts):
        return vectors
    pooled = np.zeros((len(texts), width), dtype=np.float32)
    np.add.at(pooled, np.repeat(np.arange(len(texts)), [len(own) for own in by_text]), vectors)
    return unit_blocks(pooled, embedder.blocks)


def embed_cached(embedder: Embedder, texts: Sequence[str]) -> Float:
    """`embed_texts`, remembered under the hash of the embedder's id and every text."""
    path = home() / "embeddings" / (content_hash(_FORMAT, embedder.id, *texts) + ".safetensors")
    kept = (load_arrays(path) or {}).get("vectors")
    # One that is absent, damaged or of another shape is made again.
    if kept is not None and kept.shape == (len(texts), sum(embedder.blocks)) and np.isfinite(kept).all():
        return kept
    vectors = embed_texts(embedder, texts)
    with suppress(CannotWrite):  # a folder that cannot be written costs time, not the answer
        make_folder(path.parent)
        save_arrays(path, {"vectors": vectors})
    return vectors


def unit_blocks(vectors: Float, blocks: Sequence[int]) -> Float:
    """Scale every block of every row to unit length; a zero block stays zero."""
    out, start = np.array(vectors, dtype=np.float32), 0
    for width in blocks:
        block = out[:, start : start + width]  # a view of it
        norms = np.linalg.norm(block, axis=1, keepdims=True)
        block /= np.where(norms > 1e-12, norms, 1.0)
        start += width
    return out


def embed_halved(
    texts: Sequence[str], width: int, fits: Callable[[str], bool], encode: Callable[[list[str]], Float]
) -> Float:
    """Sums of unit vectors of a text's pieces, for encoders that silently truncate long texts."""
    pieces = [_halved(text, fits) for text in texts]
    if all(len(of_text) == 1 for of_text in pieces):
        return encode(list(texts))
    owner = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in pieces])
    out = np.zeros((len(texts), width), dtype=np.float32)
    np.add.at(out, owner, encode([piece for of_text in pieces for piece in of_text]))
    return out


def _halved(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text cut in halves, between words where it has some, until each piece fits."""
    if fits(text):
        return [text]
    words, middle = text.split(), len(text) // 2
    halves = (text[:middle], text[middle:])
    if half := len(words) // 2:
        halves = (" ".join(words[:half]), " ".join(words[half:]))
    return [piece for part in halves for piece in _halved(part, fits)]


class JointEmbedder:
    """Several embedders side by side. A joint cosine is the mean of the parts' cosines."""

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


# --------------------------------------------------------------------------- wordllama
#
# The default: wordllama's static token vectors. Small, fast, numpy only, no download. A text's vector is the
# mean of its tokens' vectors, and this tokenizer never joins characters across a space (no entry of its
# vocabulary has a word mark inside), so the tokens of a text are those of its words one after another. Each
# word is therefore tokenised once and its sum of vectors kept: most words of a case have been seen in the
# bank, and a text costs one gather instead of a run of the tokenizer. The library's two files are read
# without it, because importing it takes longer than an answer; a test holds the vectors against its own.

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
KEPT_WORDS = 16_384  # 17 MB of sums; a fuller memory starts anew
FEW = 16  # texts that are added up one by one; more go through scipy, which is slow to import


class WordLlamaEmbedder:
    """`l2_supercat`, 256 dimensions, from the files inside the installed package."""

    remote = False
    id = "wordllama/l2_supercat_256"
    blocks = (256,)

    def __init__(self) -> None:
        folder = verify(describe("wordllama"))
        from tokenizers import Tokenizer

        self._vectors = read_safetensors(folder / WEIGHTS)["embedding.weight"]  # half precision, mapped
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # Markers such as </s> are cut out of a text before its words are: such a text is tokenised whole.
        self._markers = tuple(t.content for t in self._tokenizer.get_added_tokens_decoder().values())
        self._lock = threading.Lock()
        self._forget()

    def embed_batch(self, texts: Sequence[str]) -> Float:
        marked = [i for i, text in enumerate(texts) if any(marker in text for marker in self._markers)]
        words = [text.split() for text in texts]
        for i in marked:
            words[i] = []
        ends = np.cumsum([0, *map(len, words)])
        with self._lock:
            rows = self._rows(list(chain.from_iterable(words)))
            out = self._added(rows, ends)
            counts = np.add.reduceat(np.append(self._counts[rows], 0), ends[:-1]) * (np.diff(ends) > 0)
        for i in marked:
            whole = self._tokenizer.encode(texts[i], add_special_tokens=False)
            out[i], counts[i] = self._of_tokens(whole.ids)
        return out / np.maximum(counts, 1)[:, None]

    def _added(self, rows: Int, ends: Int) -> Float:
        """(texts, d) sums of the words' sums."""
        if len(ends) <= FEW:
            out = np.zeros((len(ends) - 1, self.blocks[0]), dtype=np.float32)
            for i, sums in enumerate(out):
                sums += self._sums[rows[ends[i] : ends[i + 1]]].sum(axis=0)
            return out
        from scipy.sparse import csr_matrix

        shape = (len(ends) - 1, len(self._sums))
        return csr_matrix((np.ones(len(rows), dtype=np.float32), rows, ends), shape=shape) @ self._sums

    def _rows(self, words: list[str]) -> Int:
        """Where the words' sums lie; new words are tokenised and added."""
        place = self._place
        try:
            return np.array([place[word] for word in words], dtype=np.int64)
        except KeyError:
            new = list(dict.fromkeys(word for word in words if word not in place))
        if len(place) + len(new) > len(self._counts):
            self._forget(len(set(words)))
            new = list(dict.fromkeys(words))
        encodings = self._tokenizer.encode_batch(new, add_special_tokens=False)
        for word, encoding in zip(new, encodings, strict=True):
            row = self._place[word] = len(self._place)
            self._sums[row], self._counts[row] = self._of_tokens(encoding.ids)
        return np.array([self._place[word] for word in words], dtype=np.int64)

    def _of_tokens(self, ids: list[int]) -> tuple[Float, int]:
        """The sum of their vectors, and how many they are."""
        known = np.clip(np.array(ids, dtype=np.int64), 0, len(self._vectors) - 1)
        return self._vectors[known].astype(np.float32).sum(axis=0), len(ids)

    def _forget(self, at_least: int = 0) -> None:
        size = max(KEPT_WORDS, at_least)
        self._place: dict[str, int] = {}
        self._sums = np.zeros((size, self.blocks[0]), dtype=np.float32)
        self._counts = np.zeros(size, dtype=np.float32)


# --------------------------------------------------------------------------- without weights


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
