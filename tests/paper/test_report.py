"""The report of the paper's artefacts: self-contained, ordered, honest about what is missing."""

from __future__ import annotations

import re
from typing import Any

from simdx.report.paper import paper_markdown, render_paper


def _record(name: str, order: int, status: str = "done", **finding: Any) -> dict[str, Any]:
    found = {
        "tables": [{"title": "T", "columns": ["a", "b"], "rows": [["x|y", "0.5 [0.4, 0.6]"]], "note": "n."}],
        "figures": [{"name": "f", "svg": "<svg></svg>", "caption": "c"}],
        "verdicts": ["It <holds>."],
        "n": {"oral": 3},
        "models": ["m"],
        "notes": ["Left out: something."],
        "data": {},
    }
    return {
        "artefact": name,
        "title": f"Title {name}",
        "order": order,
        "status": status,
        "error": None if status == "done" else "no pair of weights",
        "config": {
            "scale": "smoke",
            "seed": 0,
            "banks": {"oral": ["reference"]},
            "skipped": {"sd": "not at hand"},
        },
        "versions": {"simdx": "0.1.0", "commit": "abc"},
        "seconds": 1.0,
        "finding": {**found, **finding} if status == "done" else None,
    }


RECORDS = [_record("second", 2), _record("first", 1), _record("third", 3, "not run")]


def test_the_page_asks_nothing_of_anyone() -> None:
    page = render_paper(RECORDS)
    assert "<script" not in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:)?//", page)
    assert "@import" not in page
    assert "url(" not in page


def test_the_page_shows_every_artefact_in_order_and_escaped() -> None:
    page = render_paper(RECORDS)
    places = [page.index(f"<h2>Title {name}</h2>") for name in ("first", "second", "third")]
    assert places == sorted(places)
    assert "It &lt;holds&gt;." in page
    assert "<svg></svg>" in page
    assert "Not run: no pair of weights" in page
    assert "0.5 [0.4,\u00a00.6]" in page
    assert "left out: not at hand" in page


def test_markdown_has_tables_and_says_where_it_comes_from() -> None:
    text = paper_markdown(RECORDS, "results/paper", "simdx report results/paper")
    assert "Written by `simdx report results/paper` from the records in `results/paper`" in text
    assert "| x\\|y | 0.5 [0.4, 0.6] |" in text
    assert text.index("## Title first") < text.index("## Title second")
    assert "2 of 3 artefacts done; not: third (not run)" in text


def test_a_report_does_not_depend_on_the_order_of_records() -> None:
    assert paper_markdown(RECORDS, "a", "b") == paper_markdown(RECORDS[::-1], "a", "b")
    assert render_paper(RECORDS) == render_paper(RECORDS[::-1])
