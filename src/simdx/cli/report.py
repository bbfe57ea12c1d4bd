"""`simdx report DIR`: the records of a run as one HTML page and as Markdown."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from simdx.cli import options
from simdx.cli.output import note, print_json
from simdx.errors import BadInput


def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="What 'simdx experiment run' wrote.")],
    out: Annotated[Path | None, Option(help="The HTML page, or a folder for it; default: DIR.")] = None,
    markdown: Annotated[Path | None, Option(help="The Markdown tables; default: DIR/report.md.")] = None,
    json: options.AsJson = False,
) -> None:
    """One self-contained HTML page and Markdown tables from the records of a run."""
    from simdx.disk import write_atomically
    from simdx.experiments.table import markdown_rows, summary_row
    from simdx.report.grid import render_grid
    from simdx.runs import Store

    page, tables = out or folder, markdown or folder / "report.md"
    if page.is_dir():  # as `evaluate --out` writes one
        page = page / "report.html"
    elif not page.suffix:
        page = page.with_name(page.name + ".html")
    records = Store(folder).records()
    if not records:
        hint = f"make some with 'simdx experiment run NAME --out {folder}'"
        if (folder / "artefacts").is_dir():
            hint = f"those of the paper are reported by 'python -m paper report {folder}'"
        raise BadInput(f"{folder} holds no records: {hint}")
    rows, title = [summary_row(record) for record in records], f"Experiment {records[0].experiment}"
    html, text = render_grid(title, rows), markdown_rows(title, rows)
    for path, content in ((page, html), (tables, text)):
        if path.is_dir():
            raise BadInput(f"{path} is a folder: give the path of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    note(f"wrote {page} and {tables}")
    if json:
        print_json({"html": str(page), "markdown": str(tables), "records": rows})
