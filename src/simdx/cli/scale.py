"""`simdx scale classify|bank`: many cases on a cluster, one bank from many servers."""

import os
from dataclasses import asdict
from functools import partial
from typing import Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.bank_build import BuildOptions
from simdx.cli.output import Progress, note, say

app = Typer(help="Many cases on a machine or cluster; banks from servers.", no_args_is_help=True)


@app.command()
@options.spread
def classify(
    source: Annotated[str, Argument(metavar="INPUT", help="Parquet file or folder, local or s3://…")],
    output: Annotated[str, Argument(metavar="OUTPUT", help="Folder for Parquet; a killed run continues.")],
    *,
    panel: options.PanelName = "",
    text_column: options.TextColumn = "text",
    id_column: Annotated[str, Option(help="Column of the id; '' takes file and row number.")] = "id",
    chosen: options.MethodOptions,
    prior: options.PriorOptions,
    network: options.Network = None,
    top: Annotated[int | None, Option(min=1, help="Keep this many of the likeliest labels.")] = None,
    decide: Annotated[bool, Option(help="Also decision, alarm and conformal set (slower).")] = False,
    block_rows: Annotated[int, Option(min=1, help="Rows of a block; each block is one file.")] = 2048,
    address: Annotated[str | None, Option(help="A running Ray cluster: host:port or auto.")] = None,
    embedders: Annotated[int, Option(min=1, help="Ray actors that embed.")] = 1,
    engines: Annotated[int, Option(min=1, help="Ray actors that answer.")] = 1,
    cpus: Annotated[int | None, Option(min=1, help="Cores to use without --address.")] = None,
    gpus: Annotated[float, Option(min=0, help="GPUs each engine actor takes.")] = 0.0,
    embedder_gpus: Annotated[float, Option(min=0, help="GPUs each embedder actor takes.")] = 0.0,
    in_process: Annotated[bool, Option("--in-process", help="Use one process on this machine.")] = False,
    json: options.AsJson = False,
) -> None:
    """Classify every row of Parquet files. It is safe to kill and to run again: it continues."""
    from simdx.methods import Settings
    from simdx.panels import load_panel
    from simdx.scale.blocks import RowColumns
    from simdx.scale.classify import classify_parquet
    from simdx.scale.workers import InProcesses, Job, in_this_process

    settings = Settings.named_alike(chosen, network=network)
    job = Job.make(
        panel, chosen.bank, settings, embedder=chosen.embedder, prior=prior.over(load_panel(panel).names),
        top=top, decide=decide,
    )  # fmt: skip
    columns = RowColumns(text_column, id_column or None)
    cores = cpus or os.cpu_count() or 1
    with Progress("rows", every=10) as bar:
        run = partial(
            classify_parquet, job, source, output, columns=columns, block_rows=block_rows, watch=bar
        )
        if in_process:
            summary = run(in_this_process)
        elif address is None and not (gpus or embedder_gpus) and embedders == engines == 1:
            summary = run(InProcesses(cores) if cores > 1 else in_this_process)
        else:
            from simdx.scale.cluster import OnRay, connected

            share = 1.0 if address is not None else min(1.0, cores / (embedders + engines))
            with connected(address, cpus=cpus, allow_remote=chosen.allow_remote):
                summary = run(OnRay(embedders, engines, share, embedder_gpus, gpus))
    for failure in summary.failures:
        note(f"row '{failure['id']}': {failure['error']}")
    say(
        json,
        asdict(summary),
        f"{summary.output}: {summary.rows} rows, {summary.answered} answered, {summary.failed} failed, "
        f"{summary.blocks} blocks ({summary.blocks_before} from before) in {summary.seconds:.0f} s",
    )


@app.command("bank")
@options.spread
def bank_(
    panel: options.PanelName,
    endpoint: Annotated[
        list[str], Option(metavar="openai:MODEL@URL", help="A server of the model; repeatable.")
    ],
    wanted: BuildOptions,
    voice: Annotated[str, Option(help="Wording of the prompts: full or short.")] = "full",
    json: options.AsJson = False,
) -> None:
    """Build one bank with several OpenAI-compatible servers of one model, into one store."""
    from simdx.bank.builder import build_bank, refuse_foreign
    from simdx.bank.store import failed_line
    from simdx.panels import load_panel
    from simdx.simulators import open_endpoints

    loaded, out = load_panel(panel), wanted.out
    settings, left_out = wanted.settings(loaded, voice)
    if left_out:
        note(left_out)
    refuse_foreign(out, loaded)
    servers = open_endpoints(endpoint)
    try:
        report = build_bank(loaded, servers, settings, out, wanted.limits())
    finally:
        servers.close()
    shares = servers.report()
    state = "complete" if report.complete else "not complete"
    say(
        json,
        {"panel": loaded.name, **asdict(report), "endpoints": shares},
        f"{out}: {state}, {sum(report.usable.values())} of {sum(report.wanted.values())} usable",
        *("  {answered:6} answered, {failed} failed  {server}".format(**share) for share in shares),
    )
    if not report.complete:
        raise failed_line(report, out)
