"""Descriptions written into a panel file, where there is none; every other character stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.panels.load import load_panel, read_panel_file


def write_descriptions(path: Path, descriptions: Mapping[str, str]) -> None:
    """Put them into the file; refused, and nothing written, where that would change anything else."""
    before = load_panel(path)
    text = described(path.read_text(encoding="utf-8"), descriptions)
    trial = path.with_name(f".{path.name}.trial")
    try:
        write_atomically(trial, text)
        after = read_panel_file(trial).panel
    finally:
        trial.unlink(missing_ok=True)
    wanted = {label.name: descriptions.get(label.name, label.description) for label in before.labels}
    if {label.name: label.description for label in after.labels} != wanted:
        raise BadInput(
            f"{path.name} is written in a way that cannot be added to: put the descriptions in by hand"
        )
    write_atomically(path, text)


def described(text: str, descriptions: Mapping[str, str]) -> str:
    """The YAML with descriptions: in the place of an empty one, behind the name, or around a bare name."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    labels = next((value for key, value in root.value if key.value == "labels"), None)
    edits: list[tuple[int, int, str]] = []
    for node in labels.value if isinstance(labels, yaml.SequenceNode) else []:
        if isinstance(node, yaml.ScalarNode):
            if line := descriptions.get(node.value):
                new = f"{{name: {_quoted(node.value)}, description: {_quoted(line)}}}"
                edits.append((node.start_mark.index, node.end_mark.index, new))
            continue
        parts = {key.value: value for key, value in node.value}
        name, old = parts["name"], parts.get("description")
        line = descriptions.get(name.value)
        if line and old is not None:
            edits.append((old.start_mark.index, old.end_mark.index, _quoted(line)))
        elif line:
            column = node.value[0][0].start_mark.column
            between = ", " if node.flow_style else "\n" + " " * column
            edits.append((name.end_mark.index,) * 2 + (f"{between}description: {_quoted(line)}",))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
