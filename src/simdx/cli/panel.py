"""`simdx panel list|show|new|describe|check|status|calibrate|prevalence|compile`."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, say
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.library import Condition

app = Typer(
    help="Closed sets of labels: list, show, scaffold, check, calibrate and compile them.",
    no_args_is_help=True,
)

PanelArgument = Annotated[str, Argument(metavar="NAME|FILE", help="A packaged panel or a panel file.")]


@app.command("list")
def list_(json: options.AsJson = False) -> None:
    """The packaged panels."""
    from simdx.panels import PACKAGED, load_panel

    panels = [load_panel(name) for name in PACKAGED]
    say(
        json,
        {"panels": [{"name": p.name, "title": p.title, "labels": list(p.names)} for p in panels]},
        *(f"{p.name:22} {len(p.names)} labels  {p.title}" for p in panels),
    )


@app.command()
def show(name: PanelArgument, json: options.AsJson = False) -> None:
    """A panel's labels and what is known about each."""
    from simdx.panels import load_source

    source = load_source(name)
    p, banks = source.panel, [b.name for b in source.banks]
    against = [b.name for b in source.against or source.banks] if source.background else []
    lines = [f"{p.name}: {p.title}".rstrip(": "), *([f"  {p.description}"] * bool(p.description))]
    told = ", ".join(banks) or "none"
    if source.background and source.against:
        told += f" ({', '.join(against)} against the background)"
    lines.append(f"  register {p.register}; embedder {p.embedder}; banks {told}")
    if source.none_prior is not None:
        lines.append(f"  prior probability of none of these {source.none_prior:g}")
    for label in p.labels:
        mark = "  [must not miss]" if label.must_not_miss else ""
        codes = ", ".join([f"ICD-10 {c}" for c in label.icd10] + [f"SNOMED {c}" for c in label.snomed])
        lines.append(f"\n  {label.name}{mark}{'  (' + codes + ')' if codes else ''}")
        lines += [f"    {label.description}"] * bool(label.description)
        lines += [f"    also: {', '.join(label.aliases)}"] * bool(label.aliases)
    lines += [f"\n  {p.notice}"] * bool(p.notice)
    files = {"banks": banks, "against_background": against, "none_of_these_prior": source.none_prior}
    say(json, {**asdict(p), "hash": p.hash, **files}, *lines)


@app.command()
def new(
    path: Annotated[Path, Argument(help="The panel file to write.")],
    label: Annotated[list[str] | None, Option(help="NAME or NAME=DESCRIPTION; repeatable.")] = None,
    register: options.Register = "clinician",
    json: options.AsJson = False,
) -> None:
    """Scaffold a panel file, with comments where there is something to decide."""
    from simdx.bank.plan import weak_model_words
    from simdx.disk import write_atomically
    from simdx.library import find, meant_by
    from simdx.panels import load_panel
    from simdx.panels.load import parse_panel, scaffold

    path = path if path.suffix in (".yaml", ".yml") else path.with_name(path.name + ".yaml")
    given = [text.partition("=") for text in label or ["first diagnosis", "second diagnosis"]]
    labels = {name.strip(): description.strip() for name, _, description in given}
    parse_panel({"labels": [name.strip() for name, _, _ in given], "register": register}, where=path.name)
    if path.exists():
        raise BadInput(f"{path} exists already: choose another name, nothing was written")
    if not path.parent.is_dir():
        raise BadInput(f"the folder {path.parent} does not exist")
    known = from_library(labels, register)
    write_atomically(path, scaffold(path.stem, labels, register, known))
    made = load_panel(path)
    unknown = [name for name in labels if meant_by(name) is None]
    lines = [f"wrote {path}: {len(made.names)} labels"]
    if not unknown:
        lines.append(f"the library describes every label: ask with 'simdx classify TEXT --panel {path}'")
    else:
        if label and register != "general" and len(unknown) == len(labels):
            lines.append(
                "the library knows none of these labels. Are the texts not about illness? Then write "
                "'register: general' into the file"
            )
        elif label and register != "general":
            for name in unknown:
                near = ", ".join(m.condition.name for m in find(name, 3, medical=True))
                lines.append(f"the library does not know '{name}' (nearest by meaning: {near})")
        build = f"simdx bank build --panel {path} --per-label 40 --out {path.with_suffix('')}-bank"
        lines += [
            "next, a bank (simulated texts of each label). Three ways, the best first:",
            "  1  labels that the library has: no model, seconds ('simdx library search WORDS')",
            f"  2  any chat model: 'simdx bank ask --panel {path}', then "
            f"'simdx bank import {path} reply.txt'",
            f"  3  the embedded model ({weak_model_words(made, 40)}): '{build}'",
        ]
    say(json, {"panel": str(path), "labels": list(made.names), "unknown": unknown}, *lines)


def from_library(labels: Iterable[str], register: str) -> "dict[str, Condition]":
    """Labels that name a condition of the library, by name, alias or code."""
    from simdx.library import meant_by

    if register == "general":  # no code of a disease belongs to a text that is not about illness
        return {}
    found = {name: match for name in labels if (match := meant_by(name)) is not None}
    for name, match in found.items():
        if match.how != "name":
            note(f"'{name}' is taken as the library's '{match.condition.name}' ({match.how})")
    return {name: match.condition for name, match in found.items()}


@app.command()
def describe(
    path: Annotated[Path, Argument(help="A panel file.")],
    simulator: Annotated[str, Option(help="The model that proposes; see 'simdx bank build'.")] = "smollm2",
    yes: Annotated[bool, Option("--yes", help="Write what is shown without asking.")] = False,
    json: options.AsJson = False,
) -> None:
    """Have a model propose a line for every label without a description; nothing is written unseen."""
    from simdx.bank.proposals import propose, undescribed, write_descriptions
    from simdx.panels import PACKAGED, load_panel
    from simdx.simulators import get_simulator

    chosen = load_panel(path)
    if str(path) in PACKAGED or not path.is_file():
        raise BadInput(f"'{path}' is not a panel file you can edit")
    found: dict[str, str | None] = {}
    if undescribed(chosen):
        running = get_simulator(simulator, allow_remote=True)  # names of labels alone are sent
        try:
            found = dict(propose(chosen, running))
        finally:
            running.close()
    for name, line in found.items():
        note(f"{name}: {line or '(no usable proposal: write a line yourself)'}")
    usable = {name: line for name, line in found.items() if line}
    agreed = bool(usable) and (
        yes or _agrees(f"Write these lines into {path}? A model wrote them: read them first. [y/N] ")
    )
    if agreed:
        write_descriptions(path, usable)
    state = "; nothing was written; --yes writes them, or edit the file" if usable else ""
    state = "; written" if agreed else state
    told = f"{path}: {len(usable)} of {len(found)} missing descriptions proposed{state}"
    left = len(found) - (len(usable) if agreed else 0)
    say(json, {"panel": chosen.name, "proposed": found, "written": agreed, "without": left}, told)


def _agrees(question: str) -> bool:
    """What a person at a terminal answers; nobody there agrees to nothing."""
    if not sys.stdin.isatty():
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@app.command()
def check(path: Annotated[Path, Argument(help="A panel file.")], json: options.AsJson = False) -> None:
    """Say what is wrong with a panel file (exit 2), or what it could still say (exit 0)."""
    from simdx.panels import PACKAGED, advice_for, load_panel, load_source, problems_of

    if str(path) in PACKAGED:
        path = load_source(path).folder / "panel.yaml"
    problems = problems_of(path)
    advice = [] if problems else advice_for(load_panel(path))
    lines = [] if problems else [f"{path}: fine", *(f"  suggestion: {line}" for line in advice)]
    say(json, {"ok": not problems, "problems": problems, "advice": advice}, *lines)
    if problems:
        ours = (f"panel {path.name}: ", f"panel file {path.name} ")
        said = [p.removeprefix(ours[0]).removeprefix(ours[1]) for p in problems]
        raise BadInput(f"panel {path}: {'; '.join(said)}")


@app.command()
@options.spread
def status(name: PanelArgument, *, chosen: options.PanelDataOptions, json: options.AsJson = False) -> None:
    """How bank, background, calibration and descriptions stand, which is the weakest, and what mends it."""
    from simdx.status import status_of

    found = status_of(name, **asdict(chosen))
    say(json, found.to_json(), *found.lines())


@app.command()
@options.spread
def calibrate(
    name: PanelArgument,
    *,
    chosen: options.PanelDataOptions,
    data: Annotated[Path | None, Option(help="Labelled cases to measure on, from 8 on.")] = None,
    ask: Annotated[
        Path | None, Option(help="Unlabelled texts (txt, JSONL, CSV): label a dozen here.")
    ] = None,
    inside: Annotated[Path | None, Option(help="Labelled texts by another writer.")] = None,
    outside: Annotated[list[Path] | None, Option(help="Texts of none of the labels; repeatable.")] = None,
    json: options.AsJson = False,
) -> None:
    """Find how sure this panel's answers may be, and where none of these begins; keep it with the panel.

    Without --data no labelled case is needed: texts of the bank are left out of the fit and asked about, as
    written and as typed in haste. With --data the cases move what was found by themselves. --ask shows up to
    20 of your own texts, one key each; labels are kept beside the panel after every key, and the same command
    goes on. From 8 on it measures, as --data does.
    """
    from simdx.calibrate import calibrate_panel
    from simdx.cli.progress import Progress

    if ask is not None:
        if data is not None:
            raise BadInput("--ask makes the labelled cases that --data gives: leave one of them out")
        data = _labelled_here(name, chosen, ask, json)
        if data is None:
            return
    with Progress("folds left out and asked") as bar:
        found = calibrate_panel(
            name, **asdict(chosen), data=data, inside=inside, outside=outside or [], progress=bar,
            announce=note,
        )  # fmt: skip
    say(json, found.to_json(), *found.lines())


def _labelled_here(name: str, chosen: options.PanelDataOptions, ask: Path, json: bool) -> Path | None:
    """Labels given in the terminal, as a file to measure on; None while there are too few."""
    from simdx.classifier import Classifier
    from simdx.cli.label import ask_labels
    from simdx.methods.calibration import FEWEST_CASES
    from simdx.panels import PACKAGED
    from simdx.to_label import labelled_file, read_labelled, read_texts, texts_to_ask, write_labelled

    if name in PACKAGED:
        raise BadInput(f"'{name}' is packaged, and labels are kept beside a panel file of yours")
    kept, texts = labelled_file(Path(name)), read_texts(ask)
    classifier = Classifier(name, **asdict(chosen))
    names = classifier.panel.names
    before = read_labelled(kept, names)
    show = [texts[i] for i in texts_to_ask(classifier, texts)]
    note(
        f"{len(show)} of {len(texts)} texts, chosen by how they are answered; {len(before)} labelled so far."
    )
    note(f"Labels and texts are kept in {kept} after every key. {FEWEST_CASES} or more are measured.")
    found = ask_labels(names, show, before, lambda labelled: write_labelled(kept, labelled))
    if len(found) >= FEWEST_CASES:
        return kept
    told = {"panel": classifier.panel.name, "labelled": len(found), "needed": FEWEST_CASES, "kept": str(kept)}
    say(
        json,
        {**told, "calibration": None},
        f"{len(found)} texts are labelled; {FEWEST_CASES} are needed. The calibration is unchanged",
        "run the same command to go on with the next text",
    )
    return None


@app.command()
@options.spread
def prevalence(
    *,
    panel: Annotated[str, Option(metavar="NAME|FILE", help="A packaged panel or a panel file.")],
    unlabelled: Annotated[Path, Option(help="The archive: a file of texts; labels in it are ignored.")],
    chosen: options.PanelDataOptions,
    data: Annotated[
        Path | None, Option(help="Labelled cases, some of none of these: they correct it.")
    ] = None,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """How common the labels, and none of these, are in an archive: shares with intervals, and as priors."""
    from simdx.classifier import Classifier
    from simdx.datasets import read_cases
    from simdx.panels import load_panel
    from simdx.prevalence import prevalence as found_in
    from simdx.types import NONE_OF_THESE

    texts, known = read_cases(unlabelled, labelled=False).texts, (*load_panel(panel).names, NONE_OF_THESE)
    cases = () if data is None else read_cases(data, labels=known).cases
    classifier = Classifier(panel, **asdict(chosen), calibration_cases=cases)
    found = found_in(classifier, texts, cases, seed)
    say(json, found.to_json(), *found.lines())


@app.command("compile")
@options.spread
def compile_(
    name: PanelArgument,
    *,
    chosen: options.PanelDataOptions,
    out: Annotated[Path | None, Option(help="Folder to write to; the cache folder.")] = None,
    json: options.AsJson = False,
) -> None:
    """Fit a panel now and keep what was fitted, so that its first answer takes no longer than others.

    The first answer of a panel does the same, less the decision policy. A compiled panel is found by its
    content: after a change of bank, embedder or recipe it is not used.
    """
    from simdx.classifier import Classifier

    options.check_folder(out, "--out")
    classifier = Classifier(name, **asdict(chosen))
    path = classifier.compile(out)
    size, panel, model = path.stat().st_size, classifier.panel.name, classifier.embedder.id
    found = {"panel": panel, "embedder": model, "bytes": size, "path": str(path)}
    say(json, found, f"{panel}, {model}: {size / 1e6:.1f} MB in {path}")
