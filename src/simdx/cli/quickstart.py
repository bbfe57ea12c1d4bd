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

from simdx.cli import options
from simdx.cli.output import note, write_line
from simdx.errors import BadInput

SAMPLE = 3  # texts a label, shown before the rest is asked for


def quickstart(
    labels: Annotated[list[str] | None, Argument(metavar="[LABEL[=DESCRIPTION]]…", help="Labels.")] = None,
    out: Annotated[Path, Option(help="The folder for panel, bank and calibration.")] = Path("panel"),
    register: options.Register = "clinician",
    simulator: Annotated[
        str | None, Option(help="Bank by this model: NAME, FILE.gguf, openai:MODEL@URL.")
    ] = None,
    per_label: Annotated[int, Option(min=SAMPLE, help="Texts wanted per label.")] = 40,
    text: Annotated[list[str] | None, Option(help="A case to classify; asked for otherwise.")] = None,
    yes: Annotated[bool, Option("--yes", help="Ask nothing: approve what is shown.")] = False,
    serve: Annotated[bool, Option(help="Open the page at the end.")] = True,
    fast: options.Fast = False,
) -> None:
    """Labels in, answers out: a panel, a bank, its calibration, your cases, the page.

    The bank comes from the library where it knows every label: no model, seconds. Otherwise from any chat
    model, by a prompt to paste; or from a model on this machine, of which the embedded one is weak.
    """
    from simdx.disk import refuse_unwritable
    from simdx.simulators import identity_of

    options.go_fast(fast)
    file = out / "panel.yaml"
    refuse_unwritable(out)  # what cannot be written and a model that does not exist: before anything is asked
    if simulator is not None:
        identity_of(simulator)
    given = [(name.strip(), said.strip()) for name, _, said in (item.partition("=") for item in labels or [])]
    if file.is_file():
        _go_on(file, given)
    else:
        _write_panel(file, _given(given, register, yes), register, yes)
    if simulator is None and not _has_bank(file):
        simulator = _chosen_way(file, per_label, yes)
        if simulator is None and not _has_bank(file):
            note(f"\nthere is no bank yet. To go on: simdx quickstart --out {shlex.quote(str(out))}")
            return
    inside = _built(file, simulator, per_label, yes) if simulator is not None else ()
    _step("calibration on held-out texts", "panel", "calibrate", file, *inside)
    _step("where it stands", "panel", "status", file)
    for case in text or []:
        _step("a case", "classify", case, "--panel", file)
    while not text and not yes and (case := _ask("\na case to classify (Enter: no more): ")):
        _step("a case", "classify", case, "--panel", file)
    if serve:
        _step("the page", "serve", "--panel", file, "--port", 0)


def _has_bank(file: Path) -> bool:
    """Has the panel a bank of its own, or does the library know every label?"""
    from simdx.bank.files import bank_for

    try:
        _, bank, _ = bank_for(file)
    except BadInput:
        return False
    if bank.name.endswith(":library"):
        note(f"the library describes every label: {len(bank.texts)} texts, no model is needed")
    return True


def _chosen_way(file: Path, per_label: int, yes: bool) -> str | None:
    """How to come to a bank that the library does not have: the model that shall write it, or None."""
    from simdx.bank.plan import EMBEDDED, weak_model_words
    from simdx.panels import load_panel

    weak = weak_model_words(load_panel(file), per_label)
    note("the library does not know every label, so the panel needs a bank. Two ways, the better first:")
    note("  1  from any chat model you have: a prompt to paste, the reply saved to a file")
    note(f"  2  from the embedded model: {weak}")
    if yes:
        note("--yes: the embedded model writes it")
        return EMBEDDED
    if _ask("which (1 or 2; Enter: 1): ") == "2":
        return EMBEDDED
    following, replied = file.parent / "chat" / "next-prompt.txt", False
    while True:
        if following.is_file():
            note(f"\nthe next prompt to paste: {following}")
        elif not replied:
            _step("what to paste", "bank", "ask", "--panel", file, "--out", file.parent / "ask.txt")
        reply = _ask("the file with the reply (Enter: no more): ")
        if not reply:
            return None
        if not Path(reply).is_file():
            note(f"there is no file '{reply}'")
            continue
        following.unlink(missing_ok=True)
        _step("the reply", "bank", "import", file, reply)
        replied = True
        if not following.is_file():
            return None


def _built(file: Path, simulator: str, per_label: int, yes: bool) -> tuple[object, ...]:
    """Let a model write the bank, and name it in the panel; what the rehearsal is told of it."""
    from simdx.bank.files import name_bank
    from simdx.panels import load_source

    _describe(file, simulator, yes)
    bank = file.parent / "bank"
    build = ("bank", "build", "--panel", file, "--simulator", simulator, "--out", bank)
    if not (bank / "manifest.json").is_file():
        _approve(file, bank, build, yes)
    _step("the bank", *build, "--per-label", per_label)
    if not load_source(file).banks:
        background = "bank/background.jsonl" if (bank / "background.jsonl").is_file() else None
        name_bank(file, "bank/bank.jsonl", background)
    _step("how well its labels are told apart", "bank", "show", bank, "--panel", file)
    return _inside(bank)


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
        raise BadInput(f"{file} exists with other labels: edit it, or give another --out")
    note(f"going on with {file}")


def _given(labels: list[tuple[str, str]], register: str, yes: bool) -> dict[str, str]:
    """Labels with their descriptions; what the library does not know is asked for."""
    from simdx.library import find, meant_by
    from simdx.panels.load import parse_panel

    if not labels and yes:
        raise BadInput(
            "name at least two labels: simdx quickstart 'migraine=one-sided pain' 'tension headache'"
        )
    found = list(labels)
    while not labels and (name := _ask(f"label {len(found) + 1} (Enter: no more): ")):
        found.append((name, ""))
    parse_panel({"labels": [name for name, _ in found], "register": register}, where="not written")
    chosen: dict[str, str] = {}
    for name, said in found:
        if said or meant_by(name) is not None:
            chosen[name] = said
            continue
        near = [m.condition.name for m in find(name, 3, medical=True)] if register != "general" else []
        if near:
            note(f"the library does not know '{name}'; it knows {', '.join(near)}")
        asked = (
            ""
            if yes
            else _ask(f"'{name}': another label, or a line on how it shows itself (Enter: as it is): ")
        )
        same = meant_by(asked) if asked else None
        chosen |= {asked: ""} if same is not None and asked not in dict(found) else {name: asked}
    return chosen


def _write_panel(file: Path, labels: dict[str, str], register: str, yes: bool) -> None:
    from simdx.cli.panel import from_library
    from simdx.disk import make_folder, write_atomically
    from simdx.panels.load import scaffold

    make_folder(file.parent)
    name = re.sub(r"[^\w-]+", "-", file.parent.resolve().name) or "panel"
    write_atomically(file, scaffold(name, labels, register, from_library(labels, register)))
    note(f"wrote {file}: edit the description of each label at any time")


def _describe(file: Path, simulator: str, yes: bool) -> None:
    """A line for every label that has none: from a larger model, which proposes it, or from whoever is there.

    What the embedded model proposes is no description, so it is not asked.
    """
    from simdx.bank.plan import voice_for
    from simdx.bank.proposals import undescribed, write_descriptions
    from simdx.panels import load_panel

    if not undescribed(load_panel(file)):
        return
    if voice_for(simulator) != "short":
        _step(
            "a line for each label", "panel", "describe", file, "--simulator", simulator, *(["--yes"] * yes)
        )
        return
    silent = undescribed(load_panel(file))
    if yes:
        raise BadInput(
            f"{simulator} needs a line on {', '.join(x.name for x in silent)[:200]}: write it in {file}, or "
            f"take a chat model: simdx bank ask --panel {file}"
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


def _ask(question: str) -> str:
    """A line of standard input; the question goes to stderr, so that answers alone are printed."""
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise BadInput("no terminal to ask in: run it in one, or with the labels as arguments and --yes")
    return line.strip()
