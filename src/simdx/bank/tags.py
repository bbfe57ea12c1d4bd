"""Replies in tags: `<migraine><text>…</text></migraine>`, `<label name="migraine"><item>…</item></label>`.

They are found by one regular expression and never parsed as XML, so that no entity is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from simdx.library.search import plain

# Names of keys, columns and elements as `plain` spells them: of what names a label, and of what is its text.
NAMING = {
    "label", "name", "category", "class", "diagnosis", "condition", "topic", "subject", "title", "type",
}  # fmt: skip
TELLING = {
    "text", "description", "example", "content", "message", "note", "ticket", "sample", "body", "statement",
    "value", "vignette",
}  # fmt: skip
MARK = re.compile(r"^\s*(?:>\s*)?(?:[-*•‣·+–]|\(?\d{1,3}[.):\]]\)?|\(?[a-zA-Z][.)])\s+")
# An element and its attributes; what only shapes a text; what says nothing.
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z][^<>\"'=/]{0,79}?)"
    r"(?P<said>(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*(?P<empty>/?)>"
)
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_SHAPING = re.compile(r"</?(?:br|b|i|u|em|strong|span|p)\s*/?>|<!--|-->|<!\[CDATA\[|\]\]>", re.I)
_ITEMS = TELLING | {"item", "li", "entry", "row"}  # elements whose names say nothing of their texts
_DEEPEST = 50  # elements in one another


@dataclass(slots=True)
class _Element:
    name: str
    attributes: str = ""
    said: list[str] = field(default_factory=list)  # between the elements inside
    inside: list[tuple[str, Any]] = field(default_factory=list)


def elements(text: str, is_topic: Callable[[str], bool]) -> Any:
    """The elements of a text as the value that JSON would have for them. Entities but those of characters
    stay as they are, and what is not closed counts for what is around it."""
    text = _SHAPING.sub(" ", text)
    root = _Element("")
    open_, at = [root], 0
    for tag in _TAG.finditer(text):
        open_[-1].said.append(text[at : tag.start()])
        at = tag.end()
        if not tag["end"] and not tag["empty"] and len(open_) < _DEEPEST:
            open_.append(_Element(tag["name"].strip(), tag["said"]))
        elif tag["end"] and any(one.name == tag["name"].strip() for one in open_):
            while (closed := open_.pop()).name != tag["name"].strip():
                open_[-1].said += closed.said
                open_[-1].inside += closed.inside
            open_[-1].inside.append((closed.name, _value(closed, is_topic)))
    open_[-1].said = [*open_[-1].said, text[at:]] if ended(text[at:].rstrip()) else []  # else it was cut off
    while len(open_) > 1:
        closed = open_.pop()
        open_[-1].inside.append((closed.name, _value(closed, is_topic)))
    return _value(root, is_topic)


def _value(element: _Element, is_topic: Callable[[str], bool]) -> Any:
    """A list of texts, or a mapping of what is named in an element."""
    row: dict[str, Any] = {}
    texts = [] if element.inside else _texts_in(unescape("".join(element.said)))
    for key, one, other in _ATTRIBUTE.findall(element.attributes):
        if plain(key) in NAMING or is_topic(one or other):
            row[key if plain(key) in NAMING else "name"] = unescape(one or other)
    for name, value in element.inside:
        leaf = isinstance(value, list)
        if leaf and plain(re.sub(r"[_\d]+$", "", name)) in _ITEMS:
            texts += value
        elif leaf and len(value) == 1 and plain(name) in NAMING:
            row[name] = value[0]
        elif isinstance(held := row.setdefault(name, []), list):
            held += value if leaf else [value]
    return row | {"text": texts} if row and texts else row or texts


def _texts_in(said: str) -> list[str]:
    """The texts of an element: a line each where every line is an item or ends a sentence."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    several = all(MARK.match(line) or ended(line) for line in lines)
    return [MARK.sub("", line) for line in lines] if several else [" ".join(lines)]


def ended(text: str) -> bool:
    return text.rstrip("\"'”)]*").endswith((".", "!", "?", "…"))
