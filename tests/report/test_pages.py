"""Pages: whatever a text, a label, a name or a file says, it is shown and never becomes markup."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from simdx.answer import NearCondition, OutsideAnswer, RedFlagAnswer, SentenceEffect, TextSpan
from simdx.classifier import Classifier
from simdx.errors import MissingExtra
from simdx.metrics.gaps import SMALL
from simdx.report.page import (
    Afterword,
    Section,
    bank_map,
    entropy_plot,
    fill,
    reliability_plot,
    render,
    risk_plot,
    ternary,
    ternary_plot,
)
from simdx.report.terminal import print_answer
from simdx.review import form_page
from simdx.types import Bank
from tests.service.conftest import tickets

HOSTILE = "</title></script><img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"
GAP = {"field": HOSTILE, "value": HOSTILE, "metric": HOSTILE, "n": 3, "too_small": True}
GAP |= dict.fromkeys(("inside", "outside", "gap", "low", "high", "p_corrected"))
PAGES: dict[str, Callable[[], str]] = {
    "answers": lambda: render(HOSTILE, [], notice=HOSTILE),
    "table": lambda: render(HOSTILE, [], afterword=Afterword(HOSTILE, HOSTILE, [HOSTILE], [[HOSTILE]])),
    "gaps": lambda: fill("gaps.html", gaps=[GAP], small=SMALL),
    "form": lambda: form_page(
        HOSTILE, HOSTILE, [{"code": "1", "text": HOSTILE, "label": HOSTILE}], [HOSTILE]
    ),
}


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("name", PAGES)
def test_nothing_shown_becomes_markup(name: str) -> None:
    page = Tags(PAGES[name]())
    assert page.found
    assert "img" not in page.found
    assert "{{ 7 * 7 }}" in page.words


def test_a_word_is_struck_through_only_where_it_is_denied(tmp_path: Path) -> None:
    text = "The invoice is wrong. I have pain in the wallet but no pain here."
    at = text.rindex("pain")
    span = TextSpan(start=at, end=at + 4, assertion="negated")
    answer = Classifier(*tickets(tmp_path)).infer(text).model_copy(update={"spans": (span,)})
    part = "I have pain in the wallet but no pain here."
    assert answer.quoted(text, part) == [(part[:33], False), ("pain", True), (" here.", False)]
    assert answer.quoted(text, "not in it") == [("not in it", False)]


def test_marks_of_a_text_and_the_nearest_condition(tmp_path: Path) -> None:
    text = "The parcel is late. No refund <b>yet</b>. My brother paid twice 😀. The van burned."
    spans = [
        TextSpan(start=text.index(part), end=text.index(part) + len(part), assertion=how)
        for part, how in (("No refund <b>yet</b>", "negated"), ("My brother paid twice 😀", "family"))
    ]
    near = NearCondition(condition="fire & smoke", probability=0.9, emergency=True)
    answer = Classifier(*tickets(tmp_path)).infer(text)
    changes = {"spans": tuple(spans), "unexplained": ("The van burned.", "not in the text"),
               "outside": OutsideAnswer(nearest=(near,)), "out_of_class": 0.98,
               "posterior": {"delivery": 0.01, "billing": 0.01, "none of these": 0.98}}  # fmt: skip
    section = Section("one", text, answer.model_copy(update=changes))
    assert "".join(piece for piece, mark in section.pieces if mark != "unexplained") == text
    page = render("tickets", [section])
    assert "<s title='denied'>No refund &lt;b&gt;yet&lt;/b&gt;</s>." in page
    assert "<span class='other' title='of another person'>My brother paid twice 😀</span>" in page
    assert page.count("The van burned.<strong class='unexplained'>not explained by ") == 1
    assert "None of these; nearest: fire &amp; smoke (emergency)." in page
    assert "struck through" in page
    parts = (SentenceEffect(text="No refund <b>yet</b>. My brother paid twice 😀.", effect=0.2),)
    explained = answer.model_copy(update={**changes, "sentences": parts})
    quoted = "<td><s>No refund &lt;b&gt;yet&lt;/b&gt;</s>. My brother paid twice 😀.</td>"
    assert quoted in render("tickets", [Section("one", text, explained)])
    console = Console(record=True, width=120, file=io.StringIO(), force_terminal=True)
    print_answer(explained, console, text=text)
    assert "“\x1b[9mNo refund <b>yet</b>\x1b[0m. My brother" in console.export_text(styles=True)
    bare = answer.model_copy(update={"spans": (), "unexplained": (), "outside": None})
    plain = render("tickets", [Section("one", text, bare)])
    assert not any(word in plain for word in ("struck through", "<s ", "unexplained'>", "nearest:"))


def test_the_terminal_cuts_nothing_that_the_answer_itself_says(tmp_path: Path) -> None:
    """At 80 columns: the emergency's name, the leading reason, the interval of the calibration, notes."""
    answer = Classifier(*tickets(tmp_path)).infer("The parcel is late.")
    names = ("spontaneous pneumothorax", "bacterial meningitis", "subarachnoid haemorrhage", "sepsis")
    near = tuple(NearCondition(condition=name, probability=0.2, emergency=True) for name in names)
    reason = "; ".join(f"reason {i} of the ones that say why this answer is not accepted" for i in range(6))
    flag = RedFlagAnswer(sentence="It burned.", finding="a sudden pain in the chest and in the back",
                         condition="acute coronary syndrome")  # fmt: skip
    sentence = "calibration error 3 % on 300 labelled cases of a long name (95 % interval 0 to 4)"
    calibration = answer.calibration.model_copy(update={"sentence": sentence})
    decision = answer.decision.model_copy(
        update={"action": "test", "reason": reason, "reasons": (reason, "b")}
    )
    provenance = answer.provenance.model_copy(update={"notes": ("a note " + "that is long " * 12 + "END",)})
    said = answer.model_copy(update={
        "outside": OutsideAnswer(nearest=near), "out_of_class": 0.98, "decision": decision,
        "posterior": {"delivery": 0.01, "billing": 0.01, "none of these": 0.98},
        "calibration": calibration, "provenance": provenance, "unexplained": ("It burned.",),
        "red_flags": (flag,),
    })  # fmt: skip
    for verbose in (False, True):
        console = Console(record=True, width=80, file=io.StringIO())
        print_answer(said, console, verbose=verbose)
        lines = console.export_text().splitlines()
        assert max(map(len, lines)) <= 80
        told = " ".join(" ".join(lines).split())
        for part in (said.outside_words, reason, sentence, flag.words):
            assert part in told
        assert ("END" in told) == verbose


# --------------------------------------------------------------------------- drawings


def test_every_drawing_is_well_formed_and_shows_its_words_as_they_are() -> None:
    rng = np.random.default_rng(0)
    p, names = rng.dirichlet(np.ones(3), size=30), ("a <b>", "$x^2$", "c & d")
    bins = {"edges": [0, 0.5, 1], "n": [0, 4], "confidence": [0, 0.8], "accuracy": [0, 0.75]}
    bits = rng.random(20)
    drawings = [
        ternary(p, names, p[0]), ternary_plot(p, rng.integers(3, size=30), names),
        reliability_plot(bins), risk_plot({"coverage": [0.5, 1.0], "risk": [0.0, 0.1]}),
        entropy_plot(bits, bits[:0], None, 1.6),
    ]  # fmt: skip
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "<script" not in drawing
    for drawing in drawings[:2]:
        shown = "".join(ElementTree.fromstring(drawing).itertext())
        assert all(name in shown for name in names)


def test_a_map_names_every_label(toy_bank: Bank) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(toy_bank.texts) + 5, 8)).astype(np.float32)
    drawing = bank_map(replace(toy_bank, labels=("a <b>", "b", "c")), vectors)
    assert "a &lt;b&gt;" in drawing
    assert "background" in drawing


def test_without_matplotlib_a_page_says_so_and_a_file_is_refused(
    toy_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "simdx[report]" in risk_plot({"coverage": [1.0], "risk": [0.1]})
    with pytest.raises(MissingExtra, match=r"simdx\[report\]"):
        bank_map(toy_bank, np.zeros((len(toy_bank.texts), 4), dtype=np.float32))
