"""`python -m paper list|run|report`: the paper's artefacts named, measured, and rendered."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from simdx.cli.main import guarded
from simdx.errors import BadInput, RunFailed

app = typer.Typer(
    help="The paper's tables and figures, ours beside theirs.", add_completion=False, pretty_exceptions_enable=False
)


@app.command("list")
def list_() -> None:
    """The artefacts, in the report's order."""
    from paper.artefacts import ARTEFACTS

    for artefact in ARTEFACTS:
        print(f"{artefact.name}: {artefact.title}")


@app.command()
def run(
    out: Annotated[Path, typer.Option(help="Folder for the records. A run goes on there.")],
    scale: Annotated[str, typer.Option(help="smoke: a few cases, to see that it works; full: all.")] = "full",
    only: Annotated[str | None, typer.Option(help="These artefacts alone, separated by commas.")] = None,
    embedder: Annotated[str | None, typer.Option(help="In place of each panel's own, e.g. wordllama+mpnet.")] = None,
    panels: Annotated[str | None, typer.Option(help="These panels alone, separated by commas.")] = None,
) -> None:
    """Measure; what is on record already is not measured again."""
    from paper.artefacts import chosen, run_artefacts
    from paper.context import Context
    from paper.world import SIZES
    from simdx.panels.load import PACKAGED

    if scale not in SIZES:
        raise BadInput(f"--scale is '{scale[:40]}': choose smoke or full")
    about = tuple(name.strip() for name in panels.split(",")) if panels else PACKAGED
    artefacts, context = chosen(only), Context(scale, out, panels=about, embedder=embedder)
    if panels and context.skipped:
        raise BadInput(next(iter(context.skipped.values())))
    records = run_artefacts(artefacts, context, lambda line: print(line, file=sys.stderr))
    if failed := [record.name for record in records if record.status == "failed"]:
        raise RunFailed(
            f"{len(failed)} of {len(records)} artefacts failed ({', '.join(failed)}); their records say why"
        )


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What 'python -m paper run' wrote.")],
    markdown: Annotated[Path | None, typer.Option(help="Also the documentation's page and picture.")] = None,
    grid: Annotated[Path, typer.Option(help="Records of the main grid, for that page.")] = Path("results/grid"),
) -> None:
    """DIR/report.html, DIR/claims.json, DIR/claims.csv and DIR/tables/*.csv from the records of a run."""
    from paper import report as made
    from paper.artefacts import read_artefacts
    from paper.figures import svg
    from simdx.disk import write_atomically

    records = read_artefacts(folder)
    if not records:
        raise BadInput(f"{folder} holds no records: make some with 'python -m paper run --out {folder}'")
    if markdown is not None and markdown.is_dir():
        raise BadInput(f"{markdown} is a folder: give the path of a file")
    made.write(records, folder)
    if markdown is not None:
        picture = markdown.parent / "pictures" / f"{markdown.stem}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(picture, svg(made.picture(records)))
        grids, whole = made.grid(grid), made.whole_embeddings(grid)
        write_atomically(markdown, made.markdown(records, f"pictures/{picture.name}", folder, grids, whole))
        if grids:
            write_atomically(grid / "verdicts.md", made.grid_markdown(grids))
            write_atomically(grid / "comparisons.csv", made.comparisons_csv(grid))
        if whole:
            write_atomically(grid / "whole-embedding.csv", made.whole_embeddings_csv(whole))
    print(f"wrote {folder / 'report.html'}", file=sys.stderr)


def main(args: list[str] | None = None) -> int:
    """Exit 0 done, 2 bad input, 1 a failure while running; one clear line each."""
    return guarded(lambda: app(args, standalone_mode=False, prog_name="python -m paper"))


if __name__ == "__main__":
    sys.exit(main())
