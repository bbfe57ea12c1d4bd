"""What a background bank describes: broad on purpose, so that "none of these" means something.

Every branch of medicine a clinician might write about, common before rare; everyday subjects for a panel
that is not about illness. Whatever belongs to the panel itself is left out by name.
"""

import re
from importlib.resources import files
from pathlib import Path

from simdx.bank.scrub import names_one_of
from simdx.errors import BadInput
from simdx.types import Panel

LONGEST_NAME, LARGEST_FILE = 120, 1_000_000  # characters, bytes


def _lines(name: str) -> list[str]:
    return files("simdx.bank").joinpath("data", name).read_text(encoding="utf-8").splitlines()


CONDITIONS = tuple(_lines("conditions.txt"))
# What some of them are like, for models that only repeat a name: one of every branch and more.
FINDINGS = dict(line.split(": ", 1) for line in _lines("findings.txt"))
SUBJECTS = tuple(_lines("subjects.txt"))
# Words that many names share and none is told by.
_GENERAL = {
    "oral", "mouth", "tongue", "cell", "disease", "infection", "cancer", "fever", "acute", "chronic",
    "reaction", "syndrome", "disorder", "bronchial", "cervical", "drug", "allergic", "the", "and",
}  # fmt: skip


def outside(panel: Panel, listed: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """What lies outside the panel.

    Of the broad list: what shares no telling word with a label or alias. Of a list that was given: what does
    not contain the name of one; whoever gives a list chose its words.
    """
    names = [name for label in panel.labels for name in (label.name, *label.aliases)]
    if listed is not None:
        return tuple(condition for condition in listed if not names_one_of(names, condition))
    broad = SUBJECTS if panel.register == "general" else CONDITIONS
    taken = {word for name in names for word in _telling(name)}
    return tuple(condition for condition in broad if not taken & _telling(condition))


def read_conditions(path: Path) -> tuple[str, ...]:
    """One condition a line, each once; empty lines and lines that begin with # say nothing."""
    try:
        if not path.is_file() and path.exists():
            raise BadInput(f"{path} is not a file: give a list of conditions, one a line")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise BadInput(f"{path.name} is over {LARGEST_FILE:,} bytes: it is not a list of conditions")
    try:
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
    named: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        where = f"{path.name} line {number}"
        if len(name) > LONGEST_NAME:
            raise BadInput(f"{where} is not the name of a condition: over {LONGEST_NAME} characters")
        if not name.isprintable():
            raise BadInput(f"{where} holds a character that cannot be printed")
        named.setdefault(name.casefold(), name)
    if not named:
        raise BadInput(f"{path.name} names no condition: give one a line")
    return tuple(named.values())


def _telling(name: str) -> set[str]:
    words = set(re.findall(r"[a-z]{3,}", name.lower()))
    return (words - _GENERAL) or words
