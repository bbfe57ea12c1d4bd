"""The command line: registers the verbs and decides the exit code of every run.

A verb's module is imported when the verb is called.

Exit 0 done; 2 bad input, one clear line on stderr; 1 a failure while running, one line on stderr.
Set SIMDX_DEBUG=1 to see the traceback of a failure.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import typer

from simdx.errors import SimdxError, plain

# Where each verb is, and what `simdx --help` says of it.
VERBS = {
    "quickstart": ("quickstart", "Go from label names to answers, step by step."),
    "classify": ("classify", "Classify one text: probabilities, decision and evidence."),
    "read": ("classify.read", "Show which findings of a text are present or negated."),
    "evaluate": ("evaluate", "Measure accuracy and calibration on labelled cases."),
    "compare": ("evaluate.compare", "Compare two evaluations of the same cases."),
    "panel": ("panel.app", "Panels (sets of labels): make, check, calibrate."),
    "library": ("models.library", "The library of conditions and topics: search, show."),
    "models": ("models.app", "Model weights: list, download, verify."),
    "bank": ("bank.app", "Banks (simulated texts of each label): make, check."),
    "abi": ("models.abi", "A network that answers as D-SMC does: train, report."),
    "bench": ("scale.bench", "Measure speed on this machine."),
    "review": ("evaluate.review", "Blinded expert review of cases and banks."),
    "policy": ("evaluate.policy", "Decision thresholds: tune, show."),
    "serve": ("serve", "Answer over HTTP: API, CDS Hooks, FHIR and a web page."),
    "token": ("serve.token", "Tokens: who may call the service."),
    "audit": ("serve.audit", "The audit log of the service: export, verify."),
    "mcp": ("serve.mcp", "Answer an assistant's tool calls (Model Context Protocol)."),
    "scale": ("scale.app", "Many cases on a machine or cluster; banks from servers."),
    "validate": ("scale.validate", "Check the recipe's constants on other panels."),
}


def program(args: Sequence[str] | None = None) -> typer.Typer:
    """The command line with the verb that the arguments name, or with a list of all verbs.

    Without arguments: with all verbs whole, which imports all of them.
    """
    app = typer.Typer(
        name="simdx",
        help="Sort a text into your labels or none of these, with calibrated probabilities.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_root)
    named = next((arg for arg in args or () if not arg.startswith("-")), None)
    for verb, (place, said) in VERBS.items():
        if named in VERBS and verb != named:
            continue
        if args is not None and named not in VERBS:  # `simdx --help` shows names alone
            app.command(verb, short_help=said)(lambda: None)
            continue
        module, _, name = place.partition(".")
        found = getattr(import_module(f"simdx.cli.{module}"), name or verb)
        if isinstance(found, typer.Typer):  # a verb with verbs of its own
            app.add_typer(found, name=verb, help=said, short_help=said, no_args_is_help=True)
            for one in found.registered_commands:  # its first sentence whole: it would be cut off
                sentence = (inspect.getdoc(one.callback) or "").partition("\n\n")[0]
                one.short_help = " ".join(sentence.split())
        else:
            app.command(verb, short_help=said)(found)
    return app


def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from simdx import __version__

        print(__version__)
        raise typer.Exit()
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `simdx` command."""
    # Matrix products are small: a second numpy thread makes none faster and only spins. numpy reads this when
    # it is loaded; a value set by the user is kept.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    args = spread_repeated(list(sys.argv[1:] if argv is None else argv))

    def command() -> object:
        # Made inside: with too little memory even this may fail, and must fail in one line.
        made = typer.main.get_command(program(args))
        return made.main(args=args, prog_name="simdx", standalone_mode=False)

    sys.exit(guarded(command))


def guarded(call: Callable[[], object]) -> int:
    """Run a command and turn its result or error into an exit code and at most one line."""
    try:
        result = call()
        sys.stdout.flush()
        if result == 130:  # typer's own ending of an interrupted command, which says nothing
            return _complain("interrupted", 130)
        return result if isinstance(result, int) else 0
    except SimdxError as error:
        # A library that finds no room looks like one that is not installed.
        return _complain(*((_NO_MEMORY, 1) if _no_room(error.__context__) else (str(error), error.exit_code)))
    except BrokenPipeError:
        # The reader of our output has closed it; redirect stdout so that exit does not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except MemoryError:
        return _complain(_NO_MEMORY, 1)
    except Exception as error:
        if _no_room(error):
            return _complain(_NO_MEMORY, 1)
        if type(error).__name__ == "NoArgsIsHelpError":  # a bare verb: its help, in lines as it was made
            print(plain(str(error)), file=sys.stderr)
            return 2
        if hasattr(error, "format_message"):  # typer's own usage errors, whichever click it carries
            said = error.format_message()
            hint = "put a text of several words in quotes" if "unexpected extra arg" in said else "see --help"
            return _complain(f"{said} ({hint})", 2)
        if type(error).__name__ == "Abort":
            return _complain("interrupted", 130)
        if os.environ.get("SIMDX_DEBUG"):
            raise
        # The message of an unforeseen error may quote what was being processed: name its kind only.
        detail = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        return _complain(
            f"failed with {type(error).__name__}{detail} (set SIMDX_DEBUG=1 for the traceback)", 1
        )


_NO_MEMORY = "out of memory: give a smaller bank, fewer texts at once, or more memory"
# What the loader says of a library there is no room for.
_UNMAPPED = re.compile("allocate memory|failed to map segment", re.IGNORECASE)


def _no_room(error: BaseException | None) -> bool:
    return isinstance(error, ImportError) and _UNMAPPED.search(str(error)) is not None


def _complain(message: str, code: int) -> int:
    print("simdx: " + " ".join(plain(message).split()), file=sys.stderr)
    return code


_ASSIGNMENT = re.compile(r"[^=\s][^=]*=\s*[-+]?(\d[\d.eE+-]*|\.\d+|nan|inf)", re.IGNORECASE)


def spread_repeated(args: list[str]) -> list[str]:
    """Expand `--prior a=.2 b=.3`, the documented form, to `--prior a=.2 --prior b=.3`."""
    out: list[str] = []
    option: str | None = None
    for arg in args:
        if arg in ("--prior", "--prior-counts", "--odds"):
            option = arg
            out.append(arg)
        elif option and out[-1] != option and _ASSIGNMENT.fullmatch(arg):
            out += [option, arg]
        else:
            if option and out[-1] != option:
                option = None
            out.append(arg)
    return out
