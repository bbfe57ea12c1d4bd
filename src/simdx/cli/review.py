"""`simdx review make|import|summary`: blinded expert review of a data set or a bank."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import say
from simdx.errors import BadInput

app = Typer(help="Blinded expert review of cases and banks.", no_args_is_help=True)

Folder = Annotated[Path, Argument(metavar="DIR", help="The review's folder.")]


@app.command()
@options.spread
def make(
    data: Annotated[str, Option(help="A file of cases, a bank folder, or oral-lesions.")],
    out: Annotated[Path, Option(help="A new folder for the forms and their key.")],
    *,
    reviewer: Annotated[list[str] | None, Option(help="A reviewer; repeatable.")] = None,
    sample: Annotated[int | None, Option(help="Review a random sample of this many.")] = None,
    revise: Annotated[Path | None, Option(help="An earlier review: its cases to revise.")] = None,
    show_label: Annotated[bool, Option("--show-label", help="Show the intended label.")] = False,
    layout: options.CaseColumns,
    seed: Annotated[int, Option(help="Seed of sample and order.")] = 0,
    json: options.AsJson = False,
) -> None:
    """Write a blinded, shuffled form (HTML and CSV) for each reviewer."""
    from simdx.review import make_review, open_review, summarise

    only = None
    if revise is not None:
        only = [row["id"] for row in summarise(open_review(revise))["revise"]]
        if not only:
            raise BadInput(f"no case of the review in {revise} needs a revision")
    sheet = make_review(
        data, out, reviewers=reviewer or ["reviewer-1"], seed=seed, sample=sample, only=only,
        show_label=show_label, columns=layout.columns,
    )  # fmt: skip
    forms = [str(out / f"form-{name}.html") for name in sheet.order]
    say(
        json,
        {"review": sheet.review, "cases": len(sheet.cases), "forms": forms, "scores": sheet.scores_file},
        f"{len(sheet.cases)} texts; send each reviewer one form, keep {out / 'review.json'} to yourself:",
        *(f"  {form} (or its .csv)" for form in forms),
    )


@app.command("import")
def import_(
    folder: Folder,
    source: Annotated[Path, Option("--from", help="A saved form (HTML) or its CSV twin.")],
    role: Annotated[str, Option(help="What the reviewer is, e.g. 'oral pathologist'.")],
    json: options.AsJson = False,
) -> None:
    """Check a filled form and store its scores beside the data."""
    from simdx.review import import_scores, open_review

    done = import_scores(open_review(folder), source, role=role)
    say(
        json,
        done,
        f"{done['reviewer']}: {done['scored']} texts scored, {done['unscored']} not; "
        f"stored in {done['scores']}",
    )


@app.command()
def summary(folder: Folder, json: options.AsJson = False) -> None:
    """Means, spread, agreement and the list to revise."""
    from simdx.review import open_review, summarise

    found = summarise(open_review(folder))
    lines = [f"{found['n_scored']} of {found['n_cases']} texts scored"]
    lines += [f"  {name} ({about['role']}): {about['n']} texts" for name, about in found["reviewers"].items()]
    for scale, values in found["scales"].items():
        shown = [f"{k} {v:.2f}" for k, v in values.items() if isinstance(v, float)]
        lines.append(f"{scale}: {', '.join(shown) or 'no scores yet'}")
    if agreed := found["label_agreement"]:
        lines.append(f"named diagnosis agrees with the label: {agreed['agreement']:.2f} of {agreed['n']}")
    lines.append(f"to revise: {len(found['revise'])}")
    for row in found["revise"]:
        lines.append(f"  {row['id']}: completeness {row['completeness']}, correctness {row['correctness']}")
    say(json, found, *lines)
