"""`simdx read`: how a text is read, span by span."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from simdx.cli import options
from simdx.cli.classify import read_case
from simdx.cli.output import note, print_json

if TYPE_CHECKING:
    from simdx.reading import Reading

_STYLES = {
    "negated": "strike",
    "possible": "italic",
    "hypothetical": "bright_black",
    "past": "bright_black",
    "family": "bright_black",
    "normal": "bright_black",
}


def read(
    text: Annotated[str | None, Argument(metavar="TEXT|-", help="The text, or - for standard input.")] = None,
    *,
    file: Annotated[Path | None, Option(help="Read the text from a UTF-8 file.")] = None,
    json: options.AsJson = False,
) -> None:
    """What in a text is present, negated, possible, hypothetical, past, another person's or normal.

    Denied findings are struck through; what is past, another's, conditional or normal is grey.
    """
    from simdx.reading import is_english
    from simdx.reading import read as read_text

    case = read_case(text, file)
    reading = read_text(case)
    english = is_english(case)
    if not english:
        note("warning: the text does not look like English, the only language covered")
    if json:
        print_json({"english": english, "spans": [asdict(span) for span in reading.spans]})
    else:
        _show(reading)


def _show(reading: Reading) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    shown = Text(reading.text)
    for span in reading.spans:
        shown.stylize(_STYLES.get(span.assertion, ""), span.start, span.end)
    console.print(shown)
    for span in reading.spans:
        if span.assertion != "present":
            because = f"section {span.section}" if not span.trigger and span.section else span.trigger
            why = f"  ({because})" if because and span.assertion != "normal" else ""
            console.print(Text(f"  {span.assertion:<12}  {span.text}{why}"))
