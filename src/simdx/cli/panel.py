"""`simdx panel list|show|new|describe|check|status|calibrate|prevalence|compile`."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from simdx import simulators
from simdx.bank import proposals
from simdx.cli import options
from simdx.cli.options import File, Many, Told, verb
from simdx.cli.output import Progress, note
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.library import Condition, find, meant_by, named_twice, refuse_twice
from simdx.panels import PACKAGED, advice_for, load_panel, load_source, problems_of
from simdx.panels.load import parse_panel, scaffold
from simdx.types import NONE_OF_THESE

app = Typer()

PanelArgument = Annotated[str, Argument(metavar="NAME|FILE", help="A packaged panel or a panel file.")]
PanelFile = Annotated[Path, Argument(help="A panel file.")]


@verb(app, "list")
def list_() -> Told:
    """List the packaged panels."""
    panels = [load_panel(name) for name in PACKAGED]
    return (
        {"panels": [{"name": p.name, "title": p.title, "labels": list(p.names)} for p in panels]},
        *(f"{p.name:22} {len(p.names)} labels  {p.title}" for p in panels),
    )


@verb(app)
def show(name: PanelArgument) -> Told:
    """Show the labels of a panel and what is known about each."""
    source = load_source(name)
    p, banks = source.panel, [b.name for b in source.banks]
    against = [b.name for b in source.against or source.banks] if source.background else []
    told = ", ".join(banks) or "none"
    if source.background and source.against:
        told += f" ({', '.join(against)} against the background)"
    lines = [f"{p.name}: {p.title}".rstrip(": "), *([f"  {p.description}"] * bool(p.description))]
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
    return {**asdict(p), "hash": p.hash, **files}, *lines


@verb(app)
def new(
    path: Annotated[Path, Argument(help="The panel file to write.")],
    label: Annotated[Many, "NAME or NAME=DESCRIPTION; repeatable."] = None,
    register: options.Register = "",
) -> Told:
    """Make a panel file, with comments where there is something to decide."""
    from simdx.bank.plan import weak_model_words

    path = path if path.suffix in (".yaml", ".yml") else path.with_name(path.name + ".yaml")
    given = [text.partition("=") for text in label or ["first diagnosis", "second diagnosis"]]
    labels = {name.strip(): description.strip() for name, _, description in given}
    register = register or register_of(labels)
    parse_panel({"labels": [name.strip() for name, _, _ in given], "register": register}, where=path.name)
    if path.exists():
        raise BadInput(f"{path} exists already: nothing was written; choose another name")
    if not path.parent.is_dir():
        raise BadInput(f"the folder {path.parent} does not exist")
    refuse_twice(labels)
    write_atomically(path, scaffold(path.stem, labels, register, from_library(labels, register)))
    made = load_panel(path)
    unknown = [name for name in labels if meant_by(name) is None]
    lines = [f"wrote {path}: {len(made.names)} labels"]
    if not unknown:
        lines.append(f"the library describes every label: ask with 'simdx classify TEXT --panel {path}'")
    else:
        medical = register != "general"
        if label and medical and len(unknown) == len(labels):
            lines.append(
                "the library knows none of these labels. If the texts are not about illness, write "
                "'register: general' into the file"
            )
        elif label:
            known = "(nearest by meaning: {})"
            lines += [f"the library does not know '{n}' {known.format(near(n, medical))}" for n in unknown]
        build = f"simdx bank build --panel {path} --per-label 40 --out {path.with_suffix('')}-bank"
        lines += [
            "Next, the panel needs a bank (simulated texts of each label). Three ways, the best first:",
            "  1  labels that the library has: no model, seconds ('simdx library search WORDS')",
            f"  2  any chat model: 'simdx bank ask --panel {path}', then "
            f"'simdx bank import {path} reply.txt'",
            f"  3  the embedded model ({weak_model_words(made, 40)}): '{build}'",
        ]
    return {"panel": str(path), "labels": list(made.names), "unknown": unknown}, *lines


def near(name: str, medical: bool = True) -> str:
    """The library's conditions, or topics, nearest in meaning to a label that it does not know."""
    return ", ".join(match.condition.name for match in find(name, 3, medical=medical))


def register_of(labels: Iterable[str]) -> str:
    """The register: general if every label is an everyday topic of the library, else the default."""
    found = [meant_by(name) for name in labels]
    return "general" if found and all(f and not f.condition.medical for f in found) else "clinician"


def from_library(labels: Iterable[str], register: str) -> dict[str, Condition]:
    """Labels that name a condition of the library, by name, alias or code."""
    if register == "general":  # no code of a disease belongs to a text that is not about illness
        return {}
    found = {name: match for name in labels if (match := meant_by(name)) is not None}
    for name, match in found.items():
        if match.how != "name":
            note(f"'{name}' is taken as the library's '{match.condition.name}' ({match.how})")
    return {name: match.condition for name, match in found.items()}


@verb(app)
def describe(
    path: PanelFile,
    simulator: Annotated[str, "The model that proposes; see 'simdx bank build'."] = "smollm2",
    yes: Annotated[bool, "--yes", "Write what is shown without asking."] = False,
) -> Told:
    """Have a model propose the missing descriptions; you see each before it is written."""
    chosen = load_panel(path)
    if str(path) in PACKAGED or not path.is_file():
        raise BadInput(f"'{path}' is not a panel file you can edit")
    found: dict[str, str | None] = {}
    if proposals.undescribed(chosen):
        with closing(simulators.get_simulator(simulator, allow_remote=True)) as running:  # labels are sent
            found = dict(proposals.propose(chosen, running))
    for name, line in found.items():
        note(f"{name}: {line or '(no usable proposal: write a line yourself)'}")
    usable = {name: line for name, line in found.items() if line}
    question = f"A model wrote these lines: read them first. Write them into {path}? [y/N] "
    agreed = bool(usable) and (yes or _agrees(question))
    if agreed:
        proposals.write_descriptions(path, usable)
    state = "; nothing was written; --yes writes them, or edit the file" if usable else ""
    told = f"{path}: {len(usable)} of {len(found)} missing descriptions proposed"
    left = len(found) - (len(usable) if agreed else 0)
    shown = {"panel": chosen.name, "proposed": found, "written": agreed, "without": left}
    return shown, told + ("; written" if agreed else state)


def _agrees(question: str) -> bool:
    """The answer of a person at a terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    note(question, end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@verb(app)
def check(path: PanelFile) -> Told:
    """Check a panel file: errors (exit 2), or suggestions (exit 0)."""
    if str(path) in PACKAGED:
        path = load_source(path).folder / "panel.yaml"
    problems = problems_of(path)
    shown = {"ok": not problems, "problems": problems}
    if problems:
        ours = (f"panel {path.name}: ", f"panel file {path.name} ")
        said = [p.removeprefix(ours[0]).removeprefix(ours[1]) for p in problems]
        return shown | {"advice": []}, BadInput(f"panel {path}: {'; '.join(said)}")
    panel = load_panel(path)
    advice = [f"{said}: its texts cannot tell them apart" for said in named_twice(panel.names)]
    advice += advice_for(panel)
    return shown | {"advice": advice}, f"{path}: no errors", *(f"  suggestion: {line}" for line in advice)


@verb(app)
def status(name: PanelArgument, *, chosen: options.PanelDataOptions) -> Told:
    """Show the state of bank, background, calibration and descriptions; name the weakest and its remedy."""
    from simdx.upkeep import lines, status_of

    found = status_of(name, **asdict(chosen))
    return found, *lines(found)


@verb(app)
def calibrate(
    name: PanelArgument,
    *,
    chosen: options.PanelDataOptions,
    data: Annotated[File, "Labelled cases to measure on, at least 8."] = None,
    ask: Annotated[File, "Unlabelled texts (txt, JSONL, CSV): label a dozen here."] = None,
    inside: Annotated[File, "Labelled texts by another writer."] = None,
    outside: Annotated[list[Path] | None, "Texts of none of the labels; repeatable."] = None,
) -> Told:
    """Calibrate a panel: the confidence of its answers and the threshold of none of these.

    Without --data no labelled case is needed: texts of the bank are held out and classified, as written and
    with typing errors. With --data your labelled cases set the calibration. --ask shows up to 20 of your own
    texts, one key each; labels are saved beside the panel after every key, and the same command continues.
    From 8 labels on the calibration is measured, as with --data. The result is saved with the panel.
    """
    from simdx.upkeep import calibrate_panel

    if ask is not None:
        if data is not None:
            raise BadInput("--ask makes the labelled cases that --data gives: give only one of them")
        data, told = _labelled_here(name, chosen, ask)
        if data is None:
            return told
    with Progress("folds held out and classified") as bar:
        found = calibrate_panel(
            name, **asdict(chosen), data=data, inside=inside, outside=outside or [], progress=bar,
            announce=note,
        )  # fmt: skip
    return found.to_json(), *found.lines()


def _labelled_here(name: str, chosen: options.PanelDataOptions, ask: Path) -> tuple[Path | None, Told]:
    """The file of labels given in the terminal; while there are too few, a report instead."""
    from simdx.archive import labelled_file, read_labelled, read_texts, texts_to_ask, write_labelled
    from simdx.methods.calibration import FEWEST_CASES

    if name in PACKAGED:
        said = f"'{name}' is packaged, and labels are saved beside a panel file: copy the panel first"
        raise BadInput(said)
    kept, texts = labelled_file(Path(name)), read_texts(ask)
    classifier = chosen.classifier(name)
    names = classifier.panel.names
    before = read_labelled(kept, names)
    show = [texts[i] for i in texts_to_ask(classifier, texts)]
    new = [text for text in show if text not in before]
    if not new and len(before) < FEWEST_CASES:
        few = f"{len(before)} are labelled, and {FEWEST_CASES} are needed"
        raise BadInput(f"no text of {ask.name} is left to label, beside those of the bank: {few}")
    note(f"{len(show)} of {len(texts)} texts, chosen by their scores; {len(before)} labelled so far.")
    if len(before) + len(new) < FEWEST_CASES:
        note(
            f"These are too few: {FEWEST_CASES} labels are needed. Give more texts, now or in a further file."
        )
    note(f"Labels and texts are saved in {kept} after every key. {FEWEST_CASES} or more are measured.")
    n = len(ask_labels(names, show, before, lambda labelled: write_labelled(kept, labelled)))
    told = {"panel": classifier.panel.name, "labelled": n, "needed": FEWEST_CASES, "kept": str(kept)}
    return kept if n >= FEWEST_CASES else None, (
        {**told, "calibration": None},
        f"{n} texts are labelled; {FEWEST_CASES} are needed. The calibration is unchanged.",
        "Run the same command to continue with the next text.",
    )


KEYS = "123456789abcdefghijklmnoprtvwxyz"  # without those below
NONE, SKIP, UNDO, STOP = "0", "s", "u", "q"
LONGEST = 4_000  # characters of a text that are shown


def ask_labels(
    names: Sequence[str],
    texts: Sequence[str],
    labelled: Mapping[str, str],
    save: Callable[[Mapping[str, str]], None],
) -> dict[str, str]:
    """text -> label, including earlier ones; `save` is called after every key."""
    if len(names) > len(KEYS):
        raise BadInput(f"{len(names)} labels are more than the {len(KEYS)} keys: label a file, give --data")
    meaning = {**dict(zip(KEYS, names, strict=False)), NONE: NONE_OF_THESE}
    given, seen = dict(labelled), list[str]()  # labelled or skipped
    left = [text for text in texts if text not in given]
    total = len(given) + len(left)
    with _keys() as next_key:
        while len(seen) < len(left):
            text = left[len(seen)]
            note(f"\n--- {len(given) + 1} of {total} ---")
            note(textwrap.fill(" ".join(text.split())[:LONGEST], 100))
            note("  " + "   ".join(f"{key} {name}" for key, name in meaning.items()))
            note(f"  {SKIP} skip   {UNDO} undo   {STOP} stop: ", end="")
            key = next_key()
            if key == STOP:
                note(STOP)
                break
            if key == UNDO and seen:
                given.pop(seen.pop(), None)
                note("undone")
            elif key in (*meaning, SKIP):
                seen.append(text)
                if key in meaning:
                    given[text] = meaning[key]
                note(meaning.get(key, "skipped"))
            else:
                note("nothing to undo" if key == UNDO else "no such key")
                continue
            save(given)
    return given


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that reads one key, or a line without a terminal. The end of input stops."""
    if not sys.stdin.isatty():
        yield lambda: (sys.stdin.readline().strip().lower() or STOP)[:1]
        return
    import termios
    import tty

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        yield lambda: (sys.stdin.read(1).lower() or STOP).replace("\x04", STOP)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


@verb(app)
def prevalence(
    *,
    panel: Annotated[str, Option(metavar="NAME|FILE", help="A packaged panel or a panel file.")],
    unlabelled: Annotated[Path, "The archive: a file of texts; labels in it are ignored."],
    chosen: options.PanelDataOptions,
    data: Annotated[File, "Labelled cases, some of none of these."] = None,
    seed: options.Seed = 0,
) -> Told:
    """Estimate the shares of the labels and of none of these in an archive, for use as priors."""
    from simdx.archive import lines, read_texts
    from simdx.archive import prevalence as found_in
    from simdx.datasets import read_cases

    texts, known = read_texts(unlabelled), options.outcomes(panel)
    cases = () if data is None else read_cases(data, labels=known).cases
    found = found_in(chosen.classifier(panel, calibration_cases=cases), texts, cases, seed)
    return found, *lines(found)


@verb(app, "compile")
def compile_(
    name: PanelArgument,
    *,
    chosen: options.PanelDataOptions,
    out: Annotated[File, "Folder to write to; default: the cache folder."] = None,
) -> Told:
    """Fit a panel now and save the fit, so that its first answer is as fast as the others.

    The first answer of a panel does the same, except for the decision policy. After a change of bank,
    embedder or recipe a compiled panel is no longer used.
    """
    options.check_folder(out, "--out")
    classifier = chosen.classifier(name)
    path = classifier.compile(out)
    size, panel, model = path.stat().st_size, classifier.panel.name, classifier.embedder.id
    found = {"panel": panel, "embedder": model, "bytes": size, "path": str(path)}
    return found, f"{panel}, {model}: {size / 1e6:.1f} MB in {path}"
