"""`simdx distil`: a small student of a panel's answers, as an ONNX file."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from simdx.cli import options
from simdx.cli.output import note, say


@options.spread
def distil(
    panel: options.PanelName,
    out: Annotated[Path, Option(help="A new folder for student.onnx and its card, student.json.")],
    *,
    chosen: options.MethodOptions,
    archive: Annotated[
        Path | None, Option(help="Unlabelled cases (JSONL, CSV, Parquet) to learn from as well.")
    ] = None,
    data: Annotated[Path | None, Option(help="Labelled cases to say what the student loses on.")] = None,
    json: options.AsJson = False,
) -> None:
    """Train a small student on bank and archive, write it as ONNX, and say what it loses."""
    from simdx.datasets import read_cases
    from simdx.disk import refuse_occupied
    from simdx.distil import distil as run
    from simdx.panels import load_panel

    refuse_occupied(out)
    texts = [] if archive is None else read_cases(archive, labelled=False).texts
    cases = None if data is None else read_cases(data, labels=load_panel(panel).names)
    classifier = chosen.classifier(panel)
    student = run(classifier, out, texts)
    found = None if cases is None else _on_cases(classifier, student, cases)
    if texts:
        note(f"{out} holds words of your archive: keep it as you keep the archive")
    say(json, {**student.card, "folder": str(out), "cases": found}, *_lines(student.card, out, found))


def _on_cases(classifier: Any, student: Any, cases: Any) -> dict[str, Any]:
    """Teacher and student on labelled cases, among the labels, paired."""
    from simdx.compare import Run, compare

    names = classifier.panel.names
    p = student.predict_proba(cases.texts)[:, : len(names)]
    ids, truth = tuple(case.id for case in cases.cases), tuple(str(case.label) for case in cases.cases)
    teacher = classifier.infer_batch(cases.texts).posterior_in_class
    pair = (("recipe", teacher), ("student", p / p.sum(axis=1, keepdims=True)))
    return compare(*(Run(name, ids, truth, names, values) for name, values in pair))


def _lines(card: dict[str, Any], out: Path, found: dict[str, Any] | None) -> list[str]:
    from simdx.compare import lines

    measured = card["simulated_text"]
    told = ", ".join(
        f"{name} {measured['student'][name]:.3f} (recipe {measured['teacher'][name]:.3f})"
        for name in ("accuracy", "nll", "ece")
        if measured["student"][name] is not None
    )
    said = [
        f"wrote {out}: {len(card['labels'])} labels, temperature {card['temperature']:.2f}",
        f"on {measured['n']} simulated texts it was not given: {told}",
        f"the same label as the recipe for {measured['same_label']:.0%} of them",
    ]
    return said if found is None else [*said, *lines(found)]
