"""The main job, end to end, in under a minute: `make demo`.

Three cases become posteriors from the packaged reference bank; then the embedded language model writes
fresh descriptions of each label and we see whether they land where they should. The same goes into one
self-contained HTML page.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console

from simdx.bank import read_bank
from simdx.bank.builder import build_bank
from simdx.bank.plan import BuildSettings
from simdx.classifier import Classifier
from simdx.report.page import Afterword, Section, render
from simdx.report.terminal import bar, print_answer
from simdx.simulators import get_simulator
from simdx.types import Panel

PANEL = "oral-lesions"
LONGEST = 60  # tokens of a fresh description: a small model soon repeats itself
FRESH_PER_LABEL = 1  # what a small model writes in some seconds on two cores

CASES = (
    (
        "A classic case",
        "66-year-old retired docker, fifty pack-years and a daily half bottle of rum. For four months an "
        "ulcer on the left side of the tongue that does not heal and hardly hurts. The ulcer is 2 cm, its "
        "edge raised and rolled, its base hard to the touch well beyond the margin. A firm, fixed node "
        "under the left jaw.",
    ),
    (
        "An ambiguous case",
        "48-year-old woman with a pale, dome-shaped lump inside the lower lip for ten weeks. She bites "
        "there. It has never burst or shrunk, feels rather firm for its size, and there is a shallow raw "
        "patch on top. She smokes a few cigarettes a day. No nodes felt.",
    ),
    (
        "A case outside the panel",
        "29-year-old man whose jaw clicks on the right when he opens wide, with a dull ache in front of "
        "the ear on waking and tired chewing muscles. His partner hears him grind at night. Opening is "
        "limited to 30 mm. Teeth and gums look healthy apart from flattened canine tips.",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=Path("out/demo.html"))
    parser.add_argument("--fresh", type=int, default=FRESH_PER_LABEL, help="fresh texts per label")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    started = time.perf_counter()

    classifier = Classifier(PANEL)
    panel = classifier.panel
    console.print(
        f"\n[bold]{panel.title}[/]: {len(classifier.bank.texts)} simulated texts, embedder {panel.embedder}\n"
    )
    answers = classifier.infer([text for _, text in CASES])
    sections = []
    for (heading, text), answer in zip(CASES, answers, strict=True):
        console.print(f"[bold]{heading}[/]\n  [italic]{text}[/]")
        print_answer(answer, console)
        console.print()
        sections.append(Section(heading, text, answer, simplex=classifier.simplex_draws(text)))

    afterword = None
    if arguments.fresh > 0:
        afterword = _fresh_descriptions(classifier, panel, arguments.fresh, console)
    arguments.html.parent.mkdir(parents=True, exist_ok=True)
    page = render(f"simdx: {panel.title}", sections, panel=panel, notice=panel.notice, afterword=afterword)
    arguments.html.write_text(page, encoding="utf-8")
    console.print(f"\nThe same, with plots: {arguments.html}   ({time.perf_counter() - started:.0f} s)")
    console.print("[dim]Decision support for research; not a medical device. " + panel.notice + "[/]")


def _fresh_descriptions(classifier: Classifier, panel: Panel, per_label: int, console: Console) -> Afterword:
    """Let the embedded model describe each label anew, in a bank of its own, and classify what it wrote."""
    console.print(f"[bold]Fresh texts by the embedded model[/] (SmolLM2-135M, {per_label} a label)")
    with tempfile.TemporaryDirectory() as scratch:
        # One after another: they share the beginning of their prompts, which is then read once.
        simulator = get_simulator("smollm2", slots=1)
        settings = BuildSettings(per_label=per_label, voice="short", seed=1, max_tokens=LONGEST)
        report = build_bank(panel, simulator, settings, Path(scratch) / "bank")
        simulator.close()
        fresh = read_bank(Path(scratch) / "bank", panel)
    rejected = ", ".join(f"{n} {reason}" for reason, n in report.rejected.items()) or "none"
    console.print(
        f"  {report.answers} answers, {report.completion_tokens} tokens in {report.seconds:.0f} s; "
        f"rejected: {rejected}"
    )
    rows: list[tuple[str, str, str]] = []
    hits = 0
    for k, text, answer in zip(fresh.label_index, fresh.texts, classifier.infer(fresh.texts), strict=True):
        label, flat = panel.names[k], " ".join(text.split())
        share, mark = answer.posterior[label], "[red]✗[/]"
        if answer.label == label:
            hits, mark = hits + 1, "[green]✓[/]"
        console.print(f"  {mark} {label:<30} {bar(share, 12)} {share:.2f}  [dim]{flat[:90]}…[/]")
        rows.append((label, f"{answer.label} ({answer.posterior[answer.label]:.2f})", text))
    summary = f"{hits} of {len(fresh.texts)} land on the label they were written for."
    console.print(f"  [bold]{summary}[/]")
    words = f"SmolLM2-135M wrote these just now. {summary}"
    return Afterword(
        "Fresh texts by the embedded model", words, ("written for", "classified as", "text"), rows
    )


if __name__ == "__main__":
    main()
