"""`simdx validate transfer`: does the recipe hold on panels it was not tuned to?"""

from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from simdx.cli import options
from simdx.cli.output import note, say
from simdx.errors import BadInput

app = Typer(help="Check the recipe on labelled cases.", no_args_is_help=True)


@app.callback()
def _validate() -> None:
    """A verb with one verb of its own, so far."""


@app.command()
def transfer(
    data: Annotated[list[Path] | None, Option(help="A folder of panels with cases; repeatable.")] = None,
    packaged: Annotated[
        list[str] | None,
        Option(metavar="PANEL=CASES[:OUTSIDE]", help="A packaged panel with its cases; may be given again."),
    ] = None,
    embedder: Annotated[str | None, Option(help="Embedder, joined by '+'; each panel's own.")] = None,
    seed: Annotated[int, Option(min=0, help="Of draws and intervals.")] = 0,
    out: Annotated[Path | None, Option(help="Write the record to this file as well.")] = None,
    json: options.AsJson = False,
) -> None:
    """Every panel with the constants that the other panels choose, and what labelled cases would add."""
    from simdx.runs.record import current_commit
    from simdx.transfer import entries, lines, run

    named: dict[str, tuple[Path, Path | None]] = {}
    for given in packaged or []:
        name, _, files = given.partition("=")
        cases, _, outside = files.partition(":")
        if not cases:
            raise BadInput(f"--packaged {given[:80]}: give PANEL=CASES.jsonl, with :OUTSIDE.jsonl or without")
        named[name] = (Path(cases), Path(outside) if outside else None)
    if out is not None:
        options.check_target(out, "--out")

    def told(panel: str) -> None:
        note(f"asking {Path(panel).parent.name or panel}")

    result = run(entries(data or [], named), embedder, seed, told)
    result |= {"command": "simdx validate transfer", "commit": current_commit(), "embedder": embedder}
    if out is not None:
        import json as encoder

        from simdx.disk import write_atomically

        write_atomically(out, encoder.dumps(result, indent=1) + "\n")
    say(json, result, *lines(result))
