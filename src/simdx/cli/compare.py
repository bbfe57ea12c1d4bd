"""`simdx compare DIR DIR`: two evaluations of the same cases, with paired bootstrap intervals."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from simdx.cli import options
from simdx.cli.output import say


def compare(
    first: Annotated[Path, Argument(metavar="DIR", help="What 'simdx evaluate --out' wrote.")],
    second: Annotated[Path, Argument(metavar="DIR", help="Another such folder, of the same cases.")],
    resamples: Annotated[int, Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 10_000,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Differences between two runs on the same cases: paired bootstrap intervals and p-values."""
    from simdx.compare import Run, lines
    from simdx.compare import compare as run

    found = run(Run.read(first), Run.read(second), resamples=resamples, seed=seed)
    say(json, found, *lines(found))
