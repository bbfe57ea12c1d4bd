"""`simdx bank ask|import|show|score|verify|export|merge`, and build and conditions from their own module."""

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typer import Argument, Option, Typer

from simdx import simulators
from simdx.bank.chat import Gathered, ask_server, gather, prompts, wanted
from simdx.bank.exchange import export_bank, merge_banks, read_descriptions
from simdx.bank.files import (
    BACKGROUND_FILE,
    BANK_FILE,
    background_count,
    name_bank,
    problems_of,
    read_manifest,
    write_bank,
)
from simdx.cli import bank_build, options
from simdx.cli.options import File
from simdx.cli.output import note, say
from simdx.disk import refuse_occupied, write_atomically
from simdx.errors import BadInput, RunFailed
from simdx.panels import PACKAGED, load_panel, load_source
from simdx.types import NONE_OF_THESE, Panel

app = Typer()
app.command()(bank_build.build)
app.command()(bank_build.conditions)

SHOWN = ("panel", "labels", "rejected", "hash")  # of a manifest
Folder = Annotated[Path, Argument(metavar="DIR", help="A bank folder.")]
TextsPerLabel = Annotated[int, Option(min=2, max=1000, help="Texts wanted per label.")]


@app.command()
def ask(
    panel: options.PanelName,
    out: Annotated[File, Option(help="File for the prompt; with --simulator, the bank folder.")] = None,
    texts_per_label: TextsPerLabel = 25,
    simulator: Annotated[str | None, Option(help="Ask this model instead: openai:MODEL@URL.")] = None,
    json: options.AsJson = False,
) -> None:
    """Write a prompt for any chat model; it holds label names and descriptions, no case text."""
    chosen = load_panel(panel)
    if simulator is not None:
        folder = out or _chat_folder(panel)
        with closing(simulators.get_simulator(simulator, allow_remote=True)) as running:  # labels are sent
            found = ask_server(chosen, running, folder, texts_per_label)
        _tell_gathered(panel, chosen, found, folder, texts_per_label, json, own=out is None)
        return
    options.check_target(out, "--out")
    asked = prompts(chosen, wanted(chosen, texts_per_label))
    written = [] if out is None else _write_prompts(asked, out)
    shown = {"panel": chosen.name, "prompts": asked, "files": written}
    say(json, shown, *([] if written else ["\n---- the next prompt ----\n".join(asked)]))
    several = f"{len(asked)} prompts to paste, one by one," if len(asked) > 1 else "a prompt to paste"
    note(f"{several} into any chat model; save each reply to a file, then: {_import_again(panel)}")
    for path in written:
        note(f"  {path}")


def _import_again(panel: str) -> str:
    return f"simdx bank import {quote(panel)} reply.txt"


def _write_prompts(asked: list[str], out: Path) -> list[str]:
    paths = [out.with_stem(f"{out.stem}-{i}") if i > 1 else out for i in range(1, len(asked) + 1)]
    for path, prompt in zip(paths, asked, strict=True):
        write_atomically(path, prompt)
    return list(map(str, paths))


def _chat_folder(panel: str) -> Path:
    """Where replies for a panel file gather: beside it."""
    if panel in PACKAGED:
        raise BadInput(f"'{panel}' is packaged and has its banks: give --out for a bank of your own")
    folder, file = load_source(panel).folder, Path(panel)
    return folder / ("chat" if file.is_dir() or file.stem == "panel" else f"{file.stem}-chat")


@app.command("import")
@options.spread
def import_(
    panel_file: Annotated[str | None, Argument(metavar="[PANEL", help="A panel file.")] = None,
    replies: Annotated[
        list[Path] | None,
        Argument(metavar="REPLY…]", help="Replies of a chat model to 'bank ask'; - reads one here."),
    ] = None,
    panel: Annotated[str | None, Option("--panel", help="With --from: a packaged panel or a file.")] = None,
    source: Annotated[
        File, Option("--from", help="A file (JSONL, CSV, Parquet) with label and text.")
    ] = None,
    out: Annotated[File, Option(help="The bank folder; default for replies: beside the panel.")] = None,
    background: Annotated[File, Option(help="With --from: texts of none of the labels.")] = None,
    texts_per_label: TextsPerLabel = 25,
    *,
    layout: options.ColumnOptions,
    json: options.AsJson = False,
) -> None:
    """Make a bank of a chat model's replies, which add up, or of descriptions you already have (--from)."""
    name = panel_file or panel
    if name is None:
        raise BadInput("say which panel: simdx bank import PANEL reply.txt")
    chosen = load_panel(name)
    if source is None:
        if not replies:
            raise BadInput("give the reply: simdx bank import PANEL reply.txt, or - to paste it here")
        folder = out or _chat_folder(name)
        found = gather(chosen, [_reply(path) for path in replies], folder, texts_per_label)
        _tell_gathered(name, chosen, found, folder, texts_per_label, json, own=out is None)
        return
    if out is None:
        raise BadInput("--from needs --out: the bank folder to make")
    refuse_occupied(out)
    bank = read_descriptions(source, chosen, replace(layout.columns, id=None), background)
    _report(out, write_bank(out, bank, chosen), json)


def _reply(path: Path) -> str:
    if str(path) == "-":
        if sys.stdin.isatty():
            note("paste the reply, then press Enter and Ctrl-D")
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text: save the reply as plain text") from None
    except OSError as error:
        raise BadInput(f"the reply {path} cannot be read: {error.strerror}") from None


def _tell_gathered(
    name: str, panel: Panel, found: Gathered, folder: Path, per_label: int, json: bool, *, own: bool
) -> None:
    """Say what has come together and what is missing, write the next prompt, name the bank in the panel."""
    following = folder / "next-prompt.txt"
    following.unlink(missing_ok=True)
    written = _write_prompts(prompts(panel, found.missing)[:1], following)
    place = Path(name) / "panel.yaml" if Path(name).is_dir() else Path(name)
    others = f"{folder.name}/{BACKGROUND_FILE}" if found.background else None
    named = own and found.usable and name_bank(place, f"{folder.name}/{BANK_FILE}", others)
    labels, n = {label: len(texts) for label, texts in found.texts.items()}, len(found.background)
    elsewhere = quote(str(folder))
    ask = f"simdx classify TEXT --panel {quote(name)}" + ("" if named else f" --bank {elsewhere}")
    again = _import_again(name) + ("" if own else f" --out {elsewhere}")
    lines = [f"{folder}: {sum(labels.values())} texts of labels, {n} of none of these"]
    lines += [f"  {n:4} of {max(n, per_label):<4} {label}" for label, n in labels.items()]
    lines.append(f"  {n:4} of {n + found.missing.get(NONE_OF_THESE, 0):<4} ({NONE_OF_THESE})")
    lines += [f"  {n:4} rejected: {reason}" for reason, n in found.rejected.items()]
    if found.unknown:
        lines.append(f"  skipped, not a label of the panel: {', '.join(found.unknown)[:200]}")
    if found.missing:
        missing = ", ".join(f"{n} {topic}" for topic, n in found.missing.items())[:400]
        lines += [f"still missing: {missing}", f"the next prompt is in {following}; then: {again}"]
    none = "there is no bank yet: every label needs at least two texts"
    lines.append(f"the bank can be used: {ask}" if found.usable else none)
    shown = {
        "panel": panel.name, "labels": labels, "background": n, "rejected": dict(found.rejected),
        "missing": dict(found.missing), "unknown": dict(found.unknown),
        "hash": read_manifest(folder)["hash"] if found.usable else None,
        "bank": str(folder) if found.usable else None, "next_prompt": written[0] if written else None,
    }  # fmt: skip
    say(json, shown, *lines)


@app.command()
def show(
    folder: Folder,
    panel: Annotated[str | None, Option(help="The panel of the bank, unless it is packaged.")] = None,
    picture: Annotated[File, Option("--map", help="Write a 2-D map of the bank (SVG).")] = None,
    stats: Annotated[bool, Option(help="Lengths, diversity and nearest-label confusions.")] = True,
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """Show counts, rejections and hash of a bank; lengths, diversity and confusions; and a map."""
    from simdx.bank.exchange import folder_statistics
    from simdx.report.page import bank_map

    manifest = read_manifest(folder)
    holds = not _problems(folder)
    if not holds:
        if picture is not None:
            raise BadInput(f"no map of bank '{folder.name}': 'simdx bank verify' finds it damaged")
        note(f"warning: 'simdx bank verify' finds bank '{folder.name}' damaged; its manifest says:")
    wanted = stats and holds  # nothing is said of texts that nothing vouches for
    found = folder_statistics(folder, manifest, panel, picture, bank_map, allow_remote) if wanted else None
    _report(folder, manifest, json, found, holds=holds)


@app.command()
@options.spread
def score(
    panel: options.PanelName,
    cases: Annotated[Path, Option(help="Cases without labels (JSONL, CSV, Parquet); labels are ignored.")],
    chosen: options.PanelDataOptions,
    plot: Annotated[File, Option(help="Write a plot of the cases' typicality (SVG).")] = None,
    permutations: Annotated[int, Option(min=1, help="Permutations of the two-sample test.")] = 500,
    seed: Annotated[int, Option(min=0, help="Seed of the two-sample test.")] = 0,
    text_column: options.TextColumn = "text",
    json: options.AsJson = False,
) -> None:
    """Score a bank for these cases by their texts alone: likeness, coverage, agreement, fidelity."""
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
    say(json, {"ok": not problems, "problems": problems}, *([] if problems else [f"{folder}: verified"]))
    if problems:
        raise RunFailed(f"bank '{folder.name}' is damaged: {'; '.join(problems)}")


@app.command()
def export(
    folder: Folder,
    to: Annotated[Path, Option(help="The file to write: .jsonl or .parquet.")],
    json: options.AsJson = False,
) -> None:
    """Write a bank as one JSONL or Parquet file with label, text and what else is known of each row."""
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
    manifest = merge_banks(folders, load_panel(panel), out)
    told = f"{out}: {sum(manifest['labels'].values())} texts, hash {manifest['hash']}"
    say(json, {key: manifest[key] for key in SHOWN}, told)


def _problems(folder: Path) -> list[str]:
    try:
        return list(problems_of(folder))
    except BadInput as error:  # a damaged or absent manifest is a bank that does not hold
        return [str(error)]


def _report(
    folder: Path, manifest: dict[str, Any], json: bool, stats: dict[str, Any] | None = None, **state: bool
) -> None:
    from simdx.bank.exchange import statistics_in_words

    others = background_count(folder, manifest)
    lines = [f"{folder}: bank for '{manifest['panel']}', {sum(manifest['labels'].values())} texts"]
    lines += [f"  {n:6}  {label}" for label, n in manifest["labels"].items()]
    lines.append(f"  {'?' if others is None else others:>6}  (background)")
    lines += [f"  {n:6}  rejected: {reason}" for reason, n in manifest["rejected"].items()]
    lines.append(f"  hash {manifest['hash']}")
    shown = {key: manifest[key] for key in SHOWN} | {"background": others, **state}
    if stats is not None:
        shown["stats"] = stats
        lines.append(statistics_in_words(stats))
    say(json, shown, *lines)
