"""One line about a label that has no description, proposed by a model and approved by a person.

A small model that is told only a name repeats it, and every text is rejected for that. So a description is
needed, and whoever makes the panel should write it. Where they did not, a model proposes one: what it says of
an illness may be wrong, and nothing it says enters a panel file unseen.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from simdx.bank.prompts import unnamed
from simdx.bank.scrub import Scrubber, names_one_of, tidy
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.panels import load_panel
from simdx.simulators.base import Request, Simulator, ask_all
from simdx.types import Label, Panel, content_hash

TRIES = 3  # with other seeds; the first that can be used is proposed
TEMPERATURE = 0.4  # what is known of the label rather than something new
LONGEST = 45  # words

_ASKED = "Name the typical symptoms and findings of {name} in one line, divided by commas."
_OPENING = "Typical are"
_ASKED_GENERAL = (
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
    """label -> a description of those that have none; None where the model said nothing that can be used."""
    labels = undescribed(panel)
    answers = iter(ask_all(simulator, [_request(panel, label, i) for label in labels for i in range(TRIES)]))
    found: dict[str, str | None] = {}
    for label in labels:
        said = [next(answers) for _ in range(TRIES)]
        lines = (usable(panel, label, tidy(c.text, c.finish_reason)) for c in said if c.ok)
        found[label.name] = next((line for line in lines if line), None)
    return found


def _request(panel: Panel, label: Label, seed: int) -> Request:
    asked, opening = (_ASKED, _OPENING) if panel.is_clinical else (_ASKED_GENERAL, _OPENING_GENERAL)
    return Request(
        prompt=asked.format(name=label.name.replace("_", " ")),
        opening=opening,
        temperature=TEMPERATURE,
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


# --------------------------------------------------------------------------- into the panel file


def write_descriptions(path: Path, descriptions: Mapping[str, str]) -> None:
    """Put them into the file; refused, and nothing written, where that would change anything else."""
    before = load_panel(path)
    text = described(path.read_text(encoding="utf-8"), descriptions)
    trial = path.with_name(f".{path.name}.trial")
    try:
        write_atomically(trial, text)
        after = load_panel(trial)
    finally:
        trial.unlink(missing_ok=True)
    wanted = {label.name: descriptions.get(label.name, label.description) for label in before.labels}
    if {label.name: label.description for label in after.labels} != wanted:
        raise BadInput(f"{path.name} cannot be edited automatically: write the descriptions into it yourself")
    write_atomically(path, text)


def described(text: str, descriptions: Mapping[str, str]) -> str:
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
        said = f"description: {_quoted(line)}"
        if bare:
            edits.append((*_span(node), f"{{name: {_quoted(node.value)}, {said}}}"))
        elif old is not None:
            edits.append((*_span(old), _quoted(line)))
        else:
            between = ", " if node.flow_style else "\n" + " " * node.value[0][0].start_mark.column
            edits.append((name.end_mark.index, name.end_mark.index, between + said))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _span(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
