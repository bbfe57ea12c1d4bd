"""`simdx bank`: ask, import, build and conditions make a bank; show, score, verify, export, merge use one."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typer import Argument, Option, Typer

from simdx import simulators
from simdx.bank import builder, plan
from simdx.bank.chat import Gathered, ask_server, gather, prompts, wanted
from simdx.bank.exchange import export_bank, merge_banks, read_descriptions
from simdx.bank.files import (
    BACKGROUND_FILE,
    BANK_FILE,
    background_count,
    name_bank,
    problems_of,
    read_bank,
    read_manifest,
    write_bank,
)  # fmt: skip
from simdx.bank.plan import outside, read_conditions
from simdx.bank.proposals import near_misses, undescribed
from simdx.bank.store import BuildLimits, BuildReport, estimate, failed_line
from simdx.cli import options
from simdx.cli.options import File, Told, verb
from simdx.cli.output import Progress, note
from simdx.disk import refuse_occupied, refuse_unwritable, write_atomically
from simdx.errors import BadInput, RunFailed, SimdxError
from simdx.panels import PACKAGED, load_panel, load_source
from simdx.types import NONE_OF_THESE, Panel

app = Typer()

SHOWN = ("panel", "labels", "rejected", "hash")  # of a manifest
LEAST_BACKGROUND = 20  # fewer texts are too few to estimate none of these
Folder = Annotated[Path, Argument(metavar="DIR", help="A bank folder.")]
TextsPerLabel = Annotated[int, Option(min=2, max=1000, help="Texts wanted per label.")]


# --------------------------------------------------------------------------- from a chat model, or a file


@verb(app)
def ask(
    panel: options.PanelName,
    out: Annotated[File, "File for the prompt; with --simulator, the bank folder."] = None,
    texts_per_label: TextsPerLabel = 25,
    simulator: Annotated[str | None, "Ask this model instead: openai:MODEL@URL."] = None,
) -> Told:
    """Write a prompt for any chat model; it holds label names and descriptions, no case text."""
    chosen = load_panel(panel)
    if simulator is not None:
        folder = out or _chat_folder(panel)
        with closing(simulators.get_simulator(simulator, allow_remote=True)) as running:  # labels are sent
            found = ask_server(chosen, running, folder, texts_per_label)
        return _gathered(panel, chosen, found, folder, texts_per_label, own=out is None)
    options.check_target(out, "--out")
    asked = prompts(chosen, wanted(chosen, texts_per_label))
    written = [] if out is None else _write_prompts(asked, out)
    several = f"{len(asked)} prompts to paste, one by one," if len(asked) > 1 else "a prompt to paste"
    note(f"{several} into any chat model; save each reply to a file, then: {_import_again(panel)}")
    for path in written:
        note(f"  {path}")
    shown = {"panel": chosen.name, "prompts": asked, "files": written}
    return shown, *([] if written else ["\n---- the next prompt ----\n".join(asked)])


def _import_again(panel: str) -> str:
    return f"simdx bank import {quote(panel)} reply.txt"


def _write_prompts(asked: list[str], out: Path) -> list[str]:
    paths = [out.with_stem(f"{out.stem}-{i}") if i > 1 else out for i in range(1, len(asked) + 1)]
    for path, prompt in zip(paths, asked, strict=True):
        write_atomically(path, prompt)
    return list(map(str, paths))


def _chat_folder(panel: str) -> Path:
    """The folder for replies to a panel file: next to it."""
    if panel in PACKAGED:
        raise BadInput(f"'{panel}' is packaged and has its banks: give --out for a bank of your own")
    folder, file = load_source(panel).folder, Path(panel)
    return folder / ("chat" if file.is_dir() or file.stem == "panel" else f"{file.stem}-chat")


@verb(app, "import")
def import_(
    panel_file: Annotated[str | None, Argument(metavar="[PANEL", help="A panel file.")] = None,
    replies: Annotated[
        list[Path] | None,
        Argument(metavar="REPLY…]", help="Replies of a chat model to 'bank ask'; - reads one here."),
    ] = None,
    panel: Annotated[str | None, "--panel", "With --from: a packaged panel or a file."] = None,
    source: Annotated[File, "--from", "A file (JSONL, CSV, Parquet) with label and text."] = None,
    out: Annotated[File, "The bank folder; default for replies: beside the panel."] = None,
    background: Annotated[File, "With --from: texts of none of the labels."] = None,
    texts_per_label: TextsPerLabel = 25,
    *,
    layout: options.ColumnOptions,
) -> Told:
    """Make a bank from replies of a chat model, or from texts you already have (--from).

    Each reply adds to the bank.
    """
    name = panel_file or panel
    if name is None:
        raise BadInput("say which panel: simdx bank import PANEL reply.txt")
    chosen = load_panel(name)
    if source is None:
        if not replies:
            raise BadInput("give the reply: simdx bank import PANEL reply.txt, or - to paste it here")
        folder = out or _chat_folder(name)
        found = gather(chosen, [_reply(path) for path in replies], folder, texts_per_label)
        return _gathered(name, chosen, found, folder, texts_per_label, own=out is None)
    if out is None:
        raise BadInput("--from needs --out: the bank folder to make")
    refuse_occupied(out)
    bank = read_descriptions(source, chosen, replace(layout.columns, id=None), background)
    return _report(out, write_bank(out, bank, chosen))


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


def _gathered(name: str, panel: Panel, found: Gathered, folder: Path, per_label: int, *, own: bool) -> Told:
    """Report the texts so far and what is missing, write the next prompt, name the bank in the panel."""
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
    return shown, *lines


# --------------------------------------------------------------------------- from a model, text by text


@dataclass(frozen=True)
class BuildOptions:
    """What a bank is to hold, and when a build stops."""

    per_label: Annotated[int, Option(min=1, help="Usable texts wanted per label.")]
    out: Annotated[Path, "The bank folder; an interrupted build there continues."]
    background: Annotated[int | None, Option(min=0, help="Texts of none of the labels.")] = None
    conditions: Annotated[File, "What --background describes, one per line."] = None
    temperature: Annotated[float, Option(min=0, max=2, help="Sampling temperature.")] = 0.8
    top_p: Annotated[float, Option(min=0, max=1, help="Nucleus sampling: kept mass.")] = 0.95
    max_new: Annotated[int | None, Option(min=1, help="Tokens per text; default: by register.")] = None
    seed: Annotated[int, Option(min=0, help="Starts the seed of every request.")] = 0
    max_requests: Annotated[int | None, Option(min=0, help="Stop after this number of requests.")] = None
    max_tokens: Annotated[int | None, Option(min=0, help="Stop after this number of tokens.")] = None
    least_yield: Annotated[float, Option(min=0, max=1, help="Stop below this usable share.")] = 0.1

    def settings(self, panel: Panel, voice: str, **more: Any) -> plan.BuildSettings:
        listed: tuple[str, ...] = ()
        if self.conditions is not None:
            if self.background == 0:
                raise BadInput("--conditions needs --background above 0")
            listed = read_conditions(self.conditions)
            described = outside(panel, listed)
            if not described:
                said = f"every condition of {self.conditions.name} names a label of the panel: give others"
                raise BadInput(said)
            if left_out := ", ".join(name for name in listed if name not in described)[:200]:
                note(f"left out, because they name a label of the panel: {left_out}")
            listed = described
        background = self.background
        if background is None:
            background = max(LEAST_BACKGROUND, self.per_label * len(panel.names) // 5)
        return plan.BuildSettings(
            per_label=self.per_label, background=background, temperature=self.temperature,
            top_p=self.top_p, max_tokens=self.max_new, seed=self.seed, voice=voice, conditions=listed,
            **more,
        )  # fmt: skip

    def limits(self, price_in: float | None = None, price_out: float | None = None) -> BuildLimits:
        return BuildLimits(self.max_requests, self.max_tokens, price_in, price_out, self.least_yield)


@verb(app)
def build(
    panel: options.PanelName,
    wanted: BuildOptions,
    simulator: Annotated[str, "NAME, FILE.gguf, openai:MODEL@URL or hf:NAME."] = "smollm2",
    facets: Annotated[bool, "Vary person, duration, severity and findings."] = True,
    voice: Annotated[str | None, "Wording: full or short; default: by model size."] = None,
    rehearsal: Annotated[int, Option(min=0, max=100, help="Texts per label to calibrate the bank on.")] = 4,
    timeout: Annotated[float | None, "Seconds a server has for one answer; default 300."] = None,
    price_in: Annotated[float | None, Option(min=0, help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[float | None, Option(min=0, help="Price of a million generated tokens.")] = None,
    dry_run: Annotated[bool, "--dry-run", "Estimate the requests; send none."] = False,
) -> Told:
    """Build a bank: ask a language model for the missing texts. It is safe to kill and to run again."""
    from simdx.upkeep import calibrate_panel, made_by, weaknesses

    chosen, out = load_panel(panel), wanted.out
    settings = wanted.settings(chosen, voice or plan.voice_for(simulator), facets=facets)
    limits = wanted.limits(price_in, price_out)
    if dry_run:
        identity = simulators.identity_of(simulator)
        builder.refuse_lesser(out, chosen, identity, settings)
        expected = estimate(chosen, identity, settings, out, limits)
        if not rehearsal:
            return asdict(expected), expected.describe()
        other, asked = builder.second_voice(chosen, settings, rehearsal)
        second = estimate(other, identity, asked, out / builder.FOLDER, limits)
        said = f"{expected.describe()}\nrehearsal: {second.describe()}"
        return {**asdict(expected), "rehearsal": asdict(second)}, said
    if timeout is not None and not simulator.startswith("openai:"):
        raise BadInput(f"--timeout is for servers (openai:MODEL@URL), not for '{simulator[:80]}'")
    silent = [label.name for label in undescribed(chosen)] if settings.voice == "short" else []
    if silent:  # a small model repeats the name, and these labels have nothing else
        raise BadInput(
            f"no description of {', '.join(silent)[:200]}: a small model needs one line each. Write them in "
            f"the panel file, or let a larger model propose: "
            f"simdx panel describe {panel} --simulator {plan.NEXT}"
        )
    refuse_unwritable(out)  # before a model is loaded
    builder.refuse_foreign(out, chosen)
    builder.refuse_lesser(out, chosen, simulators.identity_of(simulator), settings)
    # Only labels are sent; naming the server on the command line is the permission.
    given = {} if timeout is None else {"timeout": timeout}
    with closing(simulators.get_simulator(simulator, allow_remote=True, **given)) as running:
        note(f"{running.id}: {running.capabilities.describe()}")
        if settings.voice == "short":
            note(f"a very small model: {plan.weak_model_words(chosen, wanted.per_label)}")
        with Progress("usable", every=30) as bar:
            report = builder.build_bank(chosen, running, settings, out, limits, bar.built)
        writer = None
        if report.complete and rehearsal:
            most = builder.REHEARSAL_TRIES * rehearsal * len(chosen.names)
            note(f"texts to calibrate on: up to {most} further requests")
            with Progress("usable", every=30) as bar:
                writer = builder.write_rehearsal(
                    chosen, running, settings, rehearsal, out, bar.built, limits.after(report)
                )
            if writer is None:
                note("the model wrote too few texts in another voice: they are left out of the calibration")
    told = f"{out}: {report.describe()}"
    if not report.complete:
        return _as_json(chosen.name, report), told, failed_line(report, out)
    try:
        found = calibrate_panel(panel, bank=out, writer=writer)
    except SimdxError as problem:  # such as an embedder on another machine; the bank is kept
        note(f"the bank was not calibrated: {problem}")
        found = None
    weak = weaknesses(read_bank(out, chosen), made_by(out), None if found is None else found.calibration)
    said = f"this bank is weak: {'; '.join(weak)}. Next, try any chat model (simdx bank ask --panel {panel})"
    advice = f"{said}, or {plan.larger_than(running.id)}" if weak else None
    rehearsed, lines = (None, ()) if found is None else (found.to_json(), found.lines())
    more = {"rehearsal": rehearsed, "weak_because": weak, "advice": advice}
    return _as_json(chosen.name, report) | more, told, *lines, *([advice] if advice else [])


def _as_json(panel: str, report: BuildReport) -> dict[str, Any]:
    """The report under the names that the command line promises."""
    shown = asdict(report)
    shown |= {"labels": shown.pop("usable"), "requests": shown.pop("asked")}
    return {"panel": panel, "usable_share": report.usable_share, **shown}


@verb(app)
def conditions(
    panel: options.PanelName,
    simulator: Annotated[str | None, "The model that names near misses."] = None,
    per_label: Annotated[int | None, Option(min=1, max=100, help="Near misses per label; 20.")] = None,
    out: Annotated[File, "Write them to a file for 'bank build --conditions'."] = None,
) -> Told:
    """List conditions outside the panel for none of these: a broad list, or near misses named by a model."""
    chosen = load_panel(panel)
    if simulator is None and per_label is not None:
        raise BadInput("--per-label is for near misses: give the --simulator that shall name them")
    options.check_target(out, "--out")
    if out is not None and out.exists():
        raise BadInput(f"{out} exists already: nothing was written; choose another --out")
    if simulator is None:
        found, heading = {"": outside(chosen)}, "the broad list"
    else:
        with closing(simulators.get_simulator(simulator, allow_remote=True)) as running:  # labels are sent
            heading = f"named by {running.id}"
            with Progress("labels asked") as bar:
                found = dict(near_misses(chosen, running, per_label or 20, bar))
        if nothing := [label for label, group in found.items() if not group]:
            note(f"nothing new was named for: {', '.join(nothing)[:200]}")
    names = [name for group in found.values() for name in group]
    kind = "conditions" if chosen.is_clinical else "subjects"
    lines = [f"# {kind.capitalize()} outside the panel {chosen.name}, {heading}: read them before use."]
    for label, group in found.items():
        lines += [*([f"# taken for {label}"] if label else []), *group]
    if out is not None:
        write_atomically(out, "\n".join(lines) + "\n")
        lines = [f"{out}: {len(names)} {kind}"]
    by_label = {} if simulator is None else {"by_label": found}
    return {"panel": chosen.name, "source": heading, "conditions": names, **by_label}, *lines


# --------------------------------------------------------------------------- what a bank holds


@verb(app)
def show(
    folder: Folder,
    panel: Annotated[str | None, "The panel of the bank, unless it is packaged."] = None,
    picture: Annotated[File, "--map", "Write a 2-D map of the bank (SVG)."] = None,
    stats: Annotated[bool, "Lengths, diversity and nearest-label confusions."] = True,
    allow_remote: options.AllowRemote = False,
) -> Told:
    """Show counts, rejections and hash of a bank; lengths, diversity and confusions; and a map."""
    from simdx.bank.exchange import folder_statistics
    from simdx.report.page import bank_map

    manifest = read_manifest(folder)
    holds = not _problems(folder)
    if not holds:
        if picture is not None:
            raise BadInput(f"no map of bank '{folder.name}': 'simdx bank verify' finds it damaged")
        note(f"warning: 'simdx bank verify' finds bank '{folder.name}' damaged; its manifest says:")
    wanted = stats and holds  # no statistics of texts that failed verification
    found = folder_statistics(folder, manifest, panel, picture, bank_map, allow_remote) if wanted else None
    return _report(folder, manifest, found, holds=holds)


@verb(app)
def score(
    panel: options.PanelName,
    cases: Annotated[Path, "Cases without labels (JSONL, CSV, Parquet); labels are ignored."],
    chosen: options.PanelDataOptions,
    plot: Annotated[File, "Write a plot of the cases' typicality (SVG)."] = None,
    permutations: Annotated[int, Option(min=1, help="Permutations of the two-sample test.")] = 500,
    seed: Annotated[int, Option(min=0, help="Seed of the two-sample test.")] = 0,
    text_column: options.TextColumn = "text",
) -> Told:
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
    return {**about, **found.as_dict()}, in_words(found)


@verb(app)
def verify(folder: Folder) -> Told:
    """Check every hash and count of a bank (exit 1 if it is damaged)."""
    if not folder.is_dir():
        raise BadInput(f"no bank folder at '{folder}'")
    problems = _problems(folder)
    damaged = RunFailed(f"bank '{folder.name}' is damaged: {'; '.join(problems)}")
    return {"ok": not problems, "problems": problems}, damaged if problems else f"{folder}: verified"


@verb(app)
def export(
    folder: Folder,
    to: Annotated[Path, "The file to write: .jsonl or .parquet."],
) -> Told:
    """Write a bank as one JSONL or Parquet file with label, text and what else is known of each row."""
    rows = export_bank(folder, to)
    return {"rows": rows, "file": str(to)}, f"{to}: {rows} rows"


@verb(app)
def merge(
    folders: Annotated[list[Path], Argument(metavar="DIR…", help="Bank folders or files of one panel.")],
    panel: options.PanelName,
    out: Annotated[Path, "The bank folder to make."],
) -> Told:
    """Join banks of one panel into a new one; a text that occurs twice under a label is taken once."""
    manifest = merge_banks(folders, load_panel(panel), out)
    told = f"{out}: {sum(manifest['labels'].values())} texts, hash {manifest['hash']}"
    return {key: manifest[key] for key in SHOWN}, told


def _problems(folder: Path) -> list[str]:
    try:
        return list(problems_of(folder))
    except BadInput as error:  # a damaged or absent manifest: the bank is damaged
        return [str(error)]


def _report(
    folder: Path, manifest: dict[str, Any], stats: dict[str, Any] | None = None, **state: bool
) -> Told:
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
    return shown, *lines
