"""Batches embedded once in a run: the same vectors to the last bit, and times that claim nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from simdx.embedders import embed_texts, get_embedder
from simdx.embedders.hashing import HashingEmbedder
from simdx.experiments.paper import remembered as module
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.remembered import RememberedEmbedders, RememberingEmbedder
from simdx.experiments.paper.spec import Spec
from simdx.types import Float
from tests.experiments.paper.conftest import PANEL, SMALL

TEXTS = ("a soft bluish swelling", "an ulcer that does not heal " * 60, "")


class _Counting(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[str, ...]] = []

    def embed_batch(self, texts: Sequence[str]) -> Float:
        self.batches.append(tuple(texts))
        return super().embed_batch(texts)


def test_a_batch_is_embedded_once_and_answered_alike() -> None:
    inner = _Counting()
    remembering = RememberingEmbedder(inner)
    first = embed_texts(remembering, TEXTS)
    assert remembering.spared_seconds == 0.0
    again = embed_texts(remembering, TEXTS)
    assert len(inner.batches) == 1
    assert remembering.spared_seconds > 0.0
    assert np.array_equal(first, embed_texts(HashingEmbedder(), TEXTS))
    assert np.array_equal(first, again)
    assert remembering.id == inner.id
    # a batch is known as a whole: half of it is another one
    embed_texts(remembering, TEXTS[:1])
    assert len(inner.batches) == 2


def test_what_was_handed_out_cannot_be_changed() -> None:
    remembering = RememberingEmbedder(_Counting())
    with pytest.raises(ValueError, match="read-only"):
        remembering.embed_batch(TEXTS)[0, 0] = 1.0


def test_joint_embedders_share_what_their_parts_embedded() -> None:
    name = "hashing+wordllama"
    memory = RememberedEmbedders()
    embed_texts(memory.get("hashing"), TEXTS)
    assert memory.spared_seconds == 0.0
    joint = memory.get(name)
    assert np.array_equal(embed_texts(joint, TEXTS), embed_texts(get_embedder(name), TEXTS))
    assert joint.id == get_embedder(name).id
    assert memory.spared_seconds > 0.0


def test_a_run_embeds_a_case_once_with_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two methods in two embeddings that share a part: one batch of the cases for it, and one outside."""
    counting = _Counting()
    plain = get_embedder

    def known(name: str) -> object:
        return counting if name == "hashing" else plain(name)

    joint = module.JointEmbedder([counting, plain("wordllama")])
    monkeypatch.setattr(module, "get_embedder", lambda name: joint if "+" in name else known(name))
    context = Context("smoke", tmp_path, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    for method in ("m-smc", "centroid"):
        for embedder in ("hashing", "hashing+wordllama"):
            answers = context.answers(Spec(PANEL, method, embedder=embedder))
            assert answers.embed_seconds > 0
    assert len(counting.batches) == len(set(counting.batches)) == 2
    direct = embed_texts(plain("hashing+wordllama"), context.cases(PANEL).dataset.texts)
    assert np.array_equal(context.observations(PANEL, "hashing+wordllama").vectors, direct)


def test_a_remembered_part_counts_with_the_time_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that moves with hashing alone, a joint embedder costs what its part cost, memory or not."""
    now = [0.0]

    class Slow(_Counting):
        def embed_batch(self, texts: Sequence[str]) -> Float:
            now[0] += 7.0
            return super().embed_batch(texts)

    slow, other = Slow(), get_embedder("wordllama")
    joint = module.JointEmbedder([slow, other])
    monkeypatch.setattr(module, "get_embedder", lambda name: joint if "+" in name else slow)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    context = Context("smoke", tmp_path, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    alone, together = (
        context.answers(Spec(PANEL, "centroid", embedder=name)).embed_seconds
        for name in ("hashing", "hashing+wordllama")
    )
    assert alone == together == pytest.approx(7.0 / context.n[PANEL])
