"""`simdx quickstart`: from the names of some labels to answers, a step at a time.

Each step is a command of its own, which is shown and then run: whoever has seen it once can do without.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from simdx.bank import plan
from simdx.bank.files import bank_for, name_bank, read_bank
from simdx.bank.proposals import undescribed, write_descriptions
from simdx.cli import options
from simdx.cli.options import Many, verb
from simdx.cli.output import ask, note, say
from simdx.cli.panel import from_library, near, register_of
from simdx.disk import make_folder, refuse_unwritable, write_atomically
from simdx.errors import BadInput
from simdx.library import meant_by, refuse_twice
from simdx.panels import load_panel, load_source
from simdx.panels.load import parse_panel, scaffold
from simdx.rows import read_rows
from simdx.simulators import identity_of

SAMPLE = 3  # texts a label, shown before the rest is asked for


@verb()
def quickstart(
    labels: Annotated[Many, Argument(metavar="[LABEL[=DESCRIPTION]]…", help="Labels.")] = None,
    out: Annotated[Path, "The folder for panel, bank and calibration."] = Path("panel"),
    register: options.Register = "",
    simulator: Annotated[str | None, "Model for the bank: NAME, FILE.gguf, openai:MODEL@URL."] = None,
    per_label: Annotated[int, Option(min=SAMPLE, help="Texts wanted per label.")] = 40,
    text: Annotated[Many, "A case to classify; default: it is asked for."] = None,
    yes: Annotated[bool, "--yes", "Ask nothing: accept what is shown."] = False,
    serve: Annotated[bool, "Open the page at the end."] = True,
    fast: options.Fast = False,
) -> None:
    """From label names to answers: a panel, a bank, its calibration, your cases, the page.

    The bank comes from the library where it knows every label: no model, seconds. Otherwise it comes from any
    chat model, by a prompt to paste, or from a model on this machine, of which the embedded one is weak.
    """
    options.go_fast(fast)
    file = out / "panel.yaml"
    refuse_unwritable(out)  # an unwritable folder or an unknown model is refused before any question
    if simulator is not None:
        identity_of(simulator)
    given = [(name.strip(), said.strip()) for name, _, said in (item.partition("=") for item in labels or [])]
    if file.is_file():  # the same command again continues where it was; other labels are another panel
        there = {label.name: label.description for label in load_panel(file).labels}
        changed = any(said and said != there.get(name) for name, said in given)
        if changed or (given and there.keys() != dict(given).keys()):
            raise BadInput(f"{file} exists with other labels: edit it, or give another --out")
        note(f"continuing with {file}")
    else:
        _write_panel(file, given, register, yes, simulator)
    if simulator is None and not _has_bank(file):
        simulator = _chosen_way(file, per_label, yes)
        if simulator is None and not _has_bank(file):
            note(f"\nthere is no bank yet. To continue: simdx quickstart --out {shlex.quote(str(out))}")
            return
    inside = _built(file, simulator, per_label, yes) if simulator is not None else ()
    _step("calibration on held-out texts", "panel", "calibrate", file, *inside)
    _step("where it stands", "panel", "status", file)
    for case in text or []:
        _step("a case", "classify", case, "--panel", file)
    while not text and not yes and (case := ask("\na case to classify (Enter: no more): ")):
        _step("a case", "classify", case, "--panel", file)
    if serve:
        _step("the page", "serve", "--panel", file, "--port", 0)


def _step(what: str, *command: object) -> None:
    """Print a command, then run it."""
    from simdx.cli.main import program

    args = [str(part) for part in command]
    note(f"\n# {what}\n$ simdx {shlex.join(args)}")
    ended = typer.main.get_command(program(args)).main(args=args, prog_name="simdx", standalone_mode=False)
    sys.stdout.flush()
    if ended:  # interrupted: the next steps need this one
        raise typer.Exit(ended)


# --------------------------------------------------------------------------- the panel


def _write_panel(
    file: Path, given: list[tuple[str, str]], register: str, yes: bool, simulator: str | None
) -> None:
    """The panel file; labels that were not given and what the library does not know are asked for."""
    if not given and yes:
        raise BadInput(
            "name at least two labels: simdx quickstart 'migraine=one-sided pain' 'tension headache'"
        )
    found = list(given)
    while not given and (name := ask(f"label {len(found) + 1} (Enter: no more): ")):
        found.append((name, ""))
    medical = bool(register) or any((m := meant_by(name)) and m.condition.medical for name, _ in found)
    register = register or register_of(name for name, _ in found)
    parse_panel({"labels": [name for name, _ in found], "register": register}, where="not written")
    labels: dict[str, str] = {}
    for name, said in found:
        unknown = not said and meant_by(name) is None
        if unknown and register != "general":
            note(f"the library does not know '{name}'" + (f"; nearest by meaning: {near(name)}" * medical))
        if unknown and not yes:
            said = ask(f"'{name}': another label, or a line that describes it (Enter: neither): ")
        other = unknown and said and meant_by(said) is not None and said not in dict(found)
        labels |= {said: ""} if other else {name: said}
    refuse_twice(labels)
    if yes:  # nobody can write the lines that a small model needs: refused before anything is written
        model = simulator or (None if all(map(meant_by, labels)) else plan.EMBEDDED)
        silent = [name for name, said in labels.items() if not said]
        if model is not None and silent and plan.voice_for(model) == "short":
            raise BadInput(
                f"{model} needs a line on {', '.join(silent)[:200]}: give it as 'LABEL=DESCRIPTION', or run "
                "without --yes to take a chat model; nothing was written"
            )
    make_folder(file.parent)
    title = re.sub(r"[^\w-]+", "-", file.parent.resolve().name) or "panel"
    write_atomically(file, scaffold(title, labels, register, from_library(labels, register)))
    note(f"wrote {file}: you can edit the description of each label at any time")


# --------------------------------------------------------------------------- the bank


def _has_bank(file: Path) -> bool:
    """Has the panel a bank of its own, or does the library know every label?"""
    try:
        _, bank, _ = bank_for(file)
    except BadInput:
        return False
    if bank.name.endswith(":library"):
        note(f"the library describes every label: {len(bank.texts)} texts, no model is needed")
    return True


def _chosen_way(file: Path, per_label: int, yes: bool) -> str | None:
    """Ask how to make a bank that the library does not have: the model to write it, or None."""
    note("The library does not know every label, so the panel needs a bank. Two ways, the better first:")
    note("  1  from any chat model you have: a prompt to paste, the reply saved to a file")
    note(f"  2  from the embedded model: {plan.weak_model_words(load_panel(file), per_label)}")
    if yes:
        note("--yes: the embedded model writes it")
    if yes or ask("which (1 or 2; Enter: 1): ") == "2":
        return plan.EMBEDDED
    following, replied = file.parent / "chat" / "next-prompt.txt", False
    while following.is_file() or not replied:
        if following.is_file():
            note(f"\nthe next prompt to paste: {following}")
        else:
            _step("what to paste", "bank", "ask", "--panel", file, "--out", file.parent / "ask.txt")
        while (reply := ask("the file with the reply (Enter: no more): ")) and not Path(reply).is_file():
            note(f"there is no file '{reply}'")
        if not reply:
            break
        following.unlink(missing_ok=True)
        _step("the reply", "bank", "import", file, reply)
        replied = True
    return None


def _built(file: Path, simulator: str, per_label: int, yes: bool) -> tuple[object, ...]:
    """Let a model write the bank, name it in the panel, and return options for the calibration."""
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


def _describe(file: Path, simulator: str, yes: bool) -> None:
    """A description for every label without one: proposed by a larger model, or written by the user.

    The embedded model's proposals are useless, so it is not asked.
    """
    silent = [label.name for label in undescribed(load_panel(file))]
    if not silent:
        return
    if plan.voice_for(simulator) != "short":
        propose = ("panel", "describe", file, "--simulator", simulator, *(["--yes"] * yes))
        _step("a line for each label", *propose)
        return
    if yes:
        raise BadInput(
            f"{simulator} needs a line on {', '.join(silent)[:200]}: write it in {file}, or "
            f"take a chat model: simdx bank ask --panel {file}"
        )
    lines = {name: ask(f"a line on '{name}' (this model needs one): ") for name in silent}
    if any(lines.values()):
        write_descriptions(file, {name: line for name, line in lines.items() if line})


def _approve(file: Path, bank: Path, build: tuple[object, ...], yes: bool) -> None:
    """Show three texts a label until the user approves them."""
    while True:
        few = ("--per-label", SAMPLE, "--background", 0, "--rehearsal", 0)
        _step(f"{SAMPLE} texts for each label, to look at", *build, *few)
        panel = load_panel(file)
        made = read_bank(bank, panel)
        for k, label in enumerate(panel.names):
            own = [made.texts[i] for i in (made.label_index == k).nonzero()[0]]
            say(False, None, f"\n{label}", *(f"  - {' '.join(one.split())[:300]}" for one in own))
        if yes:
            return
        said = ask("\nare these texts right? y: build the rest; n: stop; e: I have edited the panel, again: ")
        if said.lower() in ("y", "yes"):
            return
        shutil.rmtree(bank)  # made just now by this command, only to be shown
        if said.lower() not in ("e", "edit"):
            raise BadInput(
                f"nothing was approved: edit {file}, or give another --simulator, and run it again"
            )


def _inside(bank: Path) -> tuple[object, ...]:
    """Texts in another voice, where `bank build` wrote some. A small model may say the same in both voices;
    a text the bank holds says nothing of the calibration, and `panel calibrate` refuses it."""
    other = bank / "rehearsal" / "bank.jsonl"
    if not other.is_file():
        return ()
    held, said = ({row["text"] for _, row in read_rows(path)} for path in (bank / "bank.jsonl", other))
    return () if held & said else ("--inside", other)
