"""What can go wrong, and how the command line answers it.

    SimdxError
    ├── BadInput       the user can mend it: exit 2, one line, nothing written
    │   ├── MissingExtra   an optional dependency is not installed; the line says how to install it
    │   └── NotAllowed     text would leave this machine, and nobody said that it may
    └── RunFailed      something broke while running: exit 1, one line

Every message is one sentence that names the problem and, where there is one, the mend. What it quotes may
come from others, so it is shown through `plain`, like everything else on a terminal.
"""

import re
from pathlib import Path

LONGEST = 1_000  # characters of a message


class SimdxError(Exception):
    """Base of every error simdx raises on purpose."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        # A message may name what a file says, and a file may say a megabyte: one line stays one line.
        super().__init__(message if len(message) <= LONGEST else message[: LONGEST - 1] + "…")


class BadInput(SimdxError):
    """The user gave wrong input."""

    exit_code = 2


class MissingExtra(BadInput):
    """A feature was asked for by name and its optional dependency is absent."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional dependency: pip install 'simdx[{extra}]' "
            f"(in a clone: pip install -c requirements/constraints.txt -e '.[{extra}]')"
        )


class NotAllowed(BadInput):
    """Text would leave this machine without permission: nothing was sent."""


class RunFailed(SimdxError):
    """The input was fine, but the run failed."""

    exit_code = 1


def place_of(problem: BaseException) -> str:
    """Type and line of an unexpected error, without its message, which may quote a case."""
    trace, where = problem.__traceback__, ""
    while trace is not None:
        where = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return type(problem).__name__ + where


# Controls that move a terminal's cursor or colour it, and those that turn the direction of writing.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text without control characters, for a terminal; line ends and tabs stay."""
    return CONTROLS.sub("", text)
