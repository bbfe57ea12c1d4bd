"""`simdx models list|pull|verify`: weights; `simdx library search|show`: conditions that need no model."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, say
from simdx.errors import BadInput, RunFailed

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
def pull(
    name: Annotated[str, Argument(help="A name from 'models list'.")], json: options.AsJson = False
) -> None:
    """Fetch a model, check its SHA-256 and put it in the cache folder."""
    from simdx.models.fetch import pull as pull_model

    path = str(pull_model(name, report=note))
    say(json, {"name": name, "path": path}, path)


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


# --------------------------------------------------------------------------- simdx library

library = Typer(help="The library of conditions: search it, show one with its texts.", no_args_is_help=True)


@library.command()
def search(
    query: Annotated[str, Argument(help="A name, an ICD-10 code, or what it is about.")],
    most: Annotated[int, Option(min=1, max=100, help="Most rows.")] = 10,
    json: options.AsJson = False,
) -> None:
    """Conditions by name, alias, code or meaning."""
    from simdx.library import find

    if not query.strip():
        raise BadInput("the query is empty: give a name, an ICD-10 code or some words")
    found = find(query, most)
    rows = [{**asdict(m.condition), "how": m.how, "score": round(m.score, 3)} for m in found]
    lines = [
        f"{m.condition.name:42} {m.condition.icd10:6} {m.condition.system:26} "
        f"{'emergency' if m.condition.emergency else '':10}{m.how}"
        for m in found
    ]
    say(json, {"query": query, "conditions": rows}, *lines)


@library.command()
def show(
    name: Annotated[str, Argument(help="A condition: its name, an alias or its ICD-10 code.")],
    json: options.AsJson = False,
) -> None:
    """A condition and its texts."""
    from simdx.library import meant_by, suggestions, texts

    match = meant_by(name)
    if match is None:
        near = ", ".join(m.condition.name for m in suggestions(name, 3))
        raise BadInput(f"the library has no condition '{name[:80]}': the nearest by meaning are {near}")
    c = match.condition
    own = [text for text in texts() if text.condition == c.name]
    lines = [f"{c.name}  (ICD-10 {c.icd10})" if c.icd10 else c.name]
    lines.append(f"  {c.system}{'; emergency' if c.emergency else ''}; {len(own)} texts")
    also = (("also", c.aliases), ("kind of", c.broader))
    lines += [f"  {title}: {', '.join(names)}" for title, names in also if names]
    lines += [f"\n  [{text.register}] {text.text}" for text in own]
    rows = [{"register": t.register, "text": t.text} for t in own]
    say(json, {**asdict(c), "texts": rows}, *lines)
