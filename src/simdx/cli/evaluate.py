"""`simdx evaluate`: labelled cases in, metrics with intervals out; `simdx compare`: two such runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from simdx.cli import options
from simdx.cli.output import note, print_json, say, write_line
from simdx.cli.progress import Progress, prepare, say_model
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.datasets import Columns, Dataset


@options.spread
def evaluate(
    data: Annotated[str, Option(help="Cases, none of these too: JSONL, CSV, Parquet, or a packaged set.")],
    *,
    panel: options.PanelName = "",
    layout: options.CaseColumns,
    chosen: options.AnswerOptions,
    prior: options.PriorOptions,
    ood: Annotated[str | None, Option(help="Cases of none of the labels, a file.")] = None,
    by: Annotated[str | None, Option(help="Subgroups to report: FIELD,FIELD*FIELD,…")] = None,
    options_column: Annotated[str | None, Option(help="Column of a case's own options: A|B|C.")] = None,
    calibrate: Annotated[Path | None, Option(help="Labelled cases to calibrate on.")] = None,
    coverage: Annotated[float, Option(help="Coverage asked of conformal sets.")] = 0.9,
    out: Annotated[Path | None, Option(help="Folder for rows, metrics and report.")] = None,
    resume: Annotated[bool, Option(help="Go on where a killed run with --out stopped.")] = True,
    show_texts: Annotated[bool, Option("--show-texts", help="Quote case texts in the report.")] = False,
    compare: Annotated[list[str] | None, Option(metavar="METHOD", help="Others: A,B or A:MODEL.")] = None,
    resamples: Annotated[int, Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 2000,
    json: options.AsJson = False,
) -> None:
    """Accuracy, calibration, selective prediction and subgroups of a method on labelled cases."""
    from simdx.compare import Run, lines, paired
    from simdx.datasets import open_data, read_cases
    from simdx.datasets.dataset import check_options, differentials
    from simdx.evaluate import evaluate as run
    from simdx.fitting import methods
    from simdx.panels import load_panel
    from simdx.types import NONE_OF_THESE

    labels = load_panel(panel).names
    columns = layout.columns
    chosen_prior = prior.over(labels)
    known = (*labels, NONE_OF_THESE)
    cases, labelled_outside = open_data(data, columns=columns, labels=known).cases.apart(labels)
    cases.label_index(labels)  # a packaged set may belong to another panel
    differentials(cases, labels)  # read again by what needs them; a bad one is told before the work
    outside = _joined(labelled_outside, _outside(ood, columns))
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
        note(f"wrote {out / 'metrics.json'}, cases.parquet and report.html beside it")
    if json:
        print_json({**record, "compare": found} if compare else record)
        return
    from simdx.report.summary import print_evaluation

    print_evaluation(result)
    for one in found:
        write_line("\n".join(lines(one)))


def _joined(labelled: Dataset | None, given: Dataset | None) -> Dataset | None:
    """Cases of none of the labels: those that --data labels so, and those of --ood."""
    if labelled is None or given is None:
        return labelled or given
    return replace(given, cases=(*labelled.cases, *given.cases))


def _outside(ood: str | None, columns: Columns) -> Dataset | None:
    from simdx.datasets import load_oral, read_cases

    if ood is None:
        return None
    if ood == "oral-lesions" and not Path(ood).exists():
        return load_oral().ood
    return read_cases(ood, columns=columns, labelled=False)


def compare(
    first: Annotated[Path, Argument(metavar="DIR", help="What 'simdx evaluate --out' wrote.")],
    second: Annotated[Path, Argument(metavar="DIR", help="Another such folder, of the same cases.")],
    resamples: Annotated[int, Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 10_000,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Differences between two runs on the same cases: paired bootstrap intervals and p-values."""
    from simdx.compare import Run, lines, paired

    found = paired(Run.read(first), Run.read(second), resamples=resamples, seed=seed)
    say(json, found, *lines(found))
