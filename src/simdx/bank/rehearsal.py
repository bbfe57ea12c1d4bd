"""Texts in another voice, to rehearse a bank on: the same model, another register, a higher temperature.

They lie in a folder of their own inside the bank's, are never part of the bank, and are resumed like one.
"""

from dataclasses import replace
from pathlib import Path

from simdx.bank.builder import build_bank
from simdx.bank.files import read_bank
from simdx.bank.plan import BuildSettings
from simdx.bank.report import BuildLimits, Watch
from simdx.simulators.base import Simulator
from simdx.types import Bank, Panel

FOLDER = "rehearsal"
REHEARSAL_TRIES = 6  # requests for every text wanted, after which the rehearsal goes without them
WARMER = 0.3  # added to the bank's temperature
HOTTEST = 1.2
OTHER_REGISTER = {"clinician": "patient", "case-report": "patient", "patient": "plain", "plain": "patient"}


def second_voice(
    panel: Panel, model: str, settings: BuildSettings, per_label: int, out: Path
) -> tuple[Panel, str, BuildSettings, Path]:
    """What is asked for: the panel in another register, the model, other settings, the folder."""
    other = replace(panel, register=OTHER_REGISTER.get(panel.register, panel.register), facets={})
    warmer, seed = min(HOTTEST, settings.temperature + WARMER), settings.seed + 1
    asked = replace(settings, per_label=per_label, background=0, temperature=warmer, seed=seed, conditions=())
    return other, model, asked, out / FOLDER


def write_rehearsal(
    panel: Panel,
    simulator: Simulator,
    settings: BuildSettings,
    per_label: int,
    out: Path,
    watch: Watch,
    left: BuildLimits,
) -> Bank | None:
    """The texts, or None where the model does not bring them to an end within the tries and what is left."""
    other, _, asked, folder = second_voice(panel, simulator.id, settings, per_label, out)
    tries = REHEARSAL_TRIES * per_label * len(panel.names)
    limits = replace(left, max_requests=tries if left.max_requests is None else min(tries, left.max_requests))
    report = build_bank(other, simulator, asked, folder, limits, watch)
    return read_bank(folder, panel) if report.complete else None
