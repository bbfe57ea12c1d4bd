"""`simdx experiment list|run`: what ships, and running it or a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, print_json, say
from simdx.errors import BadInput, RunFailed

if TYPE_CHECKING:
    from simdx.experiments.config import ExperimentConfig

app = Typer(help="Experiments: grids of methods, models, panels and seeds.", no_args_is_help=True)

TOKENS = ("calls", "prompt_tokens", "completion_tokens")  # of a plan


@app.command("list")
def list_(json: options.AsJson = False) -> None:
    """The experiments that ship with simdx."""
    from simdx.experiments.config import catalogue

    rows = [{"name": name, "title": config.title} for name, config in catalogue().items()]
    width = max(len(row["name"]) for row in rows)
    say(json, {"experiments": rows}, *(f"{row['name']:{width}}  {row['title']}" for row in rows))


@app.command()
def run(
    name: Annotated[str, Argument(metavar="NAME|FILE", help="A shipped experiment or a YAML file.")],
    scale: Annotated[str, Option(help="smoke | full; a file is always run as it is.")] = "full",
    out: Annotated[
        Path | None, Option(help="Folder for the records; default: out/NAME. A run goes on there.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan and its cost; run nothing.")] = False,
    workers: Annotated[int, Option(help="Cells without a model that run side by side.")] = 2,
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """Run an experiment; what is on record already is not run again."""
    from simdx.experiments.config import SCALES, find
    from simdx.experiments.runner import Watch, run_experiment

    if scale not in SCALES:
        raise BadInput(f"--scale is '{scale[:40]}': choose smoke or full")
    if not 1 <= workers <= 64:
        raise BadInput(f"--workers is {workers}: give a number from 1 to 64")
    config, base = find(name, scale)  # type: ignore[arg-type]
    folder = out or Path("out") / config.name
    if dry_run:
        _show_plan(config, folder, base, json)
        return
    bars = _Bars()
    with bars.shown:
        outcome = run_experiment(
            config, folder, base=base, workers=workers, allow_remote=allow_remote,
            watch=Watch(bars.say, bars.progress),
        )  # fmt: skip
    note(f"wrote {folder / 'summary.md'} and {len(outcome.records)} records")
    if json:
        from simdx.experiments.table import summary_row

        rows = [summary_row(record) for record in outcome.records]
        print_json({"experiment": config.name, "out": str(folder), "resumed": outcome.resumed, "rows": rows})
    else:
        print((folder / "summary.md").read_text(encoding="utf-8"))
    if outcome.failed:
        raise RunFailed(
            f"{len(outcome.failed)} of {len(outcome.records)} cells failed; their records say why"
        )


def _show_plan(config: ExperimentConfig, folder: Path, base: Path, json: bool) -> None:
    from simdx.experiments.cells import Setting
    from simdx.experiments.grid import expand
    from simdx.experiments.plan import plan_cell

    setting = Setting(config, base, folder)
    planned = [plan_cell(cell, setting) for cell in expand(config)]
    rows: list[dict[str, Any]] = [
        {
            "cell": p.cell.slug,
            "state": p.state,
            "cases": p.n,
            **{key: getattr(p.plan, key) for key in TOKENS},
            "seconds": p.seconds,
            "price": p.price,
        }
        for p in planned
    ]
    total = {key: sum(row[key] for row in rows) for key in TOKENS}
    total |= {key: sum(row[key] or 0.0 for row in rows) or None for key in ("seconds", "price")}
    if json:
        print_json({"experiment": config.name, "cells": rows, "total": total})
        return
    for row in rows:
        asked = f", {row['calls']} calls, {row['prompt_tokens']} tokens read" if row["calls"] else ""
        took = f", {row['seconds'] / 60:.0f} min" if row["seconds"] else ""
        paid = f", {row['price']:.2f}" if row["price"] else ""
        print(f"{row['state']:5} {row['cell']}: {row['cases']} cases{asked}{took}{paid}")
    print(
        f"{len(rows)} cells, {total['calls']} calls at most, {total['prompt_tokens']} tokens read and "
        f"{total['completion_tokens']} written at most"
        + (f", about {total['seconds'] / 60:.0f} min" if total["seconds"] else "")
        + (f", price {total['price']:.2f}" if total["price"] else "")
    )


class _Bars:
    """Lines and one bar per cell that asks a model, on stderr; plain lines where it is not a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.shown = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, Any] = {}

    def say(self, line: str) -> None:
        self.shown.console.print(line, markup=False, soft_wrap=True)

    def progress(self, cell: str, done: int, total: int) -> None:
        if cell not in self._tasks:
            self._tasks[cell] = self.shown.add_task(cell[:60], total=total)
        self.shown.update(self._tasks[cell], completed=done, total=total)
        if done >= total:
            self.shown.remove_task(self._tasks.pop(cell))
