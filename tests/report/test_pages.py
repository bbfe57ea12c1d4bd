"""Pages: whatever a text, a label, a name or a file says, it is shown and never becomes markup."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from simdx.metrics.gaps import SMALL, Gap
from simdx.report.page import fill, render, table
from simdx.review.forms import form_page

HOSTILE = "</title></script><img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"
GAP = Gap(HOSTILE, HOSTILE, 3, HOSTILE, None, None, None, None, None, None, too_small=True)
PAGES: dict[str, Callable[[], str]] = {
    "answers": lambda: render(HOSTILE, [], notice=HOSTILE),
    "table": lambda: table([HOSTILE], [[HOSTILE]]),
    "gaps": lambda: fill("gaps.html", gaps=[GAP], correction="holm", small=SMALL),
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
