"""`simdx scale classify|bank`: many cases on a cluster, one bank from many servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer

from simdx.cli import options
from simdx.cli.output import note, print_json

app = typer.Typer(
    help="Many cases on one machine or a cluster; banks from many servers.", no_args_is_help=True
)


@app.command()
def classify(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Parquet file or folder, local or s3://…")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Folder for Parquet parts; goes on there.")],
    panel: options.PanelName = "oral-lesions",
    text_column: options.TextColumn = "text",
    id_column: Annotated[str, typer.Option(help="Column of the id; '' gives file and row number.")] = "id",
    bank: options.BankPath = None,
    method: options.Method = "auto",
    engine: options.Engine = "exact",
    kernel: options.Kernel = None,
    populations: options.Populations = 5,
    prior: options.PriorOption = None,
    prior_counts: options.PriorCounts = None,
    odds: options.Odds = None,
    embedder: options.Embedder = None,
    network: options.Network = None,
    allow_remote: options.AllowRemote = False,
    device: options.Device = "cpu",
    seed: options.Seed = 0,
    top: Annotated[int | None, typer.Option(min=1, help="Keep the likeliest labels only.")] = None,
    decide: Annotated[bool, typer.Option(help="Also action, alarm and conformal set (slower).")] = False,
    block_rows: Annotated[int, typer.Option(min=1, help="Rows worked on together, one file each.")] = 2048,
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster (host:port or auto); default: this machine.")
    ] = None,
    embedders: Annotated[int, typer.Option(min=1, help="Actors that embed.")] = 1,
    engines: Annotated[int, typer.Option(min=1, help="Actors that answer.")] = 1,
    cpus: Annotated[int | None, typer.Option(min=1, help="Cores to use without --address.")] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs each engine actor takes.")] = 0.0,
    embedder_gpus: Annotated[float, typer.Option(min=0, help="GPUs each embedder actor takes.")] = 0.0,
    in_process: Annotated[bool, typer.Option("--in-process", help="No Ray: one process, here.")] = False,
    json: options.AsJson = False,
) -> None:
    """Answer every row of Parquet files. Safe to kill and to run again: it goes on where it was."""
    from simdx.methods import Settings
    from simdx.panels import load_panel
    from simdx.scale.blocks import RowColumns
    from simdx.scale.classify import JobSummary, classify_parquet, in_this_process
    from simdx.scale.job import Job

    settings = Settings(
        method=method, engine=engine, kernel=cast(Any, kernel), populations=populations,
        network=network, allow_remote=allow_remote, device=device, seed=seed,
    )  # fmt: skip
    chosen = options.make_prior(load_panel(panel).names, prior, prior_counts, odds)
    job = Job.make(panel, bank, settings, embedder=embedder, prior=chosen, top=top, decide=decide)
    columns = RowColumns(text_column, id_column or None)
    watch = _watch()
    summary: JobSummary
    if in_process:
        summary = classify_parquet(
            job, source, output, in_this_process, columns=columns, block_rows=block_rows, watch=watch
        )
    else:
        from simdx.scale.cluster import OnRay, Pools, connected

        pools = Pools(embedders, engines, engine_gpus=gpus, embedder_gpus=embedder_gpus)
        with connected(address, cpus=cpus, allow_remote=allow_remote):
            summary = classify_parquet(
                job, source, output, OnRay(pools), columns=columns, block_rows=block_rows, watch=watch
            )
    for failure in summary.failures:
        note(f"row '{failure.id}': {failure.error}")
    if json:
        print_json(summary.to_json())
        return
    print(
        f"{summary.output}: {summary.rows} rows, {summary.answered} answered, {summary.failed} failed, "
        f"{summary.blocks} blocks ({summary.blocks_before} from before) in {summary.seconds:.0f} s"
    )


@app.command("bank")
def bank_(
    panel: options.PanelName,
    endpoint: Annotated[
        list[str], typer.Option(metavar="openai:MODEL@URL", help="A server of the model; repeat for more.")
    ],
    per_label: options.PerLabel,
    out: options.BankFolder,
    background: options.Background = 0,
    conditions: options.Conditions = None,
    temperature: options.Temperature = 0.8,
    top_p: options.TopP = 0.95,
    max_new: options.MaxNew = None,
    seed: options.BuildSeed = 0,
    voice: Annotated[str, typer.Option(help="full or short wording.")] = "full",
    max_requests: options.MaxRequests = None,
    max_tokens: options.MaxTokens = None,
    json: options.AsJson = False,
) -> None:
    """Build one bank with several OpenAI-compatible servers of one model, into one store."""
    from dataclasses import asdict

    from simdx.bank.builder import BuildLimits, build_bank, failed_line, refuse_foreign
    from simdx.bank.plan import BuildSettings
    from simdx.cli.bank_build import note_left_out, read_described
    from simdx.panels import load_panel
    from simdx.scale.endpoints import open_endpoints

    chosen = load_panel(panel)
    described, left_out = read_described(conditions, background, chosen)
    note_left_out(left_out)
    settings = BuildSettings(
        per_label=per_label, background=background, temperature=temperature, top_p=top_p,
        max_tokens=max_new, seed=seed, voice=voice, conditions=described,
    )  # fmt: skip
    refuse_foreign(out, chosen)
    servers = open_endpoints(endpoint)
    try:
        report = build_bank(chosen, servers, settings, out, BuildLimits(max_requests, max_tokens))
    finally:
        servers.close()
    shares = servers.report()
    if json:
        print_json({"panel": chosen.name, **asdict(report), "endpoints": [asdict(s) for s in shares]})
    else:
        state = "complete" if report.complete else "not complete"
        print(f"{out}: {state}, {sum(report.usable.values())} of {sum(report.wanted.values())} usable")
        for share in shares:
            print(f"  {share.answered:6} answered, {share.failed} failed  {share.server}")
    if not report.complete:
        raise failed_line(report, out)


def _watch(every: float = 10.0) -> Callable[[int, int], None]:
    """A line of progress now and then, on stderr."""
    last = [time.monotonic()]

    def watch(done: int, total: int) -> None:
        if time.monotonic() - last[0] >= every:
            last[0] = time.monotonic()
            print(f"{done} of {total} rows", file=sys.stderr)

    return watch
