"""Panels: closed sets of labels in YAML files a clinician can read and write."""

from simdx.panels.load import PACKAGED, PanelSource, advice_for, load_panel, load_source, problems_of
from simdx.types import Panel

# What is said beside every answer: in a clinic's words only where the panel is about illness.
CLINICAL = (
    "Decision support for research. Not a medical device, and no substitute for a clinician's judgement. "
    "A concentrated posterior says that simulator and embedding agree, not that the diagnosis is right."
)
GENERAL = (
    "Decision support for research, and no substitute for a person's judgement. "
    "A concentrated posterior says that simulator and embedding agree, not that the label is right."
)


def disclaimer(panel: Panel | None) -> str:
    """The panel's; the clinical one where it is not known what the answers are about."""
    return CLINICAL if panel is None or panel.is_clinical else GENERAL
