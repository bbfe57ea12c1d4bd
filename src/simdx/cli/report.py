"""`simdx report DIR`: the records of a run as one HTML page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdx.cli.output import note, print_json
from simdx.errors import BadInput


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What 'experiment run paper' wrote.")],
    out: Annotated[Path | None, typer.Option(help="The HTML page; default: DIR/report.html.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="The Markdown tables; default: DIR/report.md.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """One self-contained HTML page and Markdown tables from the records of a run."""
    from simdx.bank.files import write_atomically
    from simdx.experiments.paper.runner import read_artefacts
    from simdx.report.paper import paper_markdown, render_paper

    records = read_artefacts(folder)
    if not records:
        raise BadInput(
            f"{folder} holds no records: make them with 'simdx experiment run paper --out {folder}'"
        )
    page, tables = out or folder / "report.html", markdown or folder / "report.md"
    for path in (page, tables):
        if path.is_dir():
            raise BadInput(f"{path} is a folder: give the path of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, render_paper(records))
    where = folder.as_posix()
    target = "" if markdown is None else f" --markdown {tables.as_posix()}"
    write_atomically(tables, paper_markdown(records, where, f"simdx report {where}{target}"))
    note(f"wrote {page} and {tables}")
    if json:
        rows = [{key: record[key] for key in ("artefact", "title", "status", "error")} for record in records]
        print_json({"html": str(page), "markdown": str(tables), "artefacts": rows})
