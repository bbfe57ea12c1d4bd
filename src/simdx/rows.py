"""Files from others, read safely: rows of JSONL, CSV and Parquet, and mappings in YAML.

Nothing here shows a row's contents in a message: a row is named by file and line, for it may hold a patient.
"""

import csv
import html
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent

from simdx.errors import BadInput, MissingExtra
from simdx.types import is_writable

Row = tuple[int, dict[str, Any]]
MAX_LINE_BYTES = 8_000_000  # a case of a million characters, every one of them escaped, and its fields
FORMATS = (".jsonl", ".ndjson", ".csv", ".parquet")
MAX_YAML_BYTES = 1_000_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same language, ten times as fast
# The library's time grows with depth for every part: 50,000 brackets take minutes.
DEEPEST = 50


def read_rows(path: str | Path, *, keep_empty: bool = False) -> Iterator[Row]:
    """(line or row number, mapping) for each row; blank lines are passed over, and empty cells of a CSV file
    unless they are to be kept."""
    path = Path(path)
    if os.path.isdir(path):
        raise BadInput(f"{str(path)[:200]} is a folder: give one of the files in it")
    if not os.path.isfile(path):
        raise BadInput(f"there is no file at {str(path)[:200]}")
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return jsonl_rows(path)
    if suffix == ".csv":
        return _csv(path, keep_empty)
    if suffix == ".parquet":
        return _parquet(path)
    raise BadInput(f"{path.name} is not a kind of file that can be read; give one of {', '.join(FORMATS)}")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if len(raw) > MAX_LINE_BYTES:
                    raise BadInput(f"{path.name}, line {number}: over {MAX_LINE_BYTES:,} bytes")
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name}, line {number}: not valid UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None


def jsonl_rows(path: Path) -> Iterator[Row]:
    """(line number, object) of every line that is not blank, whatever the file is called."""
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # a number of thousands of digits is a plain ValueError
            raise BadInput(f"{path.name}, line {number}: not valid JSON") from None
        if not isinstance(row, dict):
            raise BadInput(f"{path.name}, line {number}: not a JSON object")
        if "\\u" in line and not is_writable(json.dumps(row, ensure_ascii=False)):
            raise BadInput(f"{path.name}, line {number}: half a character (a lone surrogate)")
        yield number, row


def _csv(path: Path, keep_empty: bool) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # case reports exceed the default of 128 kB
    reader = csv.reader((line for _, line in text_lines(path)), strict=True)
    start = 1
    try:
        header = next(reader, None)
        if header is None:
            return
        if len(set(header)) != len(header):
            raise BadInput(f"{path.name}, line 1: a column name occurs twice")
        start = reader.line_num + 1
        for values in reader:
            if values and any(v.strip() for v in values):
                if len(values) != len(header):
                    raise BadInput(
                        f"{path.name}, line {start}: {len(values)} values where the header has {len(header)}"
                    )
                row = zip(header, values, strict=True)
                yield start, {k: v for k, v in row if keep_empty or v != ""}
            start = reader.line_num + 1
    except csv.Error:
        raise BadInput(f"{path.name}, line {start}: not valid CSV") from None


def _class_names(metadata: bytes) -> dict[str, list[str]]:
    """Columns whose numbers stand for names, as Hugging Face's `datasets` notes it (ClassLabel)."""
    try:
        features = json.loads(metadata)["info"]["features"]
        labels = {k: f["names"] for k, f in features.items() if isinstance(f, dict) and "names" in f}
        return {k: names for k, names in labels.items() if all(isinstance(name, str) for name in names)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("reading Parquet", "eval") from None
    try:
        table = pq.ParquetFile(path)
        names = _class_names((table.schema_arrow.metadata or {}).get(b"huggingface", b""))
        number = 0
        for batch in table.iter_batches(batch_size=1000):
            for row in batch.to_pylist():
                number += 1
                for column, known in names.items():
                    if isinstance(value := row.get(column), int) and 0 <= value < len(known):
                        row[column] = known[value]
                yield number, {k: v for k, v in row.items() if v is not None}
    except (pa.ArrowException, OSError, ValueError):  # a ValueError: names or texts that are not UTF-8
        raise BadInput(f"{path.name} is not a readable Parquet file") from None


def read_mapping(path: Path, kind: str, mend: str) -> dict[Any, Any]:
    """The mapping in a YAML file of that kind; `mend` says what a file that holds none should hold.

    Aliases are refused, which nothing here needs and which can expand without end.
    """
    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise BadInput(f"{kind} file {path.name} is over {MAX_YAML_BYTES:,} bytes: it is not a {kind}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{kind} file {path.name} is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{kind} file {path} cannot be read: {error.strerror}") from None
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                raise BadInput(f"{kind} file {path.name} is nested more than {DEEPEST} deep")
            if isinstance(event, yaml.AliasEvent):
                raise BadInput(f"{kind} file {path.name} uses YAML aliases (*name): write the text out")
            if isinstance(event, yaml.ScalarEvent) and not is_writable(event.value):
                raise BadInput(f"{kind} file {path.name} holds half a character (a lone surrogate)")
        data = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise BadInput(f"{kind} file {path.name} is not valid YAML{line}") from None
    if not isinstance(data, dict):
        raise BadInput(f"{kind} file {path.name} holds no mapping: {mend}")
    return data


# --------------------------------------------------------------------------- HTML
#
# The words of a page, and the data blocks of a form, in time that grows with their length alone. The parser
# of the standard library looks at all that follows for every mark left open, so that 20 kB of `<a ` take
# seconds and a few megabytes days; it also fails on marked sections it does not know and on numbers of
# thousands of digits. Nothing here needs a tree, so tags are passed over from one to the next. Where a page
# is broken its words are kept rather than lost: they may be what a case is about.


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
