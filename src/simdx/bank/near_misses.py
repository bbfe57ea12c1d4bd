"""Near misses: the other conditions that a panel's labels are mistaken for, named by a simulator.

A broad list teaches "none of these" what lies far from the panel. What lies close depends on the labels, so
it is asked for: label by label, several times over with other seeds, and only names come back. Who knows the
field may read the list, mend it and give it to `simdx bank build --conditions`.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from simdx.bank.conditions import outside
from simdx.errors import RunFailed
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Label, Panel, content_hash

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
