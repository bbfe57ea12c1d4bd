"""`simdx bank import|show|score|verify|export|merge`, and build and conditions from their own module."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from simdx.cli import bank_build, options
from simdx.cli.output import note, print_json, say, write_line
from simdx.errors import BadInput, RunFailed

app = Typer(help="Banks of simulated descriptions.", no_args_is_help=True)
app.command()(bank_build.build)
app.command()(bank_build.conditions)

SHOWN = ("panel", "labels", "rejected", "hash")  # of a manifest
Folder = Annotated[Path, Argument(metavar="DIR", help="A bank folder.")]


@app.command("import")
@options.spread
def import_(
    panel: options.PanelName,
    source: Annotated[Path, Option("--from", help="JSONL, CSV or Parquet rows with label and text.")],
    out: Annotated[Path, Option(help="The bank folder to make.")],
    background: Annotated[Path | None, Option(help="JSONL or CSV of other conditions.")] = None,
    *,
    layout: options.ColumnOptions,
    json: options.AsJson = False,
) -> None:
    """Make a bank folder from descriptions you already have."""
    from simdx.bank.exchange import read_descriptions
    from simdx.bank.files import write_bank
    from simdx.disk import refuse_occupied
    from simdx.panels import load_panel

    chosen = load_panel(panel)
    refuse_occupied(out)
    bank = read_descriptions(source, chosen, replace(layout.columns, id=None), background)
    _report(out, write_bank(out, bank, chosen), json)


@app.command()
def show(
    folder: Folder,
    panel: Annotated[str | None, Option(help="The bank's panel, unless packaged.")] = None,
    picture: Annotated[Path | None, Option("--map", help="Write a 2-D map of the bank (SVG).")] = None,
    stats: Annotated[bool, Option(help="Lengths, diversity and nearest-label confusions.")] = True,
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """Counts, rejections and hash; lengths, diversity, confusions inside the bank, and a map."""
    from simdx.bank.files import read_manifest
    from simdx.bank.stats import folder_statistics
    from simdx.report.plots import bank_map

    manifest = read_manifest(folder)
    holds = not _problems(folder)
    if not holds:
        if picture is not None:
            raise BadInput(f"no map of bank '{folder.name}': 'simdx bank verify' finds it damaged")
        note(f"warning: 'simdx bank verify' finds bank '{folder.name}' damaged: its manifest says this")
    wanted = stats and holds  # nothing is said of texts that nothing vouches for
    found = folder_statistics(folder, manifest, panel, picture, bank_map, allow_remote) if wanted else None
    _report(folder, manifest, json, found, {"holds": holds})


@app.command()
@options.spread
def score(
    panel: options.PanelName,
    cases: Annotated[Path, Option(help="Cases without labels (JSONL, CSV, Parquet); labels are ignored.")],
    chosen: options.PanelDataOptions,
    plot: Annotated[Path | None, Option(help="Write a plot of the cases' typicality (SVG).")] = None,
    permutations: Annotated[int, Option(help="Of the two-sample test.")] = 500,
    seed: Annotated[int, Option(help="Seed of the two-sample test.")] = 0,
    text_column: options.TextColumn = "text",
    json: options.AsJson = False,
) -> None:
    """How good a bank is for these cases, from their texts alone: likeness, coverage, agreement, fidelity."""
    from simdx.bank.files import write_atomically
    from simdx.bank_score import draw_score, in_words, score_bank
    from simdx.datasets import Columns, read_cases

    options.check_target(plot, "--plot")
    texts = read_cases(cases, columns=Columns(text_column), labelled=False).texts
    data = chosen.panel_data(panel)
    found = score_bank(data, data.observe(texts), permutations=permutations, seed=seed)
    if plot is not None:
        write_atomically(plot, draw_score(found))
    bank = data.bank
    about = {"panel": data.panel.name, "bank": f"{bank.name}@{bank.hash[:16]}"}
    say(json, {**about, **found.as_dict()}, in_words(found))


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
        write_line(f"{folder}: holds")


@app.command()
def export(
    folder: Folder,
    to: Annotated[Path, Option(help="The file to write: .jsonl or .parquet.")],
    json: options.AsJson = False,
) -> None:
    """Write a bank as one JSONL or Parquet file with label, text and what else is known of each row."""
    from simdx.bank.exchange import export_bank

    rows = export_bank(folder, to)
    say(json, {"rows": rows, "file": str(to)}, f"{to}: {rows} rows")


@app.command()
def merge(
    folders: Annotated[list[Path], Argument(metavar="DIR…", help="Bank folders or files of one panel.")],
    panel: options.PanelName,
    out: Annotated[Path, Option(help="The bank folder to make.")],
    json: options.AsJson = False,
) -> None:
    """Join banks of one panel into a new one; a text that occurs twice under a label is taken once."""
    from simdx.bank.exchange import merge_banks
    from simdx.panels import load_panel

    manifest = merge_banks(folders, load_panel(panel), out)
    say(
        json,
        {key: manifest[key] for key in SHOWN},
        f"{out}: {sum(manifest['labels'].values())} descriptions, hash {manifest['hash']}",
    )


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
    from simdx.bank.stats import statistics_in_words

    others = background_count(folder, manifest)
    if json:
        shown = {key: manifest[key] for key in SHOWN}
        shown |= {"background": others, **(state or {})}
        print_json(shown if stats is None else {**shown, "stats": stats})
        return
    write_line(f"{folder}: bank for '{manifest['panel']}', {sum(manifest['labels'].values())} descriptions")
    for label, n in manifest["labels"].items():
        write_line(f"  {n:6}  {label}")
    write_line(f"  {'?' if others is None else others:>6}  (background)")
    for reason, n in manifest["rejected"].items():
        write_line(f"  {n:6}  rejected: {reason}")
    write_line(f"  hash {manifest['hash']}")
    if stats is not None:
        write_line(statistics_in_words(stats))
