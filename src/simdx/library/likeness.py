"""How like a text is to each of several groups of texts: a log-likelihood for each, without a fit.

    score_g = DIRECTION · cos(text, mean of g)                  the direction that g's texts have in common
            + Σ_w log((share of g's texts with word w + RARE) / RARE)     over the words that the text asserts

A group is a condition of the library, or a label of a panel by its simulated texts. A word that no text of a
group has counts 0. Both constants were set on held-out texts of the library and on the probes of even number
in tests/data/outside_probes.jsonl (docs/recipe.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from simdx.embedders import embed_texts, get_embedder
from simdx.library.conditions import conditions, number_of, texts
from simdx.reading import CUT, as_read, stems
from simdx.types import Float, Int

EMBEDDER = "wordllama"
DIRECTION = 20.0
RARE = 0.03
FEW = 8  # texts whose sums take less time than the import of sparse matrices
_FILE = Path(str(files("simdx.library"))) / "data" / "likeness.npz"


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    means: Float  # (groups, 256) unit directions
    place: Mapping[str, int]  # word -> its row of the two arrays below
    ends: Int  # (words + 1,)
    group: Int  # groups that have the word, word by word
    value: Float  # and what it adds to their scores

    @classmethod
    def of(cls, directions: Float, said: Sequence[set[str]], groups: Int, n_groups: int) -> Likeness:
        """Of texts: their `directions`, their words, and the group of each."""
        sums = np.zeros((n_groups, directions.shape[1]))
        np.add.at(sums, groups, directions)
        counts: dict[str, dict[int, int]] = {}
        for words, g in zip(said, groups.tolist(), strict=True):
            for word in words:
                of_word = counts.setdefault(word, {})
                of_word[g] = of_word.get(g, 0) + 1
        size = np.bincount(groups, minlength=n_groups)
        every = sorted(counts)
        group = np.array([g for word in every for g in counts[word]], dtype=np.int64)
        count = np.array([n for word in every for n in counts[word].values()], dtype=float)
        ends = np.cumsum([0, *(len(counts[word]) for word in every)])
        value = np.log((count / size[group] + RARE) / RARE)
        return cls(unit(sums), {word: i for i, word in enumerate(every)}, ends, group, value)

    def arrays(self) -> dict[str, Any]:
        """All of it, to be kept."""
        vocabulary = np.frombuffer("\n".join(self.place).encode("utf-8"), dtype=np.uint8)
        return {
            "means": self.means.astype(np.float32),
            "vocabulary": vocabulary,
            "ends": self.ends.astype(np.int32),
            "group": self.group.astype(np.uint16),
            "value": self.value.astype(np.float32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Likeness:
        vocabulary = arrays["vocabulary"].tobytes().decode("utf-8").split("\n")
        ends, group = arrays["ends"].astype(np.int64), arrays["group"].astype(np.int64)
        place = {word: i for i, word in enumerate(vocabulary)}
        return cls(arrays["means"].astype(float), place, ends, group, arrays["value"].astype(float))

    def scores(self, directions: Float, said: Sequence[set[str]], weight: float = DIRECTION) -> Float:
        """(N, groups) of texts by their directions, which count `weight`, and their words."""
        known = [[self.place[word] for word in words if word in self.place] for words in said]
        added = self._added_one_by_one(known) if len(said) <= FEW else self._added_at_once(known)
        return added + (weight * directions) @ self.means.T

    def _added_one_by_one(self, known: Sequence[Sequence[int]]) -> Float:
        added = np.zeros((len(known), len(self.means)))
        for row, words in zip(added, known, strict=True):
            if words:
                every = np.concatenate([np.arange(*self.ends[word : word + 2]) for word in words])
                row += np.bincount(self.group[every], self.value[every], len(row))
        return added

    def _added_at_once(self, known: Sequence[Sequence[int]]) -> Float:
        from scipy.sparse import csr_array  # slow to import

        ends = np.cumsum([0, *map(len, known)])
        words, place = np.unique(
            np.fromiter(chain.from_iterable(known), np.int64, ends[-1]), return_inverse=True
        )
        every = csr_array((self.value, self.group, self.ends), shape=(len(self.place), len(self.means)))
        # Of the words that occur, as dense rows: most groups have some word of a text.
        adds = every[words].toarray()
        once = csr_array((np.ones(len(place)), place, ends), shape=(len(known), len(words)))
        return np.asarray(once @ adds)


def unit(vectors: Float) -> Float:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def directions(vectors: Float) -> Float:
    """Raw wordllama vectors without the direction that all descriptions of illness share."""
    return unit(unit(vectors) - library_likeness()[1])


def embedded(given: Sequence[str]) -> Float:
    """(n, 256) raw vectors of texts as they are read here; nothing is kept of them."""
    return embed_texts(get_embedder(EMBEDDER), [as_read(text, CUT)[0] for text in given])


def words(given: Sequence[str]) -> list[set[str]]:
    """The words that each text asserts."""
    return [stems(as_read(text, CUT)[0]) for text in given]


@cache
def library_likeness() -> tuple[Likeness, Float]:
    """Of the library's conditions and topics, in their order; and the common direction."""
    with np.load(_FILE, allow_pickle=False) as held:
        return Likeness.from_arrays(held), held["middle"].astype(float)


def build() -> None:
    """Make the packaged file from the library's texts: `python -m simdx.library.likeness`."""
    medical = np.array([c.medical for c in conditions()])
    group = np.array([number_of(text.condition) for text in texts()])
    vectors = unit(embedded([text.text for text in texts()]))
    middle = vectors[medical[group]].mean(axis=0)
    made = Likeness.of(unit(vectors - middle), words([text.text for text in texts()]), group, len(medical))
    np.savez_compressed(_FILE, middle=middle.astype(np.float32), **made.arrays())


if __name__ == "__main__":
    build()
