"""The packaged panels with the cases they are measured on.

The oral benchmark ships. Symptom-to-Diagnosis and the case reports may not be shipped: they are read from
the folder $SIMDX_DATA (`sd/cases.jsonl`, `pmc/cases.jsonl`); where it is not set, their cells fail on record.
"""

from __future__ import annotations

from simdx.experiments.config import PanelPart


def packaged(subset: int | None = None, *, case_reports: int | None = None) -> tuple[PanelPart, ...]:
    """The three panels; `case_reports` is a subset size of its own, for texts twenty times as long."""
    return (
        PanelPart(panel="oral-lesions", data="oral-lesions", subset=subset),
        PanelPart(panel="symptom-to-diagnosis", data="$SIMDX_DATA/sd/cases.jsonl", subset=subset),
        PanelPart(panel="case-reports", data="$SIMDX_DATA/pmc/cases.jsonl", subset=case_reports or subset),
    )
