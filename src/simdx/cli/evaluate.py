"""Labelled cases: `simdx evaluate`, `simdx compare`, `simdx policy tune|show`, and their expert review."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.options import File, Many, Told, verb
from simdx.cli.output import Progress, note, prepare, say, say_model
from simdx.datasets import Columns, Dataset, load_oral, open_data, read_cases
from simdx.datasets.dataset import check_options, differentials
from simdx.decide.policy import Policy, policy_data, policy_text, policy_words, read_policy
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.panels import load_panel
from simdx.types import NONE_OF_THESE

Folder = Annotated[Path, Argument(metavar="DIR", help="What 'simdx evaluate --out' wrote.")]


@verb()
def evaluate(
    data: Annotated[str, "Labelled cases: JSONL, CSV, Parquet, or a packaged set."],
    *,
    panel: options.PanelName = "",
    layout: options.CaseColumns,
    chosen: options.AnswerOptions,
    prior: options.PriorOptions,
    ood: Annotated[str | None, "A file of cases of none of the labels."] = None,
    by: Annotated[str | None, "Subgroups to report: FIELD,FIELD*FIELD,…"] = None,
    options_column: Annotated[str | None, "Column of a case's own options: A|B|C."] = None,
    calibrate: Annotated[File, "Labelled cases to calibrate on."] = None,
    coverage: Annotated[float, "Coverage of conformal sets."] = 0.9,
    out: Annotated[File, "Folder for rows, metrics and report."] = None,
    resume: Annotated[bool, "Continue a killed run that had the same --out."] = True,
    show_texts: Annotated[bool, "--show-texts", "Quote case texts in the report."] = False,
    compare: Annotated[
        Many, Option(metavar="METHOD", help="Methods to compare with: A,B or A:MODEL.")
    ] = None,
    resamples: options.Resamples = 2000,
    json: options.AsJson = False,
) -> None:
    """Measure a method on labelled cases: accuracy, calibration, selective prediction and subgroups."""
    from simdx.evaluate import evaluate as run
    from simdx.evaluation import Run, lines, paired
    from simdx.fitting import methods

    known = options.outcomes(panel)
    labels, columns = known[:-1], layout.columns
    chosen_prior = prior.over(labels)
    cases, outside = _apart(open_data(data, columns=columns, labels=known).cases, labels, ood, columns)
    cases.label_index(labels)  # a packaged set may belong to another panel
    differentials(cases, labels)  # read again by what needs them; a bad one is told before the work
    if not 0 < coverage < 1:
        raise BadInput(f"--coverage is {coverage:g}: give a number between 0 and 1, such as .9")
    fields = [f.strip() for f in (by or "").split(",") if f.strip()]
    for field in fields:
        for part in field.split("*"):
            cases.field(part.strip())
    if options_column is not None:
        check_options(cases, options_column, labels)
    others = [name.strip() for entry in compare or [] for name in entry.split(",")]
    if unknown := {name.partition(":")[0] for name in others} - set(methods()):
        raise BadInput(f"--compare '{min(unknown)[:60]}': choose among {', '.join(methods())}")
    held = read_cases(calibrate, columns=columns, labels=known).apart(labels)[0] if calibrate else None
    classifier = chosen.classifier(panel)
    say_model(chosen.method, chosen.engine, chosen.simulator, classifier.fitted.cost())
    prepare(classifier.fitted)
    with Progress("cases") as progress:
        classifier.watch_simulations(progress.asked)
        result = run(
            classifier, cases, ood=outside, by=fields, prior=chosen_prior, options=options_column,
            calibrate=held, out=out, resume=resume, show_texts=show_texts, resamples=resamples,
            coverage=coverage, progress=progress,
        )  # fmt: skip
    record = result.to_json()
    first, found = Run.of(record["method"], result), []
    for method in others:  # one that cannot be fitted is said at once
        name, _, model = method.partition(":")
        other = run(classifier.with_method(name, model or None), result.dataset, prior=chosen_prior,
                    options=options_column, resamples=100)  # fmt: skip
        found.append(paired(first, Run.of(method, other), resamples=max(resamples, 1000)))
    if out is not None:
        note(f"wrote metrics.json, cases.parquet and report.html in {out}")
    if not json:
        from simdx.report.evaluation import print_evaluation

        print_evaluation(result)
    say(json, {**record, "compare": found} if compare else record, *(x for one in found for x in lines(one)))


def _apart(
    given: Dataset, labels: tuple[str, ...], ood: str | None, columns: Columns
) -> tuple[Dataset, Dataset | None]:
    """Cases of the labels, and those of none of them: labelled so, and of --ood."""
    inside, outside = given.apart(labels)
    if ood is None:
        return inside, outside
    packaged = ood == "oral-lesions" and not Path(ood).exists()
    more = load_oral().ood if packaged else read_cases(ood, columns=columns, labelled=False)
    rows = enumerate(more.cases if more else (), 1)
    if stated := [number for number, case in rows if case.fields.get(columns.label) in labels]:
        raise BadInput(
            f"{Path(ood).name}: {len(stated)} outside cases have a label of the panel, the first of them "
            f"case {stated[0]}: an outside case has none"
        )
    if outside is None or more is None:
        return inside, outside or more
    return inside, replace(more, cases=(*outside.cases, *more.cases))


@verb()
def compare(
    first: Folder,
    second: Folder,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
) -> Told:
    """Compare two evaluations of the same cases: paired bootstrap intervals and p-values."""
    from simdx.evaluation import Run, lines, paired

    found = paired(Run.read(first), Run.read(second), resamples=resamples, seed=seed)
    return found, *lines(found)


# --------------------------------------------------------------------------- simdx policy

policy = Typer()


@verb(policy)
def tune(
    panel: options.PanelName,
    out: Annotated[Path, "The policy file to write (YAML)."],
    data: Annotated[File, "Labelled cases; default: simulated text."] = None,
    *,
    ood: Annotated[str | None, "With --data: at least 60 outside cases, for 'accept'."] = None,
    layout: options.ColumnOptions,
    risk: Annotated[float, "Highest error rate among accepted answers."] = 0.05,
    confidence: Annotated[float, "With --data: confidence in that rate."] = 0.9,
    coverage: Annotated[float, "With --data: coverage of conformal sets."] = 0.9,
    sets: Annotated[
        Literal["split", "class-conditional"], "With --data: kind of conformal sets."
    ] = "class-conditional",
    chosen: options.MethodOptions,
    none_prior: options.NonePrior = None,
) -> Told:
    """Choose thresholds from simulated text, or from labelled cases with a stated risk."""
    if not 0 < risk < 1:
        raise BadInput(f"--risk is {risk:g}: give a number between 0 and 1, such as .05")
    if ood is not None and data is None:
        raise BadInput("--ood needs --data: give cases of the labels as well")
    options.check_target(out, "--out")
    classifier = chosen.classifier(panel, none_prior=none_prior)
    if data is None:
        found = classifier.desk.tuned(risk)
    else:
        names, columns = classifier.panel.names, layout.columns
        given = read_cases(data, columns=columns, labels=(*names, NONE_OF_THESE))
        cases, outside = _apart(given, names, ood, columns)
        found = classifier.tune_policy(
            cases.texts, cases.label_index(names), risk=risk, confidence=confidence, coverage=coverage,
            kind=sets, outside=outside.texts if outside else [],
        )  # fmt: skip
    write_atomically(out, policy_text(found))
    note(f"wrote {out}")
    return policy_data(found), *_words(found)


def _words(policy: Policy) -> Iterator[str]:
    """A policy in words; evidence that supports no accepted answer is told as what is missing."""
    missing = [] if policy.evidence is None else list(policy.evidence.shortcomings())
    for line in policy_words(policy):
        if missing and line.startswith("  accept  "):
            yield f"  likely  is the strongest decision: {'; '.join(missing)}"
        else:
            yield line


@verb(policy, "show")
def show_policy(
    policy: Annotated[File, Argument(metavar="[FILE]", help="A policy file.")] = None,
    panel: Annotated[str | None, "Show the policy of this panel."] = None,
    bank: Annotated[File, "A bank folder or JSONL file; default: the panel's."] = None,
    allow_remote: options.AllowRemote = False,
) -> Told:
    """Show a policy in words; without a file, the policy that a panel's answers use."""
    if policy is not None and bank is not None:
        raise BadInput("--bank goes with --panel: a policy file needs no bank")
    if policy is not None:
        found = read_policy(policy, None if panel is None else load_panel(panel))
    elif panel is None:
        raise BadInput("give a policy file or --panel")
    else:
        from simdx.classifier import Classifier

        desk = Classifier(panel, bank, allow_remote=allow_remote).desk
        found = replace(desk.policy, evidence=desk.evidence)
    return policy_data(found), *_words(found)


# --------------------------------------------------------------------------- simdx review

review = Typer()
Review = Annotated[Path, Argument(metavar="DIR", help="The folder of the review.")]


@verb(review)
def make(
    data: Annotated[str, "A file of cases, a bank folder, or oral-lesions."],
    out: Annotated[Path, "A new folder for the forms and their key."],
    *,
    reviewer: Annotated[Many, "A reviewer; repeatable."] = None,
    sample: Annotated[int | None, "Review a random sample of this size."] = None,
    revise: Annotated[File, "An earlier review: its cases to revise."] = None,
    show_label: Annotated[bool, "--show-label", "Show the intended label."] = False,
    layout: options.CaseColumns,
    seed: Annotated[int, "Seed of sample and order."] = 0,
) -> Told:
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
    return (
        {"review": sheet.review, "cases": len(sheet.cases), "forms": forms, "scores": sheet.scores_file},
        f"{len(sheet.cases)} texts; keep {out / 'review.json'} to yourself; send each reviewer one form:",
        *(f"  {form} (or its .csv)" for form in forms),
    )


@verb(review, "import")
def import_(
    folder: Review,
    source: Annotated[Path, "--from", "A filled form (HTML or CSV)."],
    role: Annotated[str, "What the reviewer is, e.g. 'oral pathologist'."],
) -> Told:
    """Check a filled form and store its scores beside the data."""
    from simdx.review import import_scores, open_review

    done = import_scores(open_review(folder), source, role=role)
    told = f"{done['reviewer']}: {done['scored']} texts scored, {done['unscored']} not"
    return done, f"{told}; saved in {done['scores']}"


@verb(review)
def summary(folder: Review) -> Told:
    """Show means, spread, agreement and the cases to revise."""
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
    return found, *lines
