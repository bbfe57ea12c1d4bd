"""Finding and reading panels: packaged ones by name, a user's own by path."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from simdx.errors import BadInput
from simdx.models.registry import is_installed
from simdx.panels.schema import LabelFile, PanelFile
from simdx.rows import read_mapping
from simdx.types import Panel

if TYPE_CHECKING:
    from simdx.library import Condition

LIGHT = "wordllama"
MEND = "start it with 'labels:'"
PACKAGED = ("oral-lesions", "symptom-to-diagnosis", "case-reports")


@dataclass(frozen=True, slots=True)
class PanelSource:
    """A panel together with where its banks lie; the panel itself never knows of a bank."""

    panel: Panel
    folder: Path
    banks: tuple[Path, ...]
    background: Path | None
    witnesses: tuple[Path, ...] = ()  # further banks, for the shared-bias alarm alone
    against: tuple[Path, ...] = ()  # those of the banks that stand against the background; empty: all
    none_prior: float | None = None  # of another condition, where the file states one


def load_panel(name_or_path: str | Path) -> Panel:
    """The panel alone: packaged, by its name, or from a file or the folder that holds `panel.yaml`."""
    return load_source(name_or_path).panel


def load_source(name_or_path: str | Path) -> PanelSource:
    name = str(name_or_path)
    if name in PACKAGED:
        return read_panel_file(Path(str(resources.files("simdx.panels"))) / "data" / name / "panel.yaml")
    path = Path(name)
    # Not the path's own questions: they raise where a name is longer than any file's.
    if os.path.isdir(path):
        path = path / "panel.yaml"
    elif name and not os.path.isfile(path) and os.path.isfile(f"{name}.yaml"):
        path = Path(f"{name}.yaml")  # as the page and the service name it
    if not os.path.isfile(path):
        said = f"unknown panel '{name[:200]}': choose"
        if name == "library":
            raise BadInput(
                "the library is no panel: see 'simdx library search WORDS' and 'simdx library show NAME'"
            )
        if not name:
            said = "say which panel with --panel:"
        elif os.path.isdir(name):
            said = f"the folder '{name}' has no panel.yaml: choose"
        elif path.suffix in (".yaml", ".yml"):
            said = f"there is no file '{name[:200]}': choose"
        raise BadInput(f"{said} {', '.join(PACKAGED)}, or the path of a panel file")
    return _with_second_expert(read_panel_file(path))


def _with_second_expert(source: PanelSource) -> PanelSource:
    """A user's own panel also hears MiniLM where it is installed, unless $SIMDX_FAST is set.

    Over the panels of results/experts it adds three points of accuracy without a label. A packaged panel goes
    without: its labelled cases say that MiniLM adds nothing there.
    """
    if source.panel.embedder != LIGHT or os.environ.get("SIMDX_FAST") or not is_installed("minilm"):
        return source
    from simdx.embedders.sentence import can_run

    if not can_run():
        return source
    return replace(source, panel=replace(source.panel, embedder=f"{LIGHT}+minilm"))


def read_panel_file(path: Path) -> PanelSource:
    """A panel file, checked, with the bank files it lists; each must lie beside it."""
    checked, folder = parse_panel(read_mapping(path, "panel", MEND), where=path.name), path.parent
    stem = path.absolute().parent.name if path.stem == "panel" else path.stem
    background = folder / checked.background if checked.background else None
    banks, witnesses, against = (
        tuple(folder / name for name in names)
        for names in (checked.banks, checked.witnesses, checked.against_background)
    )
    for listed in (*banks, *witnesses, *([background] if background else [])):
        if not listed.is_file():
            raise BadInput(f"panel {path.name} lists the bank file '{listed.name}', which is not beside it")
    panel, prior = checked.to_panel(stem), checked.none_of_these_prior
    return PanelSource(panel, folder, banks, background, witnesses, against, prior)


def parse_panel(data: Any, where: str) -> PanelFile:
    """Checked panel data, or BadInput with the first problem in one line."""
    try:
        return PanelFile.model_validate(data)
    except ValidationError as error:
        # A misspelt key also leaves the right one missing: the misspelling is what there is to mend.
        found = error.errors()
        first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        raise BadInput(f"panel {where}: {_phrase(first)}") from None


def problems_of(path: Path) -> list[str]:
    """Everything that is wrong with a panel file, one phrase each; empty when it is fine."""
    try:
        PanelFile.model_validate(read_mapping(path, "panel", MEND))
        read_panel_file(path)
    except ValidationError as error:
        return [_phrase(e) for e in error.errors()]
    except BadInput as error:
        return [str(error)]
    return []


def _said(value: object) -> bool:
    """Is there anything but white space?"""
    return value is not None and str(value).strip() != ""


def _phrase(problem: Any) -> str:
    """One problem pydantic found, as a person would say it."""
    place = ".".join(str(part) for part in problem["loc"])
    if problem["loc"][:1] == ("labels",) and problem["loc"][2:] == ("name",) and not _said(problem["input"]):
        return f"label {problem['loc'][1] + 1} has no name"
    if problem["type"] == "extra_forbidden":
        of_label = len(problem["loc"]) > 1 and problem["loc"][0] == "labels"
        inside: type[BaseModel] = LabelFile if of_label else PanelFile
        known = [field.alias or name for name, field in inside.model_fields.items()]
        near = get_close_matches(str(problem["loc"][-1]), known, n=1)
        meant = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(known)}"
        return f"'{place}' is not a key: {meant}"
    said = {
        "missing": "is missing",
        "tuple_type": "must be a list, as in [one, two]",
        "model_type": "must be a mapping, as in {one: 1, two: 2}",
    }
    message = said.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def advice_for(panel: Panel) -> list[str]:
    """What a valid panel could say and does not: shown by `panel check`, never an error."""
    advice = []
    for label in panel.labels:
        if not label.aliases:
            advice.append(f"'{label.name}' has no aliases: its other names stay in simulated texts")
        if not label.description:
            advice.append(f"'{label.name}' has no description: the simulator gets only its name")
    if panel.register != "general" and not any(label.icd10 or label.snomed for label in panel.labels):
        advice.append(
            f"no label has a code, and register '{panel.register}' asks for descriptions of patients: "
            "'register: general' is for texts that are not about illness"
        )
    if not any(label.must_not_miss for label in panel.labels):
        advice.append("no label is marked must_not_miss: the decision treats all errors as equal")
    return advice


# --------------------------------------------------------------------------- a new panel file
#
# A panel file to start from, with a comment where a clinician has something to decide.

# Controls, further line breaks (YAML folds them into a blank), the byte order mark, and no characters at all.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scaffold(
    name: str,
    labels: Mapping[str, str],
    register: str = "clinician",
    known: Mapping[str, Condition] | None = None,
) -> str:
    """The text of a new panel file, from label names and what is known of each: in words, and in the library.

    JSON strings are valid YAML once what YAML cannot print is escaped.
    """

    def quoted(text: str) -> str:
        plain = json.dumps(text, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)

    medical = register != "general"
    about, further = ("how it presents", "more tests") if medical else ("what it means", "a further check")
    lines = [
        f"name: {quoted(name)}",
        'title: ""',
        "# The words the texts are written in: clinician | patient | case-report | plain, or",
        "# general for texts that are not about illness",
        f"register: {register}",
        "# wordllama is light; MiniLM joins it where simdx[quality] and 'simdx models pull minilm' are",
        "embedder: wordllama",
        "labels:",
    ]
    for k, (label, description) in enumerate(labels.items()):
        same = (known or {}).get(label)
        aliases = [name for name in same.aliases if name.casefold() != label.casefold()] if same else []
        of_label = [
            f"  - name: {quoted(label)}",
            "    # every other name of it: removed from simulated texts, so that they cannot give it away",
            f"    aliases: [{', '.join(map(quoted, aliases))}]",
            f"    # one or two sentences on {about}: the simulator is told this",
            f"    description: {quoted(description)}",
        ]
        if medical:  # no code of a disease belongs to a kind of text that is not about illness
            code = quoted(same.icd10) if same and same.icd10 else ""
            of_label += [f"    icd10: [{code}]", "    snomed: []"]
        of_label += [
            f"    # true asks for {further} when this label has 10 % or more without leading",
            f"    must_not_miss: {'true' if same and same.emergency else 'false'}",
        ]
        # What a field means is said once, at the first label.
        lines += [line for line in of_label if k == 0 or not line.startswith("    #")]
    lines += [
        "# What a good set of texts should vary, beside the built-in facets; one of the same",
        "# name replaces its namesake",
        "# facets:",
        "#   site: [hand, foot]" if medical else "#   channel: [letter, telephone]",
        "",
    ]
    return "\n".join(lines)
