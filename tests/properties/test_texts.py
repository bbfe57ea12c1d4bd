"""Any text, name, page, reply or pattern: answered, read or refused, and no link leads away."""

import base64
import contextlib
import json
from collections.abc import Callable
from html import escape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx import Classifier
from simdx.answer import Answer
from simdx.bank.plan import choose, facets_of, outside
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.baselines.asking import UnreadableReply, read_guesses, read_letter, read_option_tokens
from simdx.datasets import open_data
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.models import REGISTRY, describe
from simdx.models.fetch import locate
from simdx.panels import load_panel
from simdx.panels.schema import matching, pattern_problem
from simdx.rows import data_blocks, words_of
from simdx.service.chart import below, read_chart
from simdx.simulators import get_simulator, identity_of, open_endpoints
from simdx.simulators.base import Completion, TokenLogprobs
from simdx.types import Label, Panel, ReviewRule
from tests.properties.strategies import (
    accepted,
    bounded,
    broken_texts,
    few,
    filled_texts,
    numbers,
    texts,
    trees,
)

# --------------------------------------------------------------------------- cases


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
@given(broken_texts, st.one_of(st.none(), st.integers(), st.sampled_from(["", " \t\u2028", b"x"])))
def test_what_is_no_text_is_refused(classifier: Classifier, broken: str, other: object) -> None:
    for bad in (broken, other):
        with pytest.raises(BadInput, match="text 2"):
            classifier.predict(["a sore tongue", bad])


# --------------------------------------------------------------------------- names

PREFIXES = (
    "", "openai:", "openai:m@", "openai:m@http://", "scripted:", "hashing+", "./", "~/", "/", "sentence:",
)  # fmt: skip
names = st.one_of(
    st.tuples(st.sampled_from(PREFIXES), st.one_of(texts, broken_texts)).map("".join),
    st.sampled_from(["a" * 5000, "nul\\0name", "..", "", " ", "x.gguf", "scripted:reject=2", "openai:@:x"]),
)
ASK: dict[str, Callable[[str], Any]] = {
    "a simulator": get_simulator,
    "its identity": identity_of,
    "an embedder": get_embedder,
    "a panel": load_panel,
    "a data set": open_data,
    "servers": lambda name: open_endpoints([name, name]),
    "weights": lambda name: locate(name, download=False),
}


@pytest.mark.parametrize("what", ASK)
@bounded
@given(name=names)
def test_any_name(private_home: object, what: str, name: str) -> None:
    assert (accepted(lambda: describe(name)) is not None) == (name in REGISTRY)
    if name.startswith("hf:") or name in REGISTRY or name in ("oral-lesions", "symptom-to-diagnosis"):
        return  # these load or fetch something large
    if what == "an embedder" and "/" in name and not name.startswith("openai:"):
        return  # OWNER/NAME, which is asked of the hub
    found = accepted(lambda: ASK[what](name))
    if hasattr(found, "close"):
        found.close()


# --------------------------------------------------------------------------- what models and servers say


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
        with contextlib.suppress(UnreadableReply):
            values = read()
            assert min(values) >= 0
            assert sum(values) == pytest.approx(1)
    with contextlib.suppress(UnreadableReply):
        assert 0 <= read_letter(text, options) < n


@bounded
@given(texts, texts, st.sampled_from(["stop", "length", "odd"]))
def test_scrubbing_any_reply(text: str, name: str, ending: str) -> None:
    tidied = tidy(text, ending)
    assert len(tidied) <= len(text) * 4
    found = Scrubber([name], "patient").reason(tidied)
    assert found is None or isinstance(found, str)
    memory = Duplicates()
    assert [memory.seen(tidied) for _ in range(2)] == [False, True]
    outside(Panel("toy", (Label(name or "x"), Label("b"))))


@bounded
@given(
    st.dictionaries(filled_texts, st.lists(filled_texts, max_size=4).map(tuple), max_size=4),
    texts,
    st.integers(0, 10**6),
)
def test_every_value_of_a_facet_comes_up_once_a_cycle(
    facets: dict[str, tuple[str, ...]], stratum: str, start: int
) -> None:
    everything = facets_of(Panel("toy", (Label("a"), Label("b")), facets=facets))
    for name, values in everything.items():
        first = start * len(values)
        drawn = [choose({name: values}, stratum, first + i)[name] for i in range(len(values))]
        assert sorted(drawn) == sorted(values)


@bounded
@given(st.text(st.sampled_from(r"abz01 .*+?{},()[]|\^$-dwsbBZ"), max_size=40), texts, texts)
def test_a_pattern_is_safe_or_refused(pattern: str, phrase: str, text: str) -> None:
    if pattern_problem(pattern) is None:
        matching([ReviewRule("r", pattern=pattern)], text)
    if phrase.strip():
        matching([ReviewRule("r", phrases=(phrase,))], text)


# --------------------------------------------------------------------------- pages and notes

MARKS = ["<p ", "<", ">", "<!--", "-->", "<![", "]>", "</", "<?", "<script", "</script>", '="', "='", "&#"]
pages = st.lists(st.one_of(st.sampled_from(MARKS), texts), max_size=12).map("".join)


@bounded
@given(pages, texts)
def test_any_page(page: str, text: str) -> None:
    words_of(page).encode("utf-8")
    assert all(isinstance(block, str) for block in data_blocks(page).values())
    # A page cannot write the others: a reference to a control character stands for another one, or for none.
    text = "".join(c for c in text if c == "\n" or c.isprintable())
    assert words_of(f"<p>{escape(text)}</p>").split() == text.split()


@bounded
@given(pages, st.sampled_from(["text/html", "application/xhtml+xml; charset=utf-16", "text/plain"]), trees)
def test_any_note_of_a_record_system(page: str, kind: str, tree: object) -> None:
    data = base64.b64encode(page.encode("utf-16" if "16" in kind else "utf-8")).decode()
    content = [{"attachment": {"contentType": kind, "data": data}}]
    note = {"resourceType": "DocumentReference", "status": "current", "content": content}
    note["subject"] = {"reference": "Patient/1"}
    chart = read_chart({"note": note}, "1")
    assert all(source.text.strip() for source in chart.sources)
    assert len(chart.sources) + len(chart.unread) == 1
    for named in ("DocumentReference", "QuestionnaireResponse", "Condition", tree):
        held = {"resourceType": named, "content": tree, "item": tree, "note": tree, "date": tree, "id": tree}
        for status in ("current", "completed"):
            read_chart({"x": {**held, "status": status, "subject": note["subject"]}}, "1")
        for name in ("status", "docStatus", "subject", "clinicalStatus", "verificationStatus"):
            read_chart({"x": {**held, "status": "current", "subject": note["subject"], name: tree}}, "1")


LINKS = ("..", "/", "%2e", "\\", "Binary", "@", "https:", "#", "?", ";", "a")


@bounded
@given(st.one_of(texts, st.lists(st.sampled_from(LINKS)).map("".join)))
def test_no_link_leads_away_from_its_server(url: str) -> None:
    target = below("https://fhir.example/r4", url)
    assert target is None or target.startswith("https://fhir.example/r4/")
