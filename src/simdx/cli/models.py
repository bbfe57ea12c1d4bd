"""`simdx models list|pull|verify`."""

from typing import Annotated

from typer import Argument, Typer

from simdx.cli import options
from simdx.cli.output import note, say, write_line
from simdx.errors import RunFailed

app = Typer(help="Named model weights: list, fetch and verify them.", no_args_is_help=True)


@app.command("list")
def list_(json: options.AsJson = False) -> None:
    """Every named model with its size, licence, sources and whether it is here."""
    from simdx.models import REGISTRY
    from simdx.models.verify import folder_of, home

    rows = []
    for m in REGISTRY.values():
        try:
            here = folder_of(m).exists()
        except Exception:
            here = False
        sources = [f"hub:{m.hub}"] if m.hub else []
        sources += [f"package:{m.package}"] if m.package else []
        sources += [f"index:{m.wheels.requirements[0]}"] if m.wheels else []
        rows.append(
            {"name": m.name, "kind": m.kind, "megabytes": m.megabytes, "licence": m.licence, "here": here,
             "description": m.description, "sources": sources, "sha256": dict(m.files), "extra": m.extra}
        )  # fmt: skip
    lines = [
        f"{row['name']:20} {row['kind']:9} {row['megabytes']:>5} MB  {row['licence']:11} "
        f"{'here' if row['here'] else 'not pulled':10}  {row['description']}"
        for row in rows
    ]
    say(json, {"home": str(home()), "models": rows}, *lines, f"\nfolder: {home()}")


@app.command()
def pull(name: Annotated[str, Argument(help="A name from 'models list'.")]) -> None:
    """Fetch a model, check its SHA-256 and put it in the cache folder."""
    from simdx.models.fetch import pull as pull_model

    write_line(str(pull_model(name, report=note)))


@app.command()
def verify(
    name: Annotated[str | None, Argument(help="One model; all that are here when left out.")] = None,
    json: options.AsJson = False,
) -> None:
    """Check the SHA-256 of every pinned file (exit 1 when one does not hold)."""
    from simdx.models import REGISTRY, describe, verify_or_explain
    from simdx.models.verify import folder_of

    chosen = [describe(name)] if name else [m for m in REGISTRY.values() if folder_of(m).exists()]
    results = {m.name: verify_or_explain(m, folder_of(m)) for m in chosen}
    bad = {k: v for k, v in results.items() if v}
    found = {name: problem or "ok" for name, problem in results.items()}
    say(json, {"ok": not bad, "models": found}, *(f"{name:20} {said}" for name, said in found.items()))
    if bad:
        raise RunFailed("; ".join(f"{k}: {v}" for k, v in bad.items()))
