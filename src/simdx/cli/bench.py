"""`simdx bench answers|engines|bank|abi|service`: speed here; `simdx validate transfer`: other panels."""

import importlib
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from typer import Option, Typer

from simdx.cli import options
from simdx.cli.output import note, say
from simdx.errors import BadInput

app = Typer(help="Measure speed on this machine.", no_args_is_help=True)


@app.command()
def answers(
    panel: options.PanelName = "oral-lesions",
    short: Annotated[int, Option(min=1, help="Short texts in the batch.")] = 10_000,
    long: Annotated[int, Option(min=1, help="Long ones.")] = 1_000,
    json: options.AsJson = False,
) -> None:
    """A text to its answer: cold, warm, in batches; beside scikit-learn, MiniLM and the bare products."""
    from simdx.panels import load_panel

    load_panel(panel)  # an unknown one is told here, not by the process that is timed
    _run("answers", json, panel=panel, short=short, long=long)


@app.command()
def engines(json: options.AsJson = False) -> None:
    """M-SMC and D-SMC against pyABC and against the bare matrix product."""
    _run("engines", json)


@app.command()
def bank(json: options.AsJson = False) -> None:
    """Building a bank: texts per second and how busy the simulator is."""
    _run("bank", json)


@app.command()
def abi(json: options.AsJson = False) -> None:
    """The amortised forward pass against its three matrix products."""
    _run("abi", json)


@app.command()
def service(
    seconds: Annotated[float, Option(min=0.1, help="How long to send requests.")] = 30.0,
    clients: Annotated[int, Option(min=1, help="How many send at once.")] = 64,
    requests: Annotated[int | None, Option(min=1, help="So many instead, however long it takes.")] = None,
    replicas: Annotated[int, Option(help="Services with one audit log that share the clients.", min=1)] = 1,
    json: options.AsJson = False,
) -> None:
    """Requests per second, latency and memory of the HTTP service."""
    _run("service", json, seconds=seconds, clients=clients, requests=requests, replicas=replicas)


def _run(name: str, json: bool, **chosen: Any) -> None:
    result: dict[str, Any] = importlib.import_module(f"simdx.bench.{name}").run(**chosen)
    say(json, result, *_lines(result))


def _lines(value: dict[str, Any], indent: str = "") -> Iterator[str]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from (f"{indent}{key}", *_lines(item, indent + "  "))
        else:
            yield f"{indent}{key}: {f'{item:.4g}' if isinstance(item, float) else item}"


# --------------------------------------------------------------------------- simdx validate

validate = Typer(help="Check the recipe on labelled cases.", no_args_is_help=True)


@validate.callback()
def _validate() -> None:
    """A verb with one verb of its own, so far."""


@validate.command()
def transfer(
    data: Annotated[list[Path] | None, Option(help="A folder of panels with cases; repeatable.")] = None,
    packaged: Annotated[
        list[str] | None,
        Option(metavar="PANEL=CASES[:OUTSIDE]", help="A packaged panel with its cases; may be given again."),
    ] = None,
    embedder: Annotated[str | None, Option(help="Embedder, joined by '+'; each panel's own.")] = None,
    seed: Annotated[int, Option(min=0, help="Of draws and intervals.")] = 0,
    out: Annotated[Path | None, Option(help="Write the record to this file as well.")] = None,
    json: options.AsJson = False,
) -> None:
    """Every panel with the constants that the other panels choose, and what labelled cases would add."""
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
    if out is not None:
        options.check_target(out, "--out")

    def told(panel: str) -> None:
        note(f"asking {Path(panel).parent.name or panel}")

    result = run(entries(data or [], named), embedder, seed, told)
    result |= {"command": "simdx validate transfer", "commit": current_commit(), "embedder": embedder}
    if out is not None:
        write_atomically(out, dumps(result, indent=1) + "\n")
    say(json, result, *lines(result))
