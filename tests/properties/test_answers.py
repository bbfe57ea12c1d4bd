"""The front door answers every text with probabilities that sum to one; replies are read or unreadable.

What holds of every method whatever the text is tested in tests/contracts.
"""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx import Classifier
from simdx.answer import Answer
from simdx.baselines.wording import UnreadableReply, read_guesses, read_letter, read_option_tokens
from simdx.errors import BadInput
from simdx.simulators.base import Completion, TokenLogprobs
from tests.properties.strategies import bounded, broken_texts, few, filled_texts, numbers, texts


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier("oral-lesions")


def sound(answer: Answer) -> None:
    for named in (answer.posterior, answer.among_labels, answer.provenance.prior):
        assert sum(named.values()) == pytest.approx(1)
        assert min(named.values()) >= 0
    assert answer.label == max(answer.posterior, key=lambda label: answer.posterior[label])
    assert 0 <= answer.out_of_class == answer.posterior["none of these"] <= 1
    assert 0 <= answer.typicality <= 1
    assert answer.decision.action in ("accept", "likely", "test", "review")
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
            classifier.observe([bad])
        with pytest.raises(BadInput, match="text 2"):
            classifier.predict(["a sore tongue", bad])


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
