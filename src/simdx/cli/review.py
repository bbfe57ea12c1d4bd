"""`simdx review make|import|summary`: blinded expert review of a data set or a bank."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdx.cli import options
from simdx.cli.output import print_json
from simdx.errors import BadInput

app = typer.Typer(help="Blinded expert review of cases and banks.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The review's folder.")]


@app.command()
def make(
    data: Annotated[str, typer.Option("--data", help="A file of cases, a bank folder, or oral-lesions.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the forms and their key.")],
    reviewer: Annotated[list[str] | None, typer.Option("--reviewer", help="A reviewer; repeatable.")] = None,
    sample: Annotated[int | None, typer.Option(help="Review a random sample of this many.")] = None,
    revise: Annotated[
        Path | None, typer.Option("--revise", help="An earlier review: only the cases it asked to revise.")
    ] = None,
    show_label: Annotated[bool, typer.Option("--show-label", help="Show the intended label.")] = False,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    id_column: options.IdColumn = "id",
    seed: Annotated[int, typer.Option(help="Seed of sample and order.")] = 0,
    json: options.AsJson = False,
) -> None:
    """Write a blinded, shuffled form (HTML and CSV) for each reviewer."""
    from simdx.datasets import Columns
    from simdx.review import make_review, open_review, summarise

    only = None
    if revise is not None:
        only = [row["id"] for row in summarise(open_review(revise)).revise]
        if not only:
            raise BadInput(f"the review in {revise} asks for no case to be revised")
    sheet = make_review(
        data,
        out,
        reviewers=reviewer or ["reviewer-1"],
        seed=seed,
        sample=sample,
        only=only,
        show_label=show_label,
        columns=Columns(text_column, label_column, id_column),
    )
    forms = [str(out / f"form-{name}.html") for name in sheet.order]
    if json:
        about = {"review": sheet.review, "cases": len(sheet.hashes), "forms": forms}
        print_json(about | {"scores": sheet.scores_file})
        return
    print(f"{len(sheet.hashes)} texts; send each reviewer one form, keep {out / 'review.json'} to yourself:")
    for form in forms:
        print(f"  {form} (or its .csv)")


@app.command("import")
def import_(
    folder: Folder,
    source: Annotated[Path, typer.Option("--from", help="A saved form (HTML) or its filled CSV twin.")],
    role: Annotated[str, typer.Option("--role", help="What the reviewer is, e.g. 'oral pathologist'.")],
    json: options.AsJson = False,
) -> None:
    """Check a filled form and store its scores beside the data."""
    from simdx.review import import_scores, open_review

    done = import_scores(open_review(folder), source, role=role)
    if json:
        print_json(
            {
                "reviewer": done.reviewer,
                "scored": done.scored,
                "unscored": done.unscored,
                "scores": str(done.scores_file),
            }
        )
        return
    print(f"{done.reviewer}: {done.scored} texts scored, {done.unscored} not; stored in {done.scores_file}")


@app.command()
def summary(folder: Folder, json: options.AsJson = False) -> None:
    """Means, spread, agreement and the list to revise."""
    from simdx.review import open_review, summarise

    found = summarise(open_review(folder)).to_json()
    if json:
        print_json(found)
        return
    print(f"{found['n_scored']} of {found['n_cases']} texts scored")
    for name, about in found["reviewers"].items():
        print(f"  {name} ({about['role']}): {about['n']} texts")
    for scale, values in found["scales"].items():
        shown = [f"{k} {v:.2f}" for k, v in values.items() if isinstance(v, float)]
        print(f"{scale}: {', '.join(shown) or 'no scores yet'}")
    if found["label_agreement"]:
        agreement = found["label_agreement"]
        print(f"named diagnosis agrees with the label: {agreement['agreement']:.2f} of {agreement['n']}")
    print(f"to revise: {len(found['revise'])}")
    for row in found["revise"]:
        print(f"  {row['id']}: completeness {row['completeness']}, correctness {row['correctness']}")
