"""`simdx scale classify|bank`: many cases on a cluster, one bank from many servers;
`simdx bench answers|engines|bank|abi|service`: speed here; `simdx validate transfer`: other panels."""

import importlib
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.bank import BuildOptions
from simdx.cli.options import File, Many, Told, verb
from simdx.cli.output import Progress, note
from simdx.errors import BadInput

app = Typer()


@verb(app)
def classify(
    source: Annotated[str, Argument(metavar="INPUT", help="Parquet file or folder, local or s3://…")],
    output: Annotated[str, Argument(metavar="OUTPUT", help="Folder for Parquet; a killed run continues.")],
    *,
    panel: options.PanelName = "",
    text_column: options.TextColumn = "text",
    id_column: Annotated[str, "Column of the id; '' takes file and row number."] = "id",
    chosen: options.MethodOptions,
    prior: options.PriorOptions,
    network: options.Network = None,
    top: Annotated[int | None, Option(min=1, help="Keep this many of the likeliest labels.")] = None,
    decide: Annotated[bool, "Also decision, alarm and conformal set (slower)."] = False,
    block_rows: Annotated[int, Option(min=1, help="Rows of a block; each block is one file.")] = 2048,
    address: Annotated[str | None, "A running Ray cluster: host:port or auto."] = None,
    embedders: Annotated[int, Option(min=1, help="Ray actors that embed.")] = 1,
    engines: Annotated[int, Option(min=1, help="Ray actors that answer.")] = 1,
    cpus: Annotated[int | None, Option(min=1, help="Cores to use without --address.")] = None,
    gpus: Annotated[float, Option(min=0, help="GPUs each engine actor takes.")] = 0.0,
    embedder_gpus: Annotated[float, Option(min=0, help="GPUs each embedder actor takes.")] = 0.0,
    in_process: Annotated[bool, "--in-process", "Use one process on this machine."] = False,
) -> Told:
    """Classify every row of Parquet files. It is safe to kill and to run again: it continues."""
    from simdx.methods import Settings
    from simdx.panels import load_panel
    from simdx.scale.blocks import ParquetSource
    from simdx.scale.classify import Job, classify_parquet
    from simdx.scale.cluster import InProcesses, OnRay, connected, in_this_process

    settings = Settings.named_alike(chosen, network=network)
    job = Job.make(
        panel, chosen.bank, settings, embedder=chosen.embedder, prior=prior.over(load_panel(panel).names),
        top=top, decide=decide,
    )  # fmt: skip
    cores, rows = cpus or os.cpu_count() or 1, ParquetSource(source, text_column, id_column or None)
    here = address is None and not (gpus or embedder_gpus) and embedders == engines == 1
    with Progress("rows", every=10) as bar:
        if in_process or here:
            execute = InProcesses(cores) if cores > 1 and not in_process else in_this_process
            summary = classify_parquet(job, rows, output, execute, block_rows=block_rows, watch=bar)
        else:
            share = 1.0 if address is not None else min(1.0, cores / (embedders + engines))
            on_ray = OnRay(embedders, engines, share, embedder_gpus, gpus)
            with connected(address, cpus=cpus, allow_remote=chosen.allow_remote):
                summary = classify_parquet(job, rows, output, on_ray, block_rows=block_rows, watch=bar)
    for failure in summary.failures:
        note(f"row '{failure['id']}': {failure['error']}")
    return asdict(summary), (
        f"{summary.output}: {summary.rows} rows, {summary.answered} answered, {summary.failed} failed, "
        f"{summary.blocks} blocks ({summary.blocks_before} from before) in {summary.seconds:.0f} s"
    )


@verb(app)
def bank(
    panel: options.PanelName,
    endpoint: Annotated[
        list[str], Option(metavar="openai:MODEL@URL", help="A server of the model; repeatable.")
    ],
    wanted: BuildOptions,
    voice: Annotated[str, "Wording of the prompts: full or short."] = "full",
) -> Told:
    """Build one bank with several OpenAI-compatible servers of one model, into one store."""
    from simdx.bank.builder import build_bank, refuse_foreign
    from simdx.bank.store import failed_line
    from simdx.panels import load_panel
    from simdx.simulators import open_endpoints

    loaded, out = load_panel(panel), wanted.out
    settings = wanted.settings(loaded, voice)
    refuse_foreign(out, loaded)
    with closing(open_endpoints(endpoint)) as servers:
        report = build_bank(loaded, servers, settings, out, wanted.limits())
    shares = servers.report()
    state = "complete" if report.complete else "not complete"
    return (
        {"panel": loaded.name, **asdict(report), "endpoints": shares},
        f"{out}: {state}, {sum(report.usable.values())} of {sum(report.wanted.values())} usable",
        *("  {answered:6} answered, {failed} failed  {server}".format(**share) for share in shares),
        *([] if report.complete else [failed_line(report, out)]),
    )


# --------------------------------------------------------------------------- simdx bench

bench = Typer()


@verb(bench)
def answers(
    panel: options.PanelName = "oral-lesions",
    short: Annotated[int, Option(min=1, help="Short texts in the batch.")] = 10_000,
    long: Annotated[int, Option(min=1, help="Long ones.")] = 1_000,
) -> Told:
    """Time from text to answer: cold, warm, in batches; with scikit-learn and MiniLM for comparison."""
    from simdx.panels import load_panel

    load_panel(panel)  # an unknown panel is refused here, not in the timed process
    return _run("answers", panel=panel, short=short, long=long)


@verb(bench)
def engines() -> Told:
    """M-SMC and D-SMC against pyABC and against the bare matrix product."""
    return _run("engines")


@verb(bench, "bank")
def bank_() -> Told:
    """A bank build: texts per second and load of the simulator."""
    return _run("bank")


@verb(bench)
def abi() -> Told:
    """The amortised forward pass against its three matrix products."""
    return _run("abi")


@verb(bench)
def service(
    seconds: Annotated[float, Option(min=0.1, help="How long to send requests.")] = 30.0,
    clients: Annotated[int, Option(min=1, help="Clients that send at once.")] = 64,
    requests: Annotated[int | None, Option(min=1, help="Send this many requests instead.")] = None,
    replicas: Annotated[int, Option(min=1, help="Services with one audit log that share the clients.")] = 1,
) -> Told:
    """Requests per second, latency and memory of the HTTP service."""
    return _run("service", seconds=seconds, clients=clients, requests=requests, replicas=replicas)


def _run(name: str, **chosen: Any) -> Told:
    result: dict[str, Any] = importlib.import_module(f"simdx.bench.{name}").run(**chosen)
    return result, *_lines(result)


def _lines(value: dict[str, Any], indent: str = "") -> Iterator[str]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from (f"{indent}{key}", *_lines(item, indent + "  "))
        else:
            yield f"{indent}{key}: {f'{item:.4g}' if isinstance(item, float) else item}"


# --------------------------------------------------------------------------- simdx validate

validate = Typer()


@validate.callback()
def _validate() -> None:
    """A verb with one verb of its own, so far."""


@verb(validate)
def transfer(
    data: Annotated[list[Path] | None, "A folder of panels with cases; repeatable."] = None,
    packaged: Annotated[
        Many,
        Option(metavar="PANEL=CASES[:OUTSIDE]", help="A packaged panel with its cases; may be given again."),
    ] = None,
    embedder: Annotated[str | None, "Embedder, joined by '+'; each panel's own."] = None,
    seed: Annotated[int, Option(min=0, help="Of draws and intervals.")] = 0,
    out: Annotated[File, "Write the record to this file as well."] = None,
) -> Told:
    """Answer every panel with constants chosen on the other panels, and with labelled cases added."""
    from simdx.disk import write_atomically
    from simdx.runs import current_commit
    from simdx.transfer import entries, lines, run

    named: dict[str, tuple[Path, Path | None]] = {}
    for given in packaged or []:
        name, _, files = given.partition("=")
        cases, _, outside = files.partition(":")
        if not cases:
            raise BadInput(f"--packaged {given[:80]}: give PANEL=CASES.jsonl, with :OUTSIDE.jsonl or without")
        named[name] = (Path(cases), Path(outside) if outside else None)
    options.check_target(out, "--out")

    def told(panel: str) -> None:
        note(f"asking {Path(panel).parent.name or panel}")

    result = run(entries(data or [], named), embedder, seed, told)
    result |= {"command": "simdx validate transfer", "commit": current_commit(), "embedder": embedder}
    if out is not None:
        write_atomically(out, dumps(result, indent=1) + "\n")
    return result, *lines(result)
