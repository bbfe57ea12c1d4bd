"""`simdx report DIR`: the records of a run as one HTML page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from simdx.cli import options
from simdx.cli.output import note, print_json
from simdx.errors import BadInput


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What 'simdx experiment run' wrote.")],
    out: Annotated[Path | None, typer.Option(help="The HTML page, or a folder for it; default: DIR.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="The Markdown tables; default: DIR/report.md.")
    ] = None,
    json: options.AsJson = False,
) -> None:
    """One self-contained HTML page and Markdown tables from the records of a run."""
    from simdx.disk import write_atomically

    page, tables = _page(out or folder), markdown or folder / "report.md"
    target = "" if markdown is None else f" --markdown {tables.as_posix()}"
    made = _paper(folder, f"simdx report {folder.as_posix()}{target}") or _grid(folder)
    if made is None:
        raise BadInput(
            f"{folder} holds no records: make some with 'simdx experiment run NAME --out {folder}'"
        )
    html, text, rows = made
    for path, content in ((page, html), (tables, text)):
        if path.is_dir():
            raise BadInput(f"{path} is a folder: give the path of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    note(f"wrote {page} and {tables}")
    if json:
        print_json({"html": str(page), "markdown": str(tables), "records": rows})


def _page(out: Path) -> Path:
    """A folder gets a report.html, as `evaluate --out` writes one; a name without an ending gets .html."""
    if out.is_dir():
        return out / "report.html"
    return out if out.suffix else out.with_name(out.name + ".html")


Made = tuple[str, str, list[dict[str, Any]]]  # page, Markdown, a row per record


def _paper(folder: Path, command: str) -> Made | None:
    from simdx.experiments.paper.runner import read_artefacts
    from simdx.report.paper import paper_markdown, render_paper

    records = read_artefacts(folder)
    if not records:
        return None
    rows = [{key: record[key] for key in ("artefact", "title", "status", "error")} for record in records]
    return render_paper(records), paper_markdown(records, folder.as_posix(), command), rows


def _grid(folder: Path) -> Made | None:
    from simdx.experiments.records import read_records
    from simdx.experiments.table import markdown_rows, summary_row
    from simdx.report.grid import render_grid

    records = read_records(folder)
    if not records:
        return None
    rows = [summary_row(record) for record in records]
    title = f"Experiment {records[0]['experiment']}"
    return render_grid(title, rows), markdown_rows(title, rows), rows
