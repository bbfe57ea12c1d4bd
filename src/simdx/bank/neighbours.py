"""Near misses: the other conditions that a panel's labels are mistaken for, named by a simulator.

A broad list teaches "none of these" what lies far from the panel. What lies close depends on the labels, so
it is asked for: label by label, several times over with other seeds, and only names come back. Who knows the
field may read the list, mend it and give it to `simdx bank build --conditions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simdx.bank.conditions import outside
from simdx.errors import RunFailed
from simdx.simulators.base import Request, Simulator
from simdx.types import Label, Panel, content_hash

ROUNDS = 4  # a small model names a dozen and then repeats itself; another seed names others
TEMPERATURE = 0.7
MOST_WORDS, MOST_CHARACTERS = 6, 60

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
_REST = re.compile(r"\s*(?:[:;,.(\[]| [-–—] |\bor\b|\be\.g\b).*$")
_NAME = re.compile(r"[^\W\d_][\w'’ -]*")


def neighbours(panel: Panel, simulator: Simulator, per_label: int) -> Mapping[str, tuple[str, ...]]:
    """label -> at most `per_label` conditions taken for it, none of them in the panel, each named once."""
    asked = [(label, seed) for label in panel.labels for seed in range(ROUNDS)]
    requests = [_request(panel, label, per_label, seed) for label, seed in asked]
    answers = dict(simulator.complete(requests))
    errors = [c.error for c in answers.values() if c.error is not None]
    if len(errors) == len(asked):
        raise RunFailed(f"the simulator named no condition: {errors[-1]}")
    found: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for label in panel.labels:
        texts = [answers[i].text for i, (of, _) in enumerate(asked) if of is label and answers[i].ok]
        names = {name.casefold(): name for text in reversed(texts) for name in reversed(names_in(text))}
        others = outside(panel, tuple(reversed(names.values())))
        new = [name for name in others if name.casefold() not in taken][:per_label]
        taken |= {name.casefold() for name in new}
        found[label.name] = tuple(new)
    if not taken:
        raise RunFailed("the simulator answered without naming a condition outside the panel")
    return found


def names_in(text: str) -> list[str]:
    """The names a list gives, one per line, without numbers, bullets and explanations.

    A line without a bullet (the first one, where the model was given it) is a name or nothing: it is not cut.
    """
    names = []
    for line in text.splitlines():
        bare = _BULLET.sub("", line)
        cut = bare != line
        bare = bare.replace("*", "").strip()
        bare = _REST.sub("", bare).strip() if cut else bare
        if _NAME.fullmatch(bare) and len(bare) <= MOST_CHARACTERS and len(bare.split()) <= MOST_WORDS:
            names.append(bare)
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
