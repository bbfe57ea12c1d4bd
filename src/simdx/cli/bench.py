"""`simdx bench answers|engines|bank|abi|service`: speed on this machine, side by side with a floor."""

import importlib
from collections.abc import Iterator
from typing import Annotated, Any

from typer import Option, Typer

from simdx.cli import options
from simdx.cli.output import say

app = Typer(help="Measure speed on this machine.", no_args_is_help=True)


@app.command()
def answers(
    panel: options.PanelName = "oral-lesions",
    short: Annotated[int, Option(help="Short texts in the batch.")] = 10_000,
    long: Annotated[int, Option(help="Long ones.")] = 1_000,
    json: options.AsJson = False,
) -> None:
    """A text to its answer: cold, warm, in batches; beside scikit-learn, MiniLM and the bare products."""
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
    seconds: Annotated[float, Option(help="How long to send requests.")] = 30.0,
    clients: Annotated[int, Option(help="How many send at once.")] = 64,
    requests: Annotated[int | None, Option(help="Send this many instead, however long it takes.")] = None,
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
            yield f"{indent}{key}"
            yield from _lines(item, indent + "  ")
        else:
            yield f"{indent}{key}: {f'{item:.4g}' if isinstance(item, float) else item}"
