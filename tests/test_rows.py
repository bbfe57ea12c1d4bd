"""The words of a page as a reader would see them, and the data blocks of a form."""

import pytest

from simdx.rows import data_blocks, words_of


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("plain", "plain"),
        ("<p>a</p><p>b</p>", "a b"),
        ("a &amp; b &lt;c&gt; &#228;&nbsp;d", "a & b <c> ä\xa0d"),
        ("CRP <5 and > 3 <", "CRP <5 and > 3 <"),
        ("<a title=\"x > y\" href='>'>link</a>", "link"),
        ("<p don't>it's</p> 6' tall", "it's 6' tall"),
        ("<script>if (a<b) x('</p>')</script>seen<STYLE>p{}</STYLE >too", "seen too"),
        ("a<!-- no > --- tag -->b<!DOCTYPE x>c<?php 1 ?>d", "a b c d"),
        ("<![if !mso]>kept<![endif]> <![CDATA[x]]>", "kept"),
        # broken pages lose their marks, not their words
        ("before <!-- never closed", "before <!-- never closed"),
        ("before <b never closed", "before <b never closed"),
        ('<a href="never closed>said</a><i>more</i>', "said more"),
        ("&#" + "9" * 5000 + ";", "\N{REPLACEMENT CHARACTER}"),
        ("<script>never closed", ""),
    ],
)
def test_words(page: str, words: str) -> None:
    assert words_of(page) == words


def test_blocks_are_found_however_a_browser_wrote_them() -> None:
    page = (
        '<script type="application/json" id="setup">{"a": "<b>"}</script>'
        "<SCRIPT id='answers' defer type=application/json>{}</SCRIPT>"
        '<script>setup = 1</script><!-- <script type="application/json" id="no">x</script> -->'
    )
    assert data_blocks(page) == {"setup": '{"a": "<b>"}', "answers": "{}"}


@pytest.mark.parametrize(
    "unit", ["<a", "<a ", "<a b=", '<a ="', '<a =">"', "<!--", "<![", "</", "&#", "<script a"]
)
def test_many_open_marks_end(unit: str) -> None:
    """No clock: looking at the rest for each of them would take hours, which the suite's own limit ends."""
    page = unit * (200_000 // len(unit))
    assert len(words_of(page)) <= len(page)
    data_blocks(page)
