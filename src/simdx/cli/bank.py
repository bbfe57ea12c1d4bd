"""`simdx bank import|show|score|verify` and, from their own modules, the verbs that make banks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simdx.cli import bank_build, options
from simdx.cli.output import note, print_json
from simdx.errors import BadInput, RunFailed

if TYPE_CHECKING:
    from simdx.datasets import Columns
    from simdx.types import Bank, Panel

app = typer.Typer(help="Banks of simulated descriptions.", no_args_is_help=True)
app.command()(bank_build.build)
app.command()(bank_build.conditions)
app.command()(bank_build.export)
app.command()(bank_build.merge)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A bank folder.")]


@app.command("import")
def import_(
    panel: options.PanelName,
    source: Annotated[Path, typer.Option("--from", help="JSONL, CSV or Parquet rows with label and text.")],
    out: Annotated[Path, typer.Option(help="The bank folder to make.")],
    background: Annotated[
        Path | None, typer.Option(help="JSONL or CSV of other conditions, for 'none of these'.")
    ] = None,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    json: options.AsJson = False,
) -> None:
    """Make a bank folder from descriptions you already have."""
    from dataclasses import replace

    from simdx.bank.files import write_bank
    from simdx.datasets import Columns
    from simdx.disk import refuse_occupied
    from simdx.panels import load_panel

    chosen = load_panel(panel)
    if not os.path.exists(source):
        raise BadInput(
            f"no file at '{str(source)[:200]}': give a JSONL, CSV or Parquet file of label and text"
        )
    refuse_occupied(out)
    columns = Columns(text_column, label_column, id=None)
    bank = _described(source, chosen, columns)
    if background is not None:
        bank = replace(bank, background=_other_conditions(background, columns))
    manifest = write_bank(out, bank, chosen)
    _report(out, manifest, json)


def _described(source: Path, panel: Panel, columns: Columns) -> Bank:
    """A table by the readers that cases have; rows as banks are written by the bank's own."""
    from simdx.bank.exchange import read_any_bank
    from simdx.bank.files import assemble, read_bank
    from simdx.datasets import read_cases

    if _is_table(source, columns):
        cases = read_cases(source, columns=columns, labels=panel.names).cases
        return assemble(panel, [(str(case.label), case.text) for case in cases], (), source.stem)
    return read_any_bank(source, panel) if source.suffix == ".parquet" else read_bank(source, panel)


def _other_conditions(source: Path, columns: Columns) -> tuple[str, ...]:
    from simdx.bank.files import background_texts
    from simdx.datasets import read_cases

    if _is_table(source, columns):
        return tuple(read_cases(source, columns=columns, labelled=False).texts)
    return background_texts(source)


def _is_table(source: Path, columns: Columns) -> bool:
    return source.suffix.lower() == ".csv" or (columns.text, columns.label) != ("text", "label")


@app.command()
def show(
    folder: Folder,
    panel: Annotated[
        str | None, typer.Option(help="The bank's panel, where it is not a packaged one: for the embedder.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--map", help="Write a 2-D map of the bank (SVG).")] = None,
    stats: Annotated[bool, typer.Option(help="Lengths, diversity and nearest-label confusions.")] = True,
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """Counts, rejections and hash; lengths, diversity, confusions inside the bank, and a map."""
    from simdx.bank.files import read_manifest

    manifest = read_manifest(folder)
    holds = not _problems(folder)
    if not holds:
        if picture is not None:
            raise BadInput(f"no map of bank '{folder.name}': 'simdx bank verify' finds it damaged")
        note(f"warning: 'simdx bank verify' finds bank '{folder.name}' damaged: its manifest says this")
    wanted = stats and holds  # nothing is said of texts that nothing vouches for
    found = bank_build.statistics(folder, manifest, panel, picture, allow_remote) if wanted else None
    _report(folder, manifest, json, found, {"holds": holds})


@app.command()
def score(
    panel: options.PanelName,
    cases: Annotated[
        Path, typer.Option(help="Cases without labels (JSONL, CSV, Parquet); labels are ignored.")
    ],
    bank: Annotated[
        Path | None, typer.Option(help="A bank folder or JSONL file; default: the panel's own.")
    ] = None,
    embedder: Annotated[str | None, typer.Option(help="NAME or NAME+NAME; default: the panel's.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot of the cases' typicality (SVG).")] = None,
    permutations: Annotated[int, typer.Option(help="Of the two-sample test.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the two-sample test.")] = 0,
    text_column: options.TextColumn = "text",
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """How good a bank is for these cases, from their texts alone: likeness, coverage, agreement, fidelity."""
    from simdx.bank.files import packaged_bank, read_bank, write_atomically
    from simdx.bank_score import draw_score, in_words, score_bank
    from simdx.datasets import Columns, read_cases
    from simdx.embedders import get_embedder
    from simdx.methods import Material
    from simdx.panels import load_source

    if plot is not None and not plot.parent.is_dir():
        raise BadInput(f"the folder of --plot does not exist: {plot.parent}")
    source = load_source(panel)
    chosen = packaged_bank(source) if bank is None else read_bank(bank, source.panel)
    texts = read_cases(cases, columns=Columns(text_column), labelled=False).texts
    model = get_embedder(embedder or source.panel.embedder, allow_remote=allow_remote)
    material = Material.prepare(source.panel, chosen, model)
    found = score_bank(material, material.observe(texts), permutations=permutations, seed=seed)
    if plot is not None:
        write_atomically(plot, draw_score(found))
    if json:
        print_json(
            {"panel": source.panel.name, "bank": f"{chosen.name}@{chosen.hash[:16]}", **found.as_dict()}
        )
        return
    print(in_words(found))


@app.command()
def verify(folder: Folder, json: options.AsJson = False) -> None:
    """Check every hash and count of a bank (exit 1 when it does not hold)."""
    if not folder.is_dir():
        raise BadInput(f"no bank folder at '{folder}'")
    problems = _problems(folder)
    if json:
        print_json({"ok": not problems, "problems": problems})
    if problems:
        raise RunFailed(f"bank '{folder.name}' does not hold: {'; '.join(problems)}")
    if not json:
        print(f"{folder}: holds")


def _problems(folder: Path) -> list[str]:
    from simdx.bank.files import problems_of

    try:
        return list(problems_of(folder))
    except BadInput as error:  # a damaged or absent manifest is a bank that does not hold
        return [str(error)]


def _report(
    folder: Path, manifest: dict, json: bool, stats: dict | None = None, state: dict | None = None
) -> None:
    from simdx.bank.files import background_count

    others = background_count(folder, manifest)
    if json:
        shown = {key: manifest[key] for key in ("panel", "labels", "rejected", "hash")}
        shown |= {"background": others, **(state or {})}
        print_json(shown if stats is None else {**shown, "stats": stats})
        return
    print(f"{folder}: bank for '{manifest['panel']}', {sum(manifest['labels'].values())} descriptions")
    for label, n in manifest["labels"].items():
        print(f"  {n:6}  {label}")
    print(f"  {'?' if others is None else others:>6}  (background)")
    for reason, n in manifest["rejected"].items():
        print(f"  {n:6}  rejected: {reason}")
    print(f"  hash {manifest['hash']}")
    if stats is not None:
        print(bank_build.statistics_in_words(stats))
