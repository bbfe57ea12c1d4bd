"""Proposals of a model that a person then reads: near misses, and one-line descriptions.

A broad list shows "none of these" what is far from the panel. Near misses depend on the labels, so a model
is asked for them: for each label, several times with other seeds, names only. An expert may correct the list
and give it to `simdx bank build --conditions`.

A small model that gets only a label's name repeats it, and every such text is rejected. So a label needs a
description, which the panel's author should write. Otherwise a model proposes one. It may be medically wrong,
so nothing is written into a panel file before a person has seen it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from simdx.bank.files import rewrite_panel
from simdx.bank.plan import outside
from simdx.bank.prompts import unnamed
from simdx.bank.scrub import Scrubber, names_one_of, tidy
from simdx.errors import BadInput, RunFailed
from simdx.panels import load_panel
from simdx.simulators.base import Completion, Request, Simulator, ask_all
from simdx.types import Label, Panel, content_hash

# --------------------------------------------------------------------------- near misses

ROUNDS = 4  # a small model names a dozen and then repeats itself; another seed names others
VARIED = 0.7  # temperature: varied lists in every round, and names that exist
MOST_WORDS, MOST_CHARACTERS = 6, 60  # of a name; longer lines are sentences
PATIENCE = 4  # requests that may fail before the first good one

_NEAR = (
    "Name {n} different medical conditions, other than {name}, that a doctor could mistake for it because "
    "the complaints and findings are alike{features}. Answer with a numbered list of names and nothing else."
)
_NEAR_GENERAL = (
    "Name {n} different subjects, other than {name}, that a reader could mistake for it because people "
    "write about them in much the same words{features}. Answer with a numbered list of names and nothing "
    "else."
)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s*")
_REST = re.compile(r"\s*(?:[:;(\[]| [-–—] |, |(?<=\w{3})\.(?:\s|$)|\bor\b|\be\.g\b).*$")
_NAME = re.compile(r"[^\W\d_][\w'’. –-]*")
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
            # A server that has given no answer so far will not answer the rest.
            if len(answers) >= max(simulator.concurrency, PATIENCE) and not heard():
                return
            yield _near_misses_of(panel, label, per_label, seed)

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


def _near_misses_of(panel: Panel, label: Label, per_label: int, seed: int) -> Request:
    described = label.description.strip().rstrip(".")
    features = f" ({described[:1].lower()}{described[1:]})" if described else ""
    return Request(
        (_NEAR if panel.is_clinical else _NEAR_GENERAL).format(
            n=per_label, name=label.name, features=features
        ),
        opening="1.",
        temperature=VARIED,
        max_tokens=12 * per_label,
        seed=int(content_hash("neighbours", label.name, str(seed))[:7], 16),
        stop=("\n\n",),
    )


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
        plain = bare.replace("*", "").strip(" \"“”'’.")
        name = plain if bare == line else _REST.sub("", plain).strip()
        short = len(name) <= MOST_CHARACTERS and len(name.split()) <= MOST_WORDS
        if short and _NAME.fullmatch(name) and sum(map(str.isalpha, name)) >= _LETTERS:
            names.append(name)
    return names


# --------------------------------------------------------------------------- descriptions

TRIES = 3  # with other seeds; the first that can be used is proposed
KNOWN = 0.4  # temperature: low, for known facts about the label
LONGEST = 45  # words

_DESCRIBE = "Name the typical symptoms and findings of {name} in one line, divided by commas."
_OPENING = "Typical are"
_DESCRIBE_GENERAL = (
    "Somebody writes a short message about this: {name}. Say in one sentence what this person wants."
)
_OPENING_GENERAL = "The person wants"
# Words that a small model lists instead of findings.
_EMPTY = {
    "symptom", "symptoms", "sign", "signs", "finding", "findings", "trigger", "triggers", "cause", "causes",
    "diagnosis", "treatment", "typical", "common", "and", "or", "of", "the", "a", "it", "are", "is", "with",
}  # fmt: skip


def undescribed(panel: Panel) -> tuple[Label, ...]:
    return tuple(label for label in panel.labels if not label.description.strip())


def propose(panel: Panel, simulator: Simulator) -> Mapping[str, str | None]:
    """label -> a proposed description for each label without one; None if no reply was usable."""
    labels = undescribed(panel)
    requests = [_description_of(panel, label, seed) for label in labels for seed in range(TRIES)]
    answers = ask_all(simulator, requests)
    found: dict[str, str | None] = {}
    for i, label in enumerate(labels):
        said = [c for c in answers[i * TRIES : (i + 1) * TRIES] if c.ok]
        lines = (usable(panel, label, tidy(c.text, c.finish_reason)) for c in said)
        found[label.name] = next((line for line in lines if line), None)
    return found


def _description_of(panel: Panel, label: Label, seed: int) -> Request:
    return Request(
        (_DESCRIBE if panel.is_clinical else _DESCRIBE_GENERAL).format(name=label.name.replace("_", " ")),
        opening=_OPENING if panel.is_clinical else _OPENING_GENERAL,
        temperature=KNOWN,
        max_tokens=70,
        seed=int(content_hash("describe", label.name, str(seed))[:7], 16),
        stop=("\n",),
    )


def usable(panel: Panel, label: Label, text: str) -> str | None:
    """The first sentence, without the label's own names; nothing where it names another or is no sentence."""
    line = " ".join(text.partition(". ")[0].split()).rstrip(".")
    if panel.is_clinical:
        line = line.removeprefix(_OPENING).lstrip(" :,")
        line = unnamed(replace(label, description=line), panel.register)
    said = {w for w in re.findall(r"[a-z]+", line.lower()) if w not in _EMPTY}
    if len(said - set(label.name.lower().split())) < 3:  # "Headache, triggers, symptoms, findings."
        return None
    if not 3 <= len(line.split()) <= LONGEST or names_one_of([label.name, *label.aliases], line):
        return None
    if Scrubber.for_topic(panel, label.name).reason(line) not in (None, "too short"):
        return None
    return line[:1].upper() + line[1:] + "."


def write_descriptions(path: Path, descriptions: Mapping[str, str]) -> None:
    """Put descriptions into the file; refused, with nothing written, if anything else would change."""
    before = load_panel(path).labels
    wanted = [descriptions.get(label.name, label.description) for label in before]
    text = _described(path.read_text(encoding="utf-8"), descriptions)
    if not rewrite_panel(path, text, lambda new: [x.description for x in new.panel.labels] == wanted):
        raise BadInput(f"{path.name} cannot be edited automatically: write the descriptions into it yourself")


def _described(text: str, descriptions: Mapping[str, str]) -> str:
    """The YAML with descriptions: in the place of an empty one, behind the name, or around a bare name."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    labels = next((value for key, value in root.value if key.value == "labels"), None)
    edits: list[tuple[int, int, str]] = []
    for node in labels.value if isinstance(labels, yaml.SequenceNode) else []:
        bare = isinstance(node, yaml.ScalarNode)
        parts = {"name": node} if bare else {key.value: value for key, value in node.value}
        name, old = parts["name"], parts.get("description")
        if not (line := descriptions.get(name.value)):
            continue
        quoted = json.dumps(line, ensure_ascii=False)
        if bare:
            named = json.dumps(node.value, ensure_ascii=False)
            edits.append((*_span(node), f"{{name: {named}, description: {quoted}}}"))
        elif old is not None:
            edits.append((*_span(old), quoted))
        else:
            between = ", " if node.flow_style else "\n" + " " * node.value[0][0].start_mark.column
            edits.append((name.end_mark.index, name.end_mark.index, f"{between}description: {quoted}"))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _span(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index
