"""Finding and reading panels: packaged ones by name, a user's own by path."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simdx.errors import BadInput
from simdx.panels.schema import PanelFile
from simdx.types import Panel
from simdx.yamlfile import read_mapping

PACKAGED = ("oral-lesions", "symptom-to-diagnosis", "case-reports")


@dataclass(frozen=True, slots=True)
class PanelSource:
    """A panel together with where its banks lie; the panel itself never knows of a bank."""

    panel: Panel
    folder: Path
    banks: tuple[Path, ...]
    background: Path | None
    witnesses: tuple[Path, ...] = ()  # further banks, for the shared-bias alarm alone


def load_panel(name_or_path: str | Path) -> Panel:
    """The panel alone: packaged, by its name, or from a file or the folder that holds `panel.yaml`."""
    return load_source(name_or_path).panel


def load_source(name_or_path: str | Path) -> PanelSource:
    """A packaged panel by its name, or the panel file at that path."""
    name = str(name_or_path)
    if name in PACKAGED:
        return read_panel_file(Path(str(resources.files("simdx.panels"))) / "data" / name / "panel.yaml")
    path = Path(name)
    if path.is_dir():
        path = path / "panel.yaml"
    if not path.is_file():
        raise BadInput(
            f"unknown panel '{name}': choose {', '.join(PACKAGED)}, or give the path of a panel file"
        )
    return read_panel_file(path)


def read_panel_file(path: Path) -> PanelSource:
    """A panel file, checked, with the bank files it lists; each must lie beside it."""
    checked = parse_panel(_read_yaml(path), where=path.name)
    stem = path.parent.name if path.stem == "panel" else path.stem
    banks = tuple(path.parent / b for b in checked.banks)
    background = path.parent / checked.background if checked.background else None
    witnesses = tuple(path.parent / w for w in checked.witnesses)
    for listed in (*banks, *witnesses, *([background] if background else [])):
        if not listed.is_file():
            raise BadInput(f"panel {path.name} lists the bank file '{listed.name}', which is not beside it")
    return PanelSource(checked.to_panel(stem), path.parent, banks, background, witnesses)


def parse_panel(data: Any, where: str) -> PanelFile:
    """Checked panel data, or BadInput with the first problem in one line."""
    try:
        return PanelFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise BadInput(f"panel {where}: {place + ': ' if place else ''}{message}") from None


def problems_of(path: Path) -> list[str]:
    """Everything that is wrong with a panel file, one phrase each; empty when it is fine."""
    try:
        data = _read_yaml(path)
        PanelFile.model_validate(data)
        read_panel_file(path)
    except ValidationError as error:
        return [
            f"{'.'.join(str(p) for p in e['loc']) or 'panel'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
    except BadInput as error:
        return [str(error)]
    return []


def advice_for(panel: Panel) -> list[str]:
    """What a valid panel could say and does not: shown by `panel check`, never an error."""
    advice = []
    for label in panel.labels:
        if not label.aliases:
            advice.append(
                f"'{label.name}' has no aliases: other names of it will not be scrubbed from simulations"
            )
        if not label.description:
            advice.append(f"'{label.name}' has no description: the simulator gets only its name")
    if not any(label.must_not_miss for label in panel.labels):
        advice.append("no label is marked must_not_miss: the decision treats all errors alike")
    return advice


def _read_yaml(path: Path) -> Any:
    return read_mapping(path, "panel", "start it with 'labels:'")
