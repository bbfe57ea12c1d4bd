"""`simdx library search|show`: conditions that a panel can be made of without a model."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import print_json, say
from simdx.errors import BadInput

app = Typer(help="The library of conditions: search it, show one with its texts.", no_args_is_help=True)


@app.command()
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


@app.command()
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
    own = [text for text in texts() if text.condition == match.condition.name]
    if json:
        rows = [{"register": t.register, "text": t.text} for t in own]
        print_json({**asdict(match.condition), "texts": rows})
        return
    c = match.condition
    print(f"{c.name}  (ICD-10 {c.icd10})" if c.icd10 else c.name)
    print(f"  {c.system}{'; emergency' if c.emergency else ''}; {len(own)} texts")
    for title, names in (("also", c.aliases), ("kind of", c.broader)):
        if names:
            print(f"  {title}: {', '.join(names)}")
    for text in own:
        print(f"\n  [{text.register}] {text.text}")
