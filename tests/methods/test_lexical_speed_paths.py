"""The fast paths of the lexical space give the numbers of the plain formula."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.bank.files import packaged_bank
from simdx.methods.lexical import LexicalSpace, Lexicon
from simdx.panels import load_source


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return list(packaged_bank(load_source("oral-lesions")).texts)


@pytest.fixture(scope="module")
def space(texts: list[str]) -> LexicalSpace:
    return LexicalSpace(Lexicon(texts[:200]), texts[:200])


def _left_out(text: str) -> list[str]:
    parts = text.split(". ")
    return [". ".join(p for j, p in enumerate(parts) if j != i) for i in range(len(parts))]


def test_folded_and_plain_transforms_agree(space: LexicalSpace, texts: list[str]) -> None:
    asked = [*texts[200:230], "", "123 ?!", "zzz qqq", *_left_out(texts[250]), *_left_out(texts[251])]
    assert space._folded is not None
    plain = space._cosine(space._lexicon.rows(asked), np.zeros(len(asked), dtype=int)) @ space._project
    assert np.abs(space.transform(asked) - plain).max() < 2e-6


def test_rows_do_not_depend_on_the_batch_they_are_in(space: LexicalSpace, texts: list[str]) -> None:
    asked = [*_left_out(texts[250]), texts[250]]
    together = space.transform(asked)
    for text, row in zip(asked, together, strict=True):
        assert np.abs(space.transform([text])[0] - row).max() < 2e-6
