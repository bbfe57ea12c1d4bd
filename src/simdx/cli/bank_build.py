"""`simdx bank build|export|merge`: making banks. Plain functions; `cli.bank` gives them their names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdx.cli import options
from simdx.cli.output import note, print_json
from simdx.cli.progress import CasesBar, building
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.bank.builder import BuildReport
    from simdx.types import Panel


def build(
    panel: options.PanelName,
    per_label: options.PerLabel,
    out: options.BankFolder,
    simulator: Annotated[
        str,
        typer.Option(help="smollm2, another named model, FILE.gguf, openai:MODEL@URL, hf:NAME, scripted."),
    ] = "smollm2",
    background: options.Background = 0,
    conditions: options.Conditions = None,
    temperature: options.Temperature = 0.8,
    top_p: options.TopP = 0.95,
    max_new: options.MaxNew = None,
    seed: options.BuildSeed = 0,
    facets: Annotated[bool, typer.Option(help="Vary who, how long, how severe, which finding.")] = True,
    voice: Annotated[
        str | None, typer.Option(help="full or short wording; default by the model's size.")
    ] = None,
    max_requests: options.MaxRequests = None,
    max_tokens: options.MaxTokens = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds a server has for one answer; default: SIMDX_TIMEOUT, else 300."),
    ] = None,
    price_in: Annotated[float | None, typer.Option(min=0, help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[
        float | None, typer.Option(min=0, help="Price of a million generated tokens.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, ask nothing.")] = False,
    json: options.AsJson = False,
) -> None:
    """Ask a language model for what is missing; safe to kill and to run again."""
    from dataclasses import asdict

    from simdx.bank.builder import Limits, build_bank, failed_line, refuse_foreign
    from simdx.bank.estimate import estimate
    from simdx.bank.plan import BuildSettings
    from simdx.bank.successor import refuse_lesser
    from simdx.bank.voice import voice_for
    from simdx.disk import refuse_unwritable
    from simdx.panels import load_panel
    from simdx.simulators import get_simulator, identity_of

    chosen = load_panel(panel)
    described, left_out = read_described(conditions, background, chosen)
    settings = BuildSettings(
        per_label=per_label,
        background=background,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_new,
        seed=seed,
        facets=facets,
        voice=voice or voice_for(simulator),
        conditions=described,
    )
    limits = Limits(max_requests, max_tokens, price_in, price_out)
    if dry_run:
        refuse_lesser(out, chosen, identity_of(simulator), settings)
        expected = estimate(chosen, identity_of(simulator), settings, out, limits)
        if json:
            print_json(asdict(expected))
        else:
            print(expected.describe())
        return
    if timeout is not None and not simulator.startswith("openai:"):
        raise BadInput(f"--timeout is for servers (openai:MODEL@URL), not for '{simulator[:80]}'")
    note_left_out(left_out)
    refuse_unwritable(out)  # all before a model is loaded for nothing
    refuse_foreign(out, chosen)
    refuse_lesser(out, chosen, identity_of(simulator), settings)
    # Labels alone are sent, to a server that the command line names: naming it is the permission.
    running = get_simulator(simulator, allow_remote=True, **({} if timeout is None else {"timeout": timeout}))
    try:
        note(f"{running.id}: {running.capabilities.describe()}")
        with building() as watch:
            report = build_bank(chosen, running, settings, out, limits, watch)
    finally:
        running.close()
    if json:
        print_json(_as_json(chosen.name, report))
    else:
        print(_as_words(out, report))
    if not report.complete:
        raise failed_line(report, out)


def read_described(
    path: Path | None, background: int, panel: Panel
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The conditions a background shall describe (none: the broad list), and those left out."""
    from simdx.bank.conditions import outside, read_conditions

    if path is None:
        return (), ()
    if not background:
        raise BadInput("--conditions says what --background describes: give --background N as well")
    listed = read_conditions(path)
    others = outside(panel, listed)
    if not others:
        raise BadInput(f"every condition of {path.name} names a label of the panel: give others")
    return others, tuple(name for name in listed if name not in others)


def note_left_out(names: tuple[str, ...]) -> None:
    if names:
        note(f"left out, since they name a label of the panel: {', '.join(names)[:200]}")


def conditions(
    panel: options.PanelName,
    simulator: Annotated[
        str | None, typer.Option(help="The model that names near misses; default: the broad list.")
    ] = None,
    per_label: Annotated[
        int | None, typer.Option(min=1, max=100, help="Near misses wanted per label; default: 20.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write them to a file for 'bank build --conditions'.")
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Conditions outside the panel for 'none of these': a broad list, or near misses that a model names."""
    from simdx.bank.conditions import outside
    from simdx.bank.files import write_atomically
    from simdx.bank.neighbours import neighbours
    from simdx.panels import load_panel
    from simdx.simulators import get_simulator

    chosen = load_panel(panel)
    if simulator is None and per_label is not None:
        raise BadInput("--per-label is for near misses: give the --simulator that shall name them")
    if out is not None:
        options.check_target(out, "--out")
        if out.exists():
            raise BadInput(f"{out} exists: choose another --out, nothing was written")
    found: dict[str, tuple[str, ...]]
    if simulator is None:
        found, heading = {"": outside(chosen)}, "the broad list"
    else:
        running = get_simulator(simulator, allow_remote=True)  # labels alone are sent
        try:
            with CasesBar(None, "lists") as bar:
                found = dict(neighbours(chosen, running, per_label or 20, bar))
            heading = f"named by {running.id}"
        finally:
            running.close()
        if nothing := [label for label, group in found.items() if not group]:
            note(f"nothing new was named for: {', '.join(nothing)[:200]}")
    names = [name for group in found.values() for name in group]
    lines = [f"# Conditions outside the panel {chosen.name}, {heading}: read them before use."]
    for label, group in found.items():
        lines += [f"# taken for {label}"] if label else []
        lines += group
    if out is not None:
        write_atomically(out, ("\n".join(lines) + "\n").encode())
    if json:
        by_label = {"by_label": found} if simulator is not None else {}
        print_json({"panel": chosen.name, "source": heading, "conditions": names, **by_label})
    elif out is not None:
        print(f"{out}: {len(names)} conditions")
    else:
        print("\n".join(lines))


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A bank folder.")],
    to: Annotated[Path, typer.Option(help="The file to write: .jsonl or .parquet.")],
    json: options.AsJson = False,
) -> None:
    """Write a bank as one JSONL or Parquet file with label, text and what else is known of each row."""
    from simdx.bank.exchange import export_bank

    rows = export_bank(folder, to)
    if json:
        print_json({"rows": rows, "file": str(to)})
    else:
        print(f"{to}: {rows} rows")


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Bank folders or files of one panel.")
    ],
    panel: options.PanelName,
    out: Annotated[Path, typer.Option(help="The bank folder to make.")],
    json: options.AsJson = False,
) -> None:
    """Join banks of one panel into a new one; a text that occurs twice under a label is taken once."""
    from simdx.bank.exchange import merge_banks
    from simdx.panels import load_panel

    manifest = merge_banks(folders, load_panel(panel), out)
    if json:
        print_json({key: manifest[key] for key in ("panel", "labels", "rejected", "hash")})
    else:
        print(f"{out}: {sum(manifest['labels'].values())} descriptions, hash {manifest['hash']}")


def _as_json(panel: str, report: BuildReport) -> dict[str, Any]:
    return {
        "panel": panel,
        "complete": report.complete,
        "labels": dict(report.usable),
        "wanted": dict(report.wanted),
        "rejected": dict(report.rejected),
        "answers": report.answers,
        "usable_share": report.usable_share,
        "requests": report.asked,
        "failed": report.failed,
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.completion_tokens,
        "seconds": report.seconds,
        "cost": report.cost,
        "stopped": report.stopped,
        "hash": report.hash,
    }


def _as_words(out: Path, report: BuildReport) -> str:
    lines = [f"{out}: {'complete' if report.complete else 'not complete'}"]
    lines += [f"  {n:6} of {report.wanted[label]}  {label}" for label, n in report.usable.items()]
    lines.append(f"  {report.answers} texts in all, {sum(report.rejected.values())} rejected")
    lines += [f"  {n:6}  rejected: {reason}" for reason, n in report.rejected.items()]
    speed = report.completion_tokens / report.seconds if report.seconds else 0.0
    lines.append(
        f"  this run: {report.asked} requests, {report.failed} failed, "
        f"{report.prompt_tokens}+{report.completion_tokens} tokens in {report.seconds:.0f} s ({speed:.0f}/s)"
        + (f", cost {report.cost:.4f}" if report.cost is not None else "")
    )
    return "\n".join(lines)


# --------------------------------------------------------------------------- what `bank show` adds


def statistics(
    folder: Path,
    manifest: dict[str, Any],
    panel: str | None,
    picture: Path | None,
    allow_remote: bool = False,
) -> dict[str, Any] | None:
    """Statistics of a bank folder, and its map where one is wanted; None where the panel is not known."""
    from simdx.bank.files import read_bank
    from simdx.bank.stats import describe_bank
    from simdx.embedders import embed_cached, get_embedder
    from simdx.panels import load_panel
    from simdx.panels.load import PACKAGED

    name = panel or (manifest["panel"] if manifest["panel"] in PACKAGED else None)
    if name is None:
        if picture is not None:
            raise BadInput(f"give --panel: '{manifest['panel']}' is not a packaged panel")
        return None
    chosen = load_panel(name)
    if chosen.hash != manifest["panel_hash"]:
        raise BadInput(f"bank '{folder.name}' was made for another panel than '{name}'")
    bank = read_bank(folder, chosen)
    embedder = get_embedder(chosen.embedder, allow_remote=allow_remote)
    vectors = embed_cached(embedder, bank.texts)
    if picture is not None:
        if picture.suffix.lower() != ".svg":
            raise BadInput(f"'{picture.name}' does not end in .svg")
        import numpy as np

        from simdx.disk import write_atomically
        from simdx.report.plots import bank_map

        others = embed_cached(embedder, bank.background) if bank.background else vectors[:0]
        write_atomically(picture, bank_map(bank, np.concatenate([vectors, others])))
    return describe_bank(bank, vectors)


def statistics_in_words(stats: dict[str, Any]) -> str:
    lines = [
        "  words (median), distinct word pairs, mean cosine inside, and texts nearest to their own label:"
    ]
    for label, s in stats["labels"].items():
        own = stats["confusion"][label][label]
        cosine = "–" if s["mean_cosine"] is None else f"{s['mean_cosine']:.2f}"
        pairs = "–" if s["distinct_bigrams"] is None else f"{s['distinct_bigrams']:.2f}"
        rest = {k: v for k, v in stats["confusion"][label].items() if k != label}
        worst = max(rest, key=lambda k: rest[k])
        near = f"; {rest[worst]:.0%} nearest to '{worst}'" if rest[worst] > 0 else ""
        lines.append(f"  {s['words']['median']:6.0f}  {pairs}  {cosine}  {own:5.0%}  {label}{near}")
    return "\n".join(lines)
