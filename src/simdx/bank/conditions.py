"""What a background bank describes: broad on purpose, so that "none of these" means something.

Every branch of medicine a clinician might write about, common before rare; everyday subjects for a panel
that is not about illness. Whatever belongs to the panel itself is left out by name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from simdx.bank.scrub import names_one_of
from simdx.errors import BadInput, RunFailed
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Label, Panel, content_hash

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


# --------------------------------------------------------------------------- near misses
#
# Near misses: the other conditions that a panel's labels are mistaken for, named by a simulator.
#
# A broad list teaches "none of these" what lies far from the panel. What lies close depends on the labels,
# so it is asked for: label by label, several times over with other seeds, and only names come back. An expert
# may read the list, mend it and give it to `simdx bank build --conditions`.

ROUNDS = 4  # a small model names a dozen and then repeats itself; another seed names others
TEMPERATURE = 0.7  # varied lists in every round, and names that exist
MOST_WORDS, MOST_CHARACTERS = 6, 60  # of a name; longer lines are sentences

_ASKED = (
    "Name {n} different medical conditions, other than {name}, that a doctor could mistake for it because "
    "the complaints and findings are alike{features}. Answer with a numbered list of names and nothing else."
)
_ASKED_GENERAL = (
    "Name {n} different subjects, other than {name}, that a reader could mistake for it because people "
    "write about them in much the same words{features}. Answer with a numbered list of names and nothing "
    "else."
)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s*")
_REST = re.compile(r"\s*(?:[:;(\[]| [-–—] |, |(?<=\w{3})\.(?:\s|$)|\bor\b|\be\.g\b).*$")
_NAME = re.compile(r"[^\W\d_][\w'’. –-]*")
PATIENCE = 4  # requests that may fail before the first good one
_LETTERS = 3  # of a name; less is a piece of one


def near_misses(
    panel: Panel,
    simulator: Simulator,
    per_label: int,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Mapping[str, tuple[str, ...]]:
    """label -> at most `per_label` conditions taken for it, none of them in the panel, each named once."""
    asked = [(label, seed) for label in panel.labels for seed in range(ROUNDS)]
    answers: dict[int, Completion] = {}

    def heard() -> bool:
        return any(c.ok for c in answers.values())

    def requests() -> Iterator[Request]:
        for label, seed in asked:
            # A server that has answered nothing so far will not answer the rest.
            if len(answers) >= max(simulator.concurrency, PATIENCE) and not heard():
                return
            yield _request(panel, label, per_label, seed)

    for position, completion in simulator.complete(requests()):
        answers[position] = completion
        watch(len(answers), len(asked))
    if not heard():
        raise RunFailed(f"the simulator named no condition: {next(iter(answers.values())).error}")
    found: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for label in panel.labels:
        given = [c for i, c in sorted(answers.items()) if asked[i][0] is label and c.ok]
        names = (name for c in given for name in names_in(c.text, c.finish_reason))
        new: dict[str, str] = {}
        for name in outside(panel, tuple(names)):
            if name.casefold() not in taken and len(new) < per_label:
                new.setdefault(name.casefold(), name)
        taken |= set(new)
        found[label.name] = tuple(new.values())
    if not taken:
        raise RunFailed("the simulator answered without naming a condition outside the panel")
    return found


def names_in(text: str, finish_reason: str = "stop") -> list[str]:
    """The names a list gives, one per line, without numbers, bullets and explanations.

    Only the first line may lack a bullet, which the model was given; it is a name or nothing. A last line
    that the token limit cut off is dropped.
    """
    lines = text.splitlines()
    names = []
    for number, line in enumerate(lines[:-1] if finish_reason == "length" else lines):
        bare = _BULLET.sub("", line)
        if bare == line and number:
            continue
        tidy = bare.replace("*", "").strip(" \"“”'’.")
        name = tidy if bare == line else _REST.sub("", tidy).strip()
        short = len(name) <= MOST_CHARACTERS and len(name.split()) <= MOST_WORDS
        if short and _NAME.fullmatch(name) and sum(map(str.isalpha, name)) >= _LETTERS:
            names.append(name)
    return names


def _request(panel: Panel, label: Label, per_label: int, seed: int) -> Request:
    asked = _ASKED_GENERAL if panel.register == "general" else _ASKED
    described = label.description.strip().rstrip(".")
    features = f" ({described[:1].lower()}{described[1:]})" if described else ""
    return Request(
        prompt=asked.format(n=per_label, name=label.name, features=features),
        opening="1.",
        temperature=TEMPERATURE,
        max_tokens=12 * per_label,
        seed=int(content_hash("neighbours", label.name, str(seed))[:7], 16),
        stop=("\n\n",),
    )
