"""Every method answers every text with probabilities that sum to one, whatever the text is written in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx import Classifier
from simdx.abc.prior import Prior
from simdx.amortised.network import save
from simdx.amortised.train import TrainSettings, train
from simdx.answer import Answer
from simdx.baselines.wording import UnreadableReply, read_guesses, read_letter, read_option_tokens
from simdx.embedders import chunks, embed_texts, get_embedder
from simdx.errors import BadInput
from simdx.methods import Fitted, Material
from simdx.simulators.base import Completion, TokenLogprobs
from simdx.types import case_key
from tests.amortised.conftest import toy_material
from tests.contracts.variants import VARIANTS, fit_variant
from tests.properties.strategies import SAMPLES, bounded, broken_texts, few, filled_texts, numbers, texts
from tests.service.conftest import _registry

priors = st.lists(st.sampled_from([0.0, 1e-9, 0.3, 1.0]), min_size=3, max_size=3).filter(lambda w: sum(w) > 0)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMDX_HOME", str(tmp_path_factory.mktemp("home")))
        return toy_material(embedder="wordllama")


@pytest.fixture(scope="module")
def network(material: Material, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("network")
    save(train(material, TrainSettings(prior_conditioned=True, count=1024, epochs=1, threads=1)), folder)
    return str(folder)


@pytest.fixture(scope="module")
def fitted(material: Material, network: str) -> Callable[[str], Fitted]:
    made: dict[str, Fitted] = {}

    def get(name: str) -> Fitted:
        if name not in made:
            made[name] = fit_variant(name, material, network, _reply)
        return made[name]

    return get


def _reply(request: object) -> str:
    """Now right, now hostile: chosen by the request's own content."""
    said = ("A", "B: 0.7\nA: 0.2\nC: 0.1", "", *SAMPLES)
    return said[case_key(str(request)) % len(said)]


@pytest.mark.parametrize("name", VARIANTS)
def test_samples_of_every_script(fitted: Callable[[str], Fitted], material: Material, name: str) -> None:
    seen = material.observe([text for text in SAMPLES if text.strip()])
    for weights in ([1.0, 1.0, 1.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]):
        p = fitted(name).answer(seen, Prior(np.array(weights) / sum(weights), 3.0)).posterior_in_class
        check(p, len(seen.texts), np.array(weights))


@settings(bounded, max_examples=8)
@given(st.data(), st.lists(filled_texts, min_size=1, max_size=3), priors)
def test_any_texts_under_any_prior(
    fitted: Callable[[str], Fitted],
    material: Material,
    data: st.DataObject,
    cases: list[str],
    weights: list[float],
) -> None:
    seen = material.observe(cases)
    for name in data.draw(st.lists(st.sampled_from(sorted(VARIANTS)), min_size=4, max_size=4, unique=True)):
        prior = Prior(np.array(weights) / sum(weights), 3.0)
        check(fitted(name).answer(seen, prior).posterior_in_class, len(cases), np.array(weights))


def check(p: np.ndarray, n: int, prior: np.ndarray) -> None:
    assert p.shape == (n, len(prior))
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(p[:, prior == 0], 0, atol=1e-12)


# --------------------------------------------------------------------------- the front door


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return _registry().get("oral-lesions", "auto")


def sound(answer: Answer) -> None:
    for named in (answer.posterior, answer.posterior_in_class, answer.provenance.prior):
        assert sum(named.values()) == pytest.approx(1)
        assert min(named.values()) >= 0
    assert answer.label == max(answer.posterior, key=lambda label: answer.posterior[label])
    assert 0 <= answer.out_of_class <= 1
    assert 0 <= answer.typicality <= 1
    assert answer.decision.action in ("accept", "test", "review")
    json.dumps(answer.to_json(), ensure_ascii=False, allow_nan=False).encode("utf-8")


@few
@given(filled_texts, st.booleans())
def test_a_whole_answer_for_any_text(classifier: Classifier, text: str, explain: bool) -> None:
    sound(classifier.infer(text, explain=explain))


def test_a_megabyte_in_one_line(classifier: Classifier) -> None:
    for text in ("a" * 1_000_000, "舌" * 300_000, "word " * 100_000):
        sound(classifier.infer(text, explain=False))
    with pytest.raises(BadInput, match="2 MB"):
        classifier.infer("é" * 1_000_001)


@few
@given(
    broken_texts,
    st.one_of(st.none(), st.integers(), st.binary(max_size=9), st.sampled_from(["", " \t\u2028"])),
)
def test_what_is_no_text_is_refused(classifier: Classifier, broken: str, other: object) -> None:
    for bad in (broken, other):
        with pytest.raises(BadInput):
            classifier.observe([bad])  # type: ignore[list-item]
        with pytest.raises(BadInput, match="text 2"):
            classifier.predict(["a sore tongue", bad])  # type: ignore[list-item]


@few
@given(st.dictionaries(st.one_of(st.sampled_from(["oral mucocele"]), texts), numbers, max_size=3))
def test_any_prior(classifier: Classifier, prior: dict[str, float]) -> None:
    try:
        p = classifier.predict_proba(["a sore tongue"], prior)
    except BadInput:
        return
    check(p, 1, np.array(list(classifier.prior(prior).probabilities)))


# --------------------------------------------------------------------------- embedders and replies


@bounded
@given(st.lists(texts, max_size=4), st.sampled_from(["hashing", "wordllama"]))
def test_vectors_are_unit_or_zero(cases: list[str], name: str) -> None:
    vectors = embed_texts(get_embedder(name), cases)
    assert vectors.shape[0] == len(cases)
    assert np.isfinite(vectors).all()
    length = np.linalg.norm(vectors, axis=1)
    assert (np.isclose(length, 1, atol=1e-4) | (length == 0)).all()
    for case in cases:
        assert "".join(chunks(case)).replace(" ", "") == "".join(case.split())


@bounded
@given(
    texts,
    st.lists(texts, min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(["A", " A", "B", ""]), numbers.map(float)), max_size=4),
)
def test_replies_are_read_or_unreadable(text: str, options: list[str], top: list[tuple[str, float]]) -> None:
    n = len(options)
    said = Completion(text, logprobs=(TokenLogprobs("A", 0.0, tuple(top)),))
    for read in (
        lambda: read_guesses(text, n, 3),
        lambda: read_guesses("A: 0.5\nB: 0.4\nC: 0", 3, 3),
        lambda: read_option_tokens(said, n),
    ):
        try:
            values = read()
        except UnreadableReply:
            continue
        assert min(values) >= 0
        assert sum(values) == pytest.approx(1)
    with contextlib.suppress(UnreadableReply):
        assert 0 <= read_letter(text, options) < n
