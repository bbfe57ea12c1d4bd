"""Panels: closed sets of labels in YAML files a clinician can read and write."""

from simdx.panels.disclaimer import disclaimer
from simdx.panels.load import PACKAGED, PanelSource, advice_for, load_panel, load_source, problems_of
from simdx.panels.scaffold import scaffold

__all__ = [
    "PACKAGED",
    "PanelSource",
    "advice_for",
    "disclaimer",
    "load_panel",
    "load_source",
    "problems_of",
    "scaffold",
]
