"""`simdx quickstart`: from the names of some labels to answers, a step at a time.

Each step is a command of its own, which is shown and then run: whoever has seen it once can do without.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from simdx.cli.output import note, write_line
from simdx.errors import BadInput

SAMPLE = 3  # texts a label, shown before the rest is asked for


def quickstart(
    labels: Annotated[
        list[str] | None, Argument(metavar="[LABEL[=DESCRIPTION]]…", help="The labels.")
    ] = None,
    out: Annotated[Path, Option(help="The folder for panel, bank and calibration.")] = Path("panel"),
    register: Annotated[
        str, Option(help="clinician | patient | case-report | plain | general.")
    ] = "clinician",
    simulator: Annotated[str, Option(help="A named model, FILE.gguf or openai:MODEL@URL.")] = "smollm2",
    per_label: Annotated[int, Option(min=SAMPLE, help="Descriptions wanted per label.")] = 40,
    text: Annotated[list[str] | None, Option(help="A case to classify; asked for otherwise.")] = None,
    yes: Annotated[bool, Option("--yes", help="Ask nothing: approve what is shown.")] = False,
    serve: Annotated[bool, Option(help="Open the page at the end.")] = True,
) -> None:
    """Labels in, answers out: panel, three texts a label to approve, bank, rehearsal, score, cases, page."""
    from simdx.disk import refuse_unwritable
    from simdx.simulators import identity_of

    file = out / "panel.yaml"
    refuse_unwritable(out)  # what cannot be written and a model that does not exist: before anything is asked
    identity_of(simulator)
    given = [(name.strip(), said.strip()) for name, _, said in (item.partition("=") for item in labels or [])]
    if file.is_file():
        _go_on(file, given)
    else:
        _write_panel(file, _given(given, register, yes), register, yes)
    _describe(file, simulator, yes)
    bank = out / "bank"
    build = ("bank", "build", "--panel", file, "--simulator", simulator, "--out", bank)
    if not (bank / "manifest.json").is_file():
        _approve(file, bank, build, yes)
    _step("the bank", *build, "--per-label", per_label)
    _list_bank(file)
    _step("its score: what it tells apart", "bank", "show", bank, "--panel", file)
    _step("a rehearsal: how sure it may be", "panel", "calibrate", file, *_inside(bank))
    _step("where it stands", "panel", "status", file)
    for case in text or []:
        _step("a case", "classify", case, "--panel", file)
    while not text and not yes and (case := _ask("\na case to classify (Enter: no more): ")):
        _step("a case", "classify", case, "--panel", file)
    if serve:
        _step("the page", "serve", "--panel", file, "--port", 0)


def _step(what: str, *command: object) -> None:
    """Say a command, then run it here."""
    import typer

    from simdx.cli.main import program

    args = [str(part) for part in command]
    note(f"\n# {what}\n$ simdx {shlex.join(args)}")
    ended = typer.main.get_command(program(args)).main(args=args, prog_name="simdx", standalone_mode=False)
    sys.stdout.flush()
    if ended:  # interrupted: what comes after has nothing to stand on
        raise typer.Exit(ended)


def _go_on(file: Path, given: list[tuple[str, str]]) -> None:
    """The same command again goes on where it was; other labels are another panel."""
    from simdx.panels import load_panel

    there = {label.name: label.description for label in load_panel(file).labels}
    if any(said and said != there.get(name) for name, said in given) or (
        given and there.keys() != dict(given).keys()
    ):
        raise BadInput(f"{file} has its labels already: edit it, or name another folder with --out")
    note(f"going on with {file}")


def _given(labels: list[tuple[str, str]], register: str, yes: bool) -> dict[str, str]:
    """Labels with their descriptions, asked for where none was given."""
    from simdx.panels.load import parse_panel

    if not labels and yes:
        raise BadInput(
            "name at least two labels: simdx quickstart 'migraine=one-sided pain' 'tension headache'"
        )
    found = list(labels)
    while not labels and (name := _ask(f"label {len(found) + 1} (Enter: no more): ")):
        found.append((name, ""))
    parse_panel({"labels": [name for name, _ in found], "register": register}, where="not written")
    return {
        name: said
        if said or yes
        else _ask(f"how does '{name}' show itself, in a line? (Enter: ask the model): ")
        for name, said in found
    }


def _write_panel(file: Path, labels: dict[str, str], register: str, yes: bool) -> None:
    from simdx.disk import make_folder, write_atomically
    from simdx.panels.load import scaffold

    make_folder(file.parent)
    name = re.sub(r"[^\w-]+", "-", file.parent.resolve().name) or "panel"
    write_atomically(file, scaffold(name, labels, register))
    note(f"wrote {file}: a line for each label stands under 'description:', to be edited at any time")
    if not yes:
        _ask("edit it now, or not; then press Enter: ")


def _describe(file: Path, simulator: str, yes: bool) -> None:
    """A line for every label that has none: proposed by the model and shown, else asked for."""
    from simdx.bank.describe import undescribed, write_descriptions
    from simdx.bank.plan import voice_for
    from simdx.panels import load_panel

    if not undescribed(load_panel(file)):
        return
    agreed = ("--yes",) if yes else ()
    _step("a line for each label", "panel", "describe", file, "--simulator", simulator, *agreed)
    silent = undescribed(load_panel(file)) if voice_for(simulator) == "short" else ()
    if silent and yes:
        raise BadInput(
            f"{simulator} has no line for {', '.join(x.name for x in silent)[:200]}: write one in {file}, "
            f"then: simdx quickstart --out {file.parent} --simulator {simulator} --yes"
        )
    asked = {label.name: _ask(f"a line on '{label.name}' (this model needs one): ") for label in silent}
    if any(asked.values()):
        write_descriptions(file, {name: line for name, line in asked.items() if line})


def _approve(file: Path, bank: Path, build: tuple[object, ...], yes: bool) -> None:
    """Three texts a label, until somebody says they are right."""
    from simdx.bank.files import read_bank
    from simdx.panels import load_panel

    while True:
        few = ("--per-label", SAMPLE, "--background", 0, "--rehearsal", 0)
        _step(f"{SAMPLE} texts a label, to look at", *build, *few)
        panel = load_panel(file)
        made = read_bank(bank, panel)
        for k, label in enumerate(panel.names):
            write_line(f"\n{label}")
            for i in (made.label_index == k).nonzero()[0]:
                write_line(f"  - {' '.join(made.texts[i].split())[:300]}")
        if yes:
            return
        said = _ask(
            "\nare these texts right? y: build the rest; n: stop; e: I have edited the panel, again: "
        )
        if said.lower() in ("y", "yes"):
            return
        shutil.rmtree(bank)  # made a moment ago, by this command, for these eyes
        if said.lower() not in ("e", "edit"):
            raise BadInput(
                f"nothing was approved: edit {file}, or give another --simulator, and run it again"
            )


def _inside(bank: Path) -> tuple[object, ...]:
    """Texts in another voice, where `bank build` wrote some. A small model may say the same in both voices;
    a text the bank holds is no rehearsal, and `panel calibrate` refuses it."""
    from simdx.rows import read_rows

    other = bank / "rehearsal" / "bank.jsonl"
    if not other.is_file():
        return ()
    held, said = ({row["text"] for _, row in read_rows(path)} for path in (bank / "bank.jsonl", other))
    return () if held & said else ("--inside", other)


def _list_bank(file: Path) -> None:
    """Let the panel name its bank, so that --panel alone finds it."""
    from simdx.disk import write_atomically
    from simdx.panels import load_source

    if load_source(file).banks:
        return
    lines = ["banks: [bank/bank.jsonl]"]
    if (file.parent / "bank" / "background.jsonl").is_file():
        lines.append("background: bank/background.jsonl")
    write_atomically(file, file.read_text(encoding="utf-8").rstrip("\n") + "\n" + "\n".join(lines) + "\n")


def _ask(question: str) -> str:
    """A line of standard input; the question goes to stderr, so that answers alone are printed."""
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise BadInput(
            "there is nobody to ask: run it in a terminal, or with the labels as arguments and --yes"
        )
    return line.strip()
