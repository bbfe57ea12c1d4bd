"""Pages from others: their words, and the data blocks of a form, in time that grows with their length alone.

The parser of the standard library looks at all that follows for every mark left open, so that 20 kB of `<a `
take seconds and a few megabytes days; it also fails on marked sections it does not know and on numbers of
thousands of digits. Nothing here needs a tree, so tags are passed over from one to the next. Where a page is
broken its words are kept rather than lost: they may be what a case is about.
"""

import html
import re
from collections.abc import Iterator

_OPENS = re.compile(r"[A-Za-z/!?]")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")
_STOPS = re.compile(r">|=\s*([\"'])")  # elsewhere in a tag a quotation mark is a letter like others
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([A-Za-z][\w:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_HUGE_NUMBER = re.compile(r"&#[0-9a-fA-FxX]{9,};?")
_BLANKS = re.compile(r"[ \t]+")
# Elements whose content is not text.
_HIDING = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}


def words_of(page: str) -> str:
    """The text of an HTML page or fragment: tags become blanks, references the characters they stand for."""
    parts = (" " if name else text for text, name, _ in _pieces(page))
    text = html.unescape(_HUGE_NUMBER.sub("\N{REPLACEMENT CHARACTER}", "".join(parts)))
    return _BLANKS.sub(" ", text).strip()


def data_blocks(page: str) -> dict[str, str]:
    """The JSON blocks of a page (`<script type="application/json" id=…>`) by their id."""
    found: dict[str, str] = {}
    for text, name, attributes in _pieces(page):
        if name == "script":
            about = {m[1].lower(): m[2] or m[3] or m[4] or "" for m in _ATTRIBUTE.finditer(attributes)}
            if about.get("type") == "application/json" and about.get("id"):
                found[about["id"]] = text
    return found


def _pieces(page: str) -> Iterator[tuple[str, str, str]]:
    """Runs of text without a name; tags with their names, their attributes and the content they hide."""
    at, quotes = 0, True
    while (start := page.find("<", at)) >= 0:
        yield page[at:start], "", ""
        at = start
        if page.startswith("<!--", start):
            end = page.find("-->", start + 4)
            if end < 0:  # nor will there be one for any later comment
                break
            yield "", "!", ""
            at = end + 3
        elif not _OPENS.match(page, start + 1):
            yield "<", "", ""
            at = start + 1
        else:
            end, quotes = _end_of_tag(page, start + 1, quotes)
            if end < 0:
                break
            named = _NAME.match(page, start + 1)
            name = named[0].lower() if named else "/"
            hidden, at = "", end + 1
            if name in _HIDING:
                closing = _HIDING[name].search(page, at)
                stop = closing.start() if closing else len(page)
                hidden, at = page[at:stop], stop
            yield hidden, name, page[named.end() : end] if named else ""
    yield page[at:], "", ""


def _end_of_tag(page: str, at: int, quotes: bool) -> tuple[int, bool]:
    """Where the `>` of a tag is (−1: nowhere), and whether quoted values are still believed in.

    A `>` between quotes does not end a tag. Where that leaves the tag without an end, or a quote is never
    closed, the belief is over for the rest of the page: to look again with every tag would take for ever.
    """
    begun = at
    while quotes and (stop := _STOPS.search(page, at)):
        if stop[1] is None:
            return stop.start(), True
        closed = page.find(stop[1], stop.end())
        if closed < 0:
            break
        at = closed + 1
    return page.find(">", begun), False
