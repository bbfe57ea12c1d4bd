"""A bank from any chat model: a prompt to paste, and replies that add up to a bank.

The prompt holds names and descriptions of the labels and no case text. Every text that is read from a reply
is kept in `replies.jsonl`; which of them make up the bank is decided anew on each import, by the checks that
a built bank passes. So the same reply twice changes nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from simdx.bank import files
from simdx.bank.prompts import FIRST_LINE, LAST_LINE, MOST_A_PROMPT, prompts, wanted
from simdx.bank.scrub import Duplicates, Scrubber, all_names, names_one_of, tidy
from simdx.bank.tags import MARK, NAMING, TELLING, elements, ended
from simdx.disk import make_folder
from simdx.errors import BadInput, RunFailed
from simdx.library.search import plain
from simdx.rows import jsonl_rows
from simdx.simulators.base import Request, Simulator, ask_all
from simdx.types import NONE_OF_THESE, Panel

STORE = "replies.jsonl"
PER_LABEL = 25
SHORTEST = 4  # words: the prompt asks that a quarter of the texts tell little
ROUNDS = 4  # of questions to a server; then missing texts are reported


@dataclass(frozen=True, slots=True)
class Gathered:
    """All replies so far after the checks: the bank's texts, and why others were rejected."""

    texts: Mapping[str, Sequence[str]]
    background: Sequence[tuple[str, str]]  # (condition, text)
    rejected: Mapping[str, int]
    missing: Mapping[str, int]
    unknown: Mapping[str, int] = field(default_factory=dict)  # of the last reply

    @property
    def usable(self) -> bool:
        """Has every label the two texts that the smallest bank needs?"""
        return min(map(len, self.texts.values())) > 1


def judge(rows: Sequence[ReplyText], panel: Panel, per_label: int) -> Gathered:
    texts: dict[str, list[str]] = {name: [] for name in panel.names}
    background: list[tuple[str, str]] = []
    rejected: Counter[str] = Counter()
    scrubber = cache(lambda topic: Scrubber.for_topic(panel, topic, SHORTEST))
    seen, names = Duplicates(), all_names(panel)
    for label, condition, text in rows:
        reason = scrubber(label or condition).reason(text)
        if label is None and condition and names_one_of(names, condition):
            reason = "its condition is a label"
        if reason is None and seen.seen(text):
            reason = "near-duplicate"
        if reason is not None:
            rejected[reason] += 1
        elif label is None:
            background.append((condition, text))
        else:
            texts[label].append(text)
    have = {**{name: len(found) for name, found in texts.items()}, NONE_OF_THESE: len(background)}
    missing = {topic: n - have[topic] for topic, n in wanted(panel, per_label).items() if n > have[topic]}
    return Gathered(texts, background, dict(rejected.most_common()), missing)


def gather(panel: Panel, replies: Sequence[str], folder: Path, per_label: int) -> Gathered:
    """Add replies to the folder, and write the bank anew once every label has texts."""
    if folder.exists() and not (folder / STORE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not a folder of replies: choose a new folder with --out")
    stored = [
        ReplyText(row.get("label"), str(row.get("condition") or ""), str(row.get("text")))
        for _, row in (jsonl_rows(folder / STORE) if (folder / STORE).is_file() else ())
        if row.get("label") is None or row["label"] in panel.names
    ]
    read = [read_reply(reply, panel) for reply in replies]
    _refuse_foreign(read, panel)
    if replies and not any(rows for rows, _ in read):
        raise BadInput(
            "no text of a label was found in the reply: each needs its label before it, as 'LABEL | text'"
        )
    every = list(dict.fromkeys([*stored, *(row for rows, _ in read for row in rows)]))
    found = judge(every, panel, per_label)
    if every:  # without texts nothing is stored
        make_folder(folder)
        files.write_jsonl(folder / STORE, (row._asdict() for row in every))
    if found.usable:
        texts = [{"label": name, "text": text} for name, some in found.texts.items() for text in some]
        others = [{"condition": name or "unnamed", "text": text} for name, text in found.background]
        made = {"simulator": "chat", "answers": len(every)}
        files.write_rows(folder, panel, texts, others, found.rejected, made)
    return replace(found, unknown=sum((Counter(u) for _, u in read), Counter[str]()))


def _refuse_foreign(read: Sequence[tuple[Sequence[ReplyText], Mapping[str, int]]], panel: Panel) -> None:
    """Refuse replies that have no text of a label, and mostly those of labels the panel does not have."""
    rows = [row for some, _ in read for row in some]
    unknown = sum((Counter(named) for _, named in read), Counter[str]())
    if unknown and unknown.total() >= len(rows) and all(row.label is None for row in rows):
        named = ", ".join(f"'{name}'" for name, _ in unknown.most_common(3))
        raise BadInput(f"the reply is not for panel '{panel.name}', as it labels its texts {named}")


def ask_server(panel: Panel, simulator: Simulator, folder: Path, per_label: int) -> Gathered:
    """The same prompts, answered by a server instead of by hand."""
    found = gather(panel, (), folder, per_label)
    for _ in range(ROUNDS):
        if not (asked := prompts(panel, found.missing)):
            break
        answers = ask_all(simulator, [Request(p, max_tokens=100 * MOST_A_PROMPT) for p in asked])
        replies = [answer.text for answer in answers if answer.ok and read_reply(answer.text, panel)[0]]
        if not replies:
            error = next((a.error for a in answers if a.error), "no text of a label was in the reply")
            raise RunFailed(f"{simulator.id} wrote nothing that can be used: {error}")
        found = gather(panel, replies, folder, per_label)
    return found


# --------------------------------------------------------------------------- replies
#
# Replies are read in any of these forms: JSON (whole or cut off), JSON lines, tags, lists, tables, or
# paragraphs under headings, with fences, numbering, quotation marks and other text around them. They are
# checked later.

LARGEST_REPLY = 20_000_000  # characters
# Where a whole conversation was saved, the prompt in it is no reply.
_PROMPT = re.compile(re.escape(FIRST_LINE) + ".*?" + re.escape(LAST_LINE) + r"(?:\n[^\n]*\| …)*", re.S)
Topic = tuple[str | None, str]  # (label, "") or (None, condition)


class ReplyText(NamedTuple):
    """A text of a label; of another condition where `label` is None."""

    label: str | None
    condition: str
    text: str


# Names as `plain` spells them.
_OTHERS = {
    "none these", "none", "none above", "background", "other", "other condition", "other subject",
    "other topic", "near miss", "near misse", "near miss condition", "outside", "not on list", "negative",
}  # fmt: skip
_FENCE = re.compile(r"^\s*(?:```|~~~)[\w-]*\s*$", re.M)
_PREFIX = re.compile(
    r"^[\"'“]?(?P<open>\*\*|__)?(?P<name>[^|:\t]{1,120}?)(?:\*\*|__)?[\"'”]?\s*"
    r"(?:[:|\t]|\s[–—-]\s|,(?=\s*\"))(?:\*\*|__)?\s*(?P<rest>.*)$"
)
_BRACKETED = re.compile(r"^(?P<open>[\[(])(?P<name>[^\])]{1,80})[\])]\s*[:–—|-]?\s*(?P<rest>.*)$")
_JSON = re.compile(r"^[^|\n]{0,80}?([\[{])(?=\s*[\"{\[])", re.M)
_PAIR = re.compile(r'"(?:label|category)"\s*:\s*"([^"]+)"\s*,\s*"text"\s*:\s*"((?:[^"\\]|\\.)*)"')
_CHATTER = re.compile(
    r"^(?:let me know|would you like|i hope (?:this|these)|feel free|if you(?:'d| would) like|"
    r"(?:these|all) (?:texts|examples)|would you|want me to|sure|certainly|of course|here (?:are|is))\b",
    re.I,
)


class _Reader:
    """Reads one reply from top to bottom: a text belongs to the topic of the last heading above it."""

    def __init__(self, panel: Panel) -> None:
        self._labels: dict[str, str] = {}
        for spell in (str.casefold, plain):
            owners: dict[str, set[str]] = {}
            for label in panel.labels:
                for name in (label.name, *label.aliases):
                    owners.setdefault(spell(name), set()).add(label.name)
            clear = {key: min(names) for key, names in owners.items() if key and len(names) == 1}
            self._labels = {**clear, **self._labels}
        self.rows: list[ReplyText] = []
        self.unknown: Counter[str] = Counter()
        self._topic: Topic | None = None
        self._level, self._marked = 0, False

    def resolve(self, said: str) -> Topic | None:
        """The topic that a heading, a cell or a key names; None where it names none."""
        said = " ".join(said.replace("_", " ").split()).strip(" \t*#`\"'“”:.-–—").strip()
        said = re.sub(
            r"^(?:label|category|class|topic)\s*\d*\s*[:.–-]\s*|^\d{1,3}[.):]\s*", "", said, flags=re.I
        )
        bare = re.sub(r"\s*(?:[\[(].*?[\])]|[:–—].*|\s-\s.*)\s*$", "", said).strip(" *\"'“”") or said
        for name in (said, bare, re.sub(r"\s*#?\d+$", "", bare)):
            for key in (name.casefold(), plain(name)):
                if key and key in self._labels:
                    return self._labels[key], ""
        if plain(bare) in _OTHERS or plain(said) in _OTHERS:
            condition = re.search(r"[\[(](.+?)[\])]|[:–—]\s*(.+)$", said)
            return None, (condition[1] or condition[2]).strip() if condition else ""
        return None

    def read(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\u200b", "")
        text = _PROMPT.sub("", text)
        text = re.sub(r"<think(?:ing)?>.*?</think(?:ing)?>", "", text, flags=re.S | re.I)
        if "</" in text:
            self._walk(elements(text, lambda name: self.resolve(name) is not None), None)
            if self.rows:
                return
        others, self.unknown = self.unknown, Counter()
        if re.search(r"[\[{,]\s*“", text):
            text = text.translate({0x201C: '"', 0x201D: '"'})
        mended = re.sub(r"^\s*//.*$", "", re.sub(r",(\s*[\]}])", r"\1", text), flags=re.M)
        start, tries = 0, 50
        for found in _JSON.finditer(mended):
            if found.start(1) < start or tries == 0:
                continue
            value, end = _json(mended, found.start(1))
            if value is None:  # it is read as text, with what stands around it
                tries -= 1
                continue
            self._lines(mended[start : found.start(1)])
            self._walk(value, self._topic)
            start, self._marked = end, True
        self._lines(mended[start:], last=True)
        self.unknown = self.unknown if self.rows else self.unknown or others

    def _walk(self, value: Any, topic: Topic | None) -> None:
        """The texts in a JSON value, with topics from the keys above them and the names beside them."""
        if isinstance(value, str) and topic is not None:
            self._add(topic, value)
        elif isinstance(value, list):
            for item in value:
                self._walk(item, topic)
        elif isinstance(value, dict):
            topic = self._named_in(value, topic)
            for key, held in value.items():
                name, found = plain(str(key)), self.resolve(str(key))
                texts = isinstance(held, list) and all(isinstance(item, str) for item in held)
                if name in NAMING and isinstance(held, str):
                    continue
                if name in TELLING:
                    self._walk(held, topic)
                elif found is not None:
                    self._walk(held, found)
                elif topic is not None and topic[0] is None and (texts or topic[1] == ""):
                    self._walk(held, (None, str(key)))  # a condition under none of these
                elif isinstance(held, list | dict):
                    if texts and topic is None:
                        self.unknown[str(key)[:60]] += len(held)
                    self._walk(held, topic)

    def _named_in(self, row: Mapping[str, Any], topic: Topic | None) -> Any:
        said = [str(v) for k, v in row.items() if plain(str(k)) in NAMING and isinstance(v, str)]
        found = [where for name in said if (where := self.resolve(name)) is not None]
        if found:
            other = next((n for n in said if self.resolve(n) is None), "")
            return (None, found[0][1] or other) if found[0][0] is None else found[0]
        if said and topic is not None and topic[0] is None:
            return None, said[0]
        if said and topic is None:
            self.unknown[said[0][:60]] += 1
        return topic

    # ----------------------------------------------------------------- text

    def _lines(self, text: str, last: bool = False) -> None:
        held: list[str] | None = None  # the lines of the item that is being read
        about = self._topic
        blank, first = True, len(self.rows)

        def flush() -> None:
            nonlocal held
            if held and about is not None and not _CHATTER.match(held[0]):
                self._add(about, " ".join(held))
            held = None

        for line in _FENCE.sub("", text).split("\n"):
            shown = line.strip().removeprefix("> ").strip()
            if not shown or re.fullmatch(r"[-=_*\s]{3,}", shown):
                flush()
                blank = True
                self._topic = None if self._level == 10 else self._topic
                continue
            mark = MARK.match(line)
            rest = line[mark.end() :].strip() if mark else shown
            cells = [cell.strip() for cell in rest.strip("|").split("|")]
            if rest.startswith("|") or (len(cells) > 1 and self.resolve(cells[0]) is not None):
                flush()
                self._cells(cells)
                continue
            if self._topic is None and len(cells) == 2 and len(cells[0].split()) <= 8 < len(cells[1]):
                self.unknown[cells[0].strip("*\"' ")[:60]] += 1  # a label of another panel
            if self._heading(shown, rest, marked=mark is not None):
                flush()
                about, blank = self._topic, True
                continue
            found = self._prefixed(rest)
            if mark or found is not None:
                flush()
                self._marked = self._marked or mark is not None
                about, rest = (self._topic, rest) if found is None else found
                held = [rest]
            elif held is not None and not blank and (self._marked or not ended(held[-1])):
                held.append(rest)
            elif not self._marked:
                flush()
                about, held = self._topic, [rest]
            blank = False
        flush()
        whole = [ended(row.text) for row in self.rows[first:][-2:]]
        if last and whole == [True, False]:
            self.rows.pop()  # cut off

    def _heading(self, shown: str, rest: str, *, marked: bool) -> bool:
        """Is this line a heading? Then it sets the topic of the texts below it."""
        hashes = len(shown) - len(shown.lstrip("#"))
        bold = re.fullmatch(r"(?:\*\*|__)(.+?)(?:\*\*|__):?", rest) is not None
        level = hashes or (7 if bold else 8 if rest.endswith(":") else 9)
        short = len(rest.split()) <= 12
        found = self.resolve(shown.lstrip("# ") if hashes else rest) if short or hashes else None
        if found is None and level < 9 and short:
            words = f" {plain(rest)} "
            named = {label for key, label in self._labels.items() if f" {key} " in words}
            found = (named.pop(), "") if len(named) == 1 else None
        prefix = _PREFIX.match(rest) if level == 9 else None
        if found is not None and (prefix is None or plain(prefix["name"]) in NAMING):
            self._topic, self._marked = found, False
            self._level = level if prefix is None else 10  # "label: …" is about what follows at once
            return True
        if level > 8 or not short or (marked and not bold):
            return False
        outside = self._topic is not None and self._topic[0] is None
        if outside and (level > self._level or (bold and not hashes)):
            self._topic, self._marked = (None, rest.strip("# *_:")), False  # a condition under none of these
        elif self._topic is None or level <= self._level:
            if hashes or bold:
                self.unknown[rest.strip("# *_:")[:60]] += 1
                self._level = level
            self._topic = None
        return True

    def _prefixed(self, rest: str) -> tuple[Topic, str] | None:
        match = _BRACKETED.match(rest) or _PREFIX.match(rest)
        if match is None or not match["rest"].strip():
            return None
        found = self.resolve(match["name"])
        if found is None and plain(match["name"]) in TELLING:
            found = self._topic
        elif found is None and self._topic is not None and self._topic[0] is None:
            short = len(match["name"].split()) <= 4 < len(match["rest"].split())
            found = (None, match["name"].strip("* ")) if short or match["open"] else None
        elif found is None and match["open"]:
            found = self._topic
        return None if found is None else (found, match["rest"])

    def _cells(self, cells: Sequence[str]) -> None:
        if all(re.fullmatch(r":?-*:?", cell) for cell in cells):
            return
        short = [cell for cell in cells if len(cell.split()) <= 12]
        own, found = next(((c, t) for c in short if (t := self.resolve(c)) is not None), (None, self._topic))
        others = [cell for cell in cells if cell is not own and not re.fullmatch(r"[\d.#]*", cell)]
        text = max(others, key=len, default="")
        if found is not None and found[0] is None and (own is None or not found[1]):
            found = None, next((cell for cell in others if cell is not text), found[1])
        if found is not None and plain(text) not in TELLING:
            self._add(found, text)

    def _add(self, topic: Topic, text: str) -> None:
        text = re.sub(r"\s+", " ", re.sub(r"\*\*|__|`|<br\s*/?>", " ", text)).strip(" *|")
        if text := tidy(text.rstrip(",") if text.endswith('",') else text):
            self.rows.append(ReplyText(topic[0], topic[1][:120], text))


def _json(text: str, at: int) -> tuple[Any, int]:
    """The value that begins there and where it ends; None where there is none."""
    with suppress(ValueError, RecursionError):
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    fence = _FENCE.search(text, at)
    end = fence.start() if fence else len(text)
    with suppress(ValueError, RecursionError):  # cut off where the model had to stop
        return from_json(text[at:end].rstrip(), allow_partial=True), end
    line = text[at:].partition("\n")[0]
    pairs = _PAIR.findall(line)  # a quotation mark was not escaped
    rows = [{"label": label, "text": said.replace('\\"', '"').replace("\\n", " ")} for label, said in pairs]
    return rows or None, at + len(line)


def read_reply(text: str, panel: Panel) -> tuple[list[ReplyText], dict[str, int]]:
    """The texts of a reply in its order, and headings or labels in it that the panel does not have."""
    if len(text) > LARGEST_REPLY:
        raise BadInput(f"the reply has over {LARGEST_REPLY:,} characters: give one reply at a time")
    reader = _Reader(panel)
    reader.read(text)
    return reader.rows, dict(reader.unknown)
