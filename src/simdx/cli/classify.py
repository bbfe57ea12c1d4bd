"""`simdx classify`: one text in, one answer out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from simdx.cli import options
from simdx.cli.output import note, print_json
from simdx.cli.progress import asking, say_model
from simdx.errors import BadInput

MAX_BYTES = 2_000_000  # of a file or of standard input: as much as the classifier takes for one case


@options.spread
def classify(
    text: Annotated[str | None, Argument(metavar="TEXT|-", help="The case, or - for standard input.")] = None,
    *,
    panel: options.PanelName = "oral-lesions",
    file: Annotated[Path | None, Option("--file", help="Read the case from a UTF-8 file.")] = None,
    chosen: options.AnswerOptions,
    prior: options.PriorOptions,
    policy: Annotated[
        Path | None, Option("--policy", help="A decision policy (YAML); default: the panel's own.")
    ] = None,
    ask: Annotated[
        bool, Option("--ask", help="Also say which missing finding is most worth asking for.")
    ] = False,
    device: options.Device = "cpu",
    json: options.AsJson = False,
    html: Annotated[Path | None, Option("--html", help="Also write a self-contained page.")] = None,
) -> None:
    """The posterior over a panel's labels for one case, with its uncertainty, decision and evidence."""
    case = _read_case(text, file)
    from simdx.classifier import check_text
    from simdx.panels import load_panel

    check_text(case, "the text")
    chosen_prior = prior.over(load_panel(panel).names)
    options.check_target(html, "--html")
    classifier = chosen.classifier(panel, policy=policy, device=device)
    say_model(chosen.method, chosen.engine, chosen.simulator)
    with asking(chosen.engine) as watch:
        classifier.watch_simulations(watch)
        answer = classifier.infer(case, prior=chosen_prior, ask=ask)
    if html is not None:
        from simdx.bank.files import write_atomically
        from simdx.report.page import Section, render

        three = len(classifier.panel.names) == 3
        draws = classifier.simplex_draws(case, chosen_prior) if three else None
        page = render(
            f"simdx: {classifier.panel.title or classifier.panel.name}",
            [Section(answer.label, case, answer, simplex=draws)],
            panel=classifier.panel,
            notice=classifier.panel.notice,
        )
        write_atomically(html, page)
        note(f"wrote {html}")
    if json:
        if answer.provenance.sampler is not None and answer.provenance.sampler.outcome == "budget":
            note(f"warning: {answer.provenance.notes[-1]}")
        print_json(answer.to_json())
        return
    from rich.console import Console

    from simdx.report.terminal import print_answer

    console = Console(highlight=False)
    console.print(f"[bold]{classifier.panel.name}[/], {answer.method}")
    print_answer(answer, console)


def _read_case(text: str | None, file: Path | None) -> str:
    if file is not None and text is not None:
        raise BadInput("give either a text or --file, not both")
    if file is not None:
        try:
            if file.stat().st_size > MAX_BYTES:
                raise BadInput(
                    f"{file.name} is over {MAX_BYTES // 1_000_000} MB: give one case, not a collection"
                )
            data = file.read_bytes()
        except OSError as error:
            raise BadInput(f"{file} cannot be read: {error.strerror}") from None
        return _decode(data, file.name)
    if text == "-":
        return _decode(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    if text is None:
        raise BadInput("give a text, - for standard input, or --file F")
    return text


def _decode(data: bytes, where: str) -> str:
    if len(data) > MAX_BYTES:
        raise BadInput(f"{where} is over {MAX_BYTES // 1_000_000} MB: give one case, not a collection")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{where} is not UTF-8 text: save it as UTF-8") from None
