"""`simdx classify`: one text in, one answer out; `simdx read`: how a text is read, span by span."""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from simdx.cli import options
from simdx.cli.options import File, Told, verb
from simdx.cli.output import Progress, note, prepare, say, say_model
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.abc.prior import Prior
    from simdx.answer import Answer
    from simdx.classifier import Classifier

MAX_BYTES = 2_000_000  # of a file or of standard input: as much as the classifier takes for one case

MOST_NEAR = 10  # conditions that `--panel library` names


@verb()
def classify(
    text: Annotated[str | None, Argument(metavar="TEXT|-", help="The case, or - for standard input.")] = None,
    *,
    panel: options.PanelNames = None,
    file: Annotated[File, "Read the case from a UTF-8 file."] = None,
    chosen: options.AnswerOptions,
    prior: options.PriorOptions,
    policy: Annotated[File, "Decision policy (YAML); default: the panel's."] = None,
    ask: Annotated[bool, "--ask", "Also name the most useful missing finding."] = False,
    verbose: Annotated[bool, "--verbose", "-v", "Print the whole answer in words."] = False,
    json: options.AsJson = False,
    html: Annotated[File, "Also write the answer as an HTML page."] = None,
) -> None:
    """Classify one text: the probability of each label, with uncertainty, decision and evidence.

    Several panels are answered independently; with --json the answers are in {"results": […]}.
    """
    case = read_case(text, file)
    from simdx.classifier import infer_panels
    from simdx.methods.panel_data import check_text
    from simdx.panels import load_panel

    check_text(case, "the text")
    if panel == ["library"]:
        say(json, *_by_library(case))
        return
    names = panel or [""]  # refused with the packaged names
    if len(set(names)) < len(names):
        raise BadInput("a panel is named twice")
    for_one = {
        "--bank": chosen.bank, "--network": chosen.network, "--real": chosen.real_cases, "--policy": policy
    }  # fmt: skip
    if len(names) > 1 and (given := [option for option, value in for_one.items() if value is not None]):
        raise BadInput(f"{given[0]} applies to one panel: ask about the others separately")
    priors = prior.among([load_panel(name).names for name in names])
    options.check_target(html, "--html")
    classifiers = [chosen.classifier(name, policy=policy) for name in names]
    say_model(chosen.method, chosen.engine, chosen.simulator, classifiers[0].fitted.cost())
    for one in classifiers:
        prepare(one.fitted)
    bar = Progress("asking the language model")
    with bar if chosen.engine == "live" else nullcontext():
        for one in classifiers:
            one.watch_simulations(bar.asked)
        answers = infer_panels(classifiers, case, priors, ask=ask)
    if html is not None:
        _page(html, case, classifiers, answers, priors)
    if json:
        for answer in answers:
            sampler = answer.provenance.sampler
            if sampler is not None and sampler.outcome == "budget":
                note(f"warning: {answer.provenance.notes[-1]}")
        told = [answer.to_json() for answer in answers]
        say(json, {"results": told} if len(told) > 1 else told[0])
        return
    from rich.console import Console

    from simdx.report.terminal import escape, print_answer, print_question

    console = Console(highlight=False)
    for i, answer in enumerate(answers):
        if len(answers) > 1:
            console.print(("\n" if i else "") + f"[bold]{escape(answer.panel)}[/], {answer.method}")
        print_answer(answer, console, verbose=verbose, text=case)
        if ask:
            print_question(answer, console)


def _page(
    html: Path, case: str, classifiers: list[Classifier], answers: list[Answer], priors: list[Prior]
) -> None:
    from simdx.disk import write_atomically
    from simdx.report.page import Section, render

    sections = []
    for one, answer, its in zip(classifiers, answers, priors, strict=True):
        draws = one.simplex_draws(case, its) if len(one.panel.names) == 3 else None
        sections.append(Section(answer.label, case, answer, simplex=draws))
    panels = [one.panel for one in classifiers]
    title = f"simdx: {', '.join(p.title or p.name for p in panels)}"
    clinical = next((p for p in panels if p.is_clinical), panels[0])
    notices = " ".join(dict.fromkeys(p.notice for p in panels if p.notice))
    write_atomically(html, render(title, sections, panel=clinical, notice=notices))
    note(f"wrote {html}")


def _by_library(case: str) -> Told:
    """Which of the library's conditions a text is most like: a search, whose answers are never accepted."""
    from simdx.answer import Answer, percent
    from simdx.library import nearest

    found = nearest(case, 10_000)
    first = [m.condition for m in found[:MOST_NEAR]]
    score = {m.condition.name: m.score for m in found}
    reason = "the library's shares come from a search and are not calibrated probabilities"
    rows = [{"condition": c.name, "probability": score[c.name], "emergency": c.emergency} for c in first]
    keys = (name for name, field in Answer.model_fields.items() if not field.exclude)
    whole = dict.fromkeys(keys) | {
        "panel": "library",
        "method": "library",
        "label": first[0].name,
        "posterior": score,
        "outside": {"nearest": rows},
        "decision": {"action": "test", "reason": reason, "reasons": [reason], "promise": None},
    }
    lines = (f"{percent(score[c.name]):>9}  {c.name}{' (emergency)' * c.emergency}" for c in first)
    return whole, *lines, f"not accepted: {reason}"


def read_case(text: str | None, file: Path | None) -> str:
    """The case that was given as a text, as a file or on standard input."""
    if file is not None and text is not None:
        raise BadInput("give either a text or --file, not both")
    if file is not None:
        return _one_case(file)
    if text == "-":
        return _decode(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    if text is None:
        raise BadInput("give a text, - for standard input, or --file F")
    if not re.search(r"\s", text):  # one word that names a case would be answered as if it were one
        missing = "looks like a file name, but there is no such file: give the text of the case, or --file F"
        for found, said in (
            (os.path.isfile(text), f"is a file: 'simdx classify --file {text}' reads the case in it"),
            (os.path.isdir(text), "is a folder: --file takes a file with the text of one case"),
            (
                _ADDRESS.fullmatch(text),
                "is a web address, and simdx fetches nothing: give the text of the case",
            ),
            (_FILE_NAME.fullmatch(text), missing),
        ):
            if found:
                raise BadInput(f"'{text[:200]}' {said}")
    return text


_FILE_NAME = re.compile(r"\S*[\w)-]\.([a-z][a-z0-9]{1,4}|parquet)", re.ASCII | re.IGNORECASE)
_ADDRESS = re.compile(r"(https?|ftp|file)://\S+", re.IGNORECASE)
# Files of many cases, by name; and the first line of a table that is called otherwise.
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx", ".xls")
_DOCUMENTS = (".docx", ".doc", ".pdf", ".odt", ".rtf")
_HEADER = re.compile(r"[\w .\-\"]{1,40}([,;\t][\w .\-\"]{1,40})+")


def _one_case(file: Path) -> str:
    """The text of a file. A table is refused: read as one text, its patients would become one patient."""
    table = BadInput(
        f"{file.name} is a table, and --file takes the text of one case: 'simdx evaluate --data' scores "
        "labelled rows, the page of 'simdx serve' answers a CSV row by row"
    )
    try:
        with file.open("rb") as stream:
            if file.suffix.lower() in _TABLES:
                raise table
            if file.suffix.lower() in _DOCUMENTS:
                raise BadInput(f"{file.name} is not plain text: save it as .txt")
            text = _decode(stream.read(MAX_BYTES + 1), file.name)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    first, _, rest = text.strip().partition("\n")
    names = {name.strip(' "\r').lower() for name in re.split(r"[,;\t]", first)}
    if rest and _HEADER.fullmatch(first.strip()) and names & {"text", "label", "id", "case", "note"}:
        raise table
    return text


def _decode(data: bytes, where: str) -> str:
    if len(data) > MAX_BYTES:
        raise BadInput(f"{where} is over {MAX_BYTES // 1_000_000} MB: give one case, not a collection")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{where} is not UTF-8 text: save it as UTF-8") from None


# --------------------------------------------------------------------------- simdx read

_STYLES = {"present": "", "negated": "strike", "possible": "italic"}
_GREY = "bright_black"  # hypothetical, past, family, normal


@verb()
def read(
    text: Annotated[str | None, Argument(metavar="TEXT|-", help="The text, or - for standard input.")] = None,
    *,
    file: Annotated[File, "Read the text from a UTF-8 file."] = None,
    json: options.AsJson = False,
) -> None:
    """Show which findings of a text are present, negated, possible, hypothetical, past, normal, or of others.

    Denied findings are struck through; findings that are past, of others, hypothetical or normal are grey.
    """
    from simdx.reading import is_english
    from simdx.reading import read as read_text

    case = read_case(text, file)
    if not case.strip():
        raise BadInput("the text is empty")
    reading = read_text(case)
    english = is_english(case)
    if not english:
        note("warning: the text does not look like English, the only language covered")
    say(json, {"english": english, "spans": [span._asdict() for span in reading.spans]})
    if json:
        return
    from rich.console import Console
    from rich.text import Text

    shown, console = Text(reading.text), Console(highlight=False)
    for span in reading.spans:
        shown.stylize(_STYLES.get(span.assertion, _GREY), span.start, span.end)
        if span.assertion != "present":
            because = f"section {span.section}" if not span.trigger and span.section else span.trigger
            why = f"  ({because})" if because and span.assertion != "normal" else ""
            shown.append(f"\n  {span.assertion:<12}  {span.text}{why}")
    console.print(shown)
