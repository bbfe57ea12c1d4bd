"""The scripted simulator on a panel that is not about illness: neutral texts, usable and told apart."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from simdx.bank.builder import build_bank
from simdx.bank.files import read_bank
from simdx.bank.plan import BuildSettings, Plan
from simdx.simulators import scripted
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Label, Panel

LABELS = (
    Label("loans", description="A book is to be borrowed or brought back."),
    Label("card", description="The library card is lost, or somebody wants one."),
    Label("opening hours"),
)


@pytest.mark.parametrize("voice", ["full", "short"])
@pytest.mark.parametrize("facets", [True, False])
def test_a_general_panel_gets_texts_of_no_illness(voice: str, facets: bool, tmp_path: Path) -> None:
    panel = Panel("library", LABELS, register="general", embedder="hashing")
    settings = BuildSettings(per_label=30, background=20, voice=voice, facets=facets)
    assert build_bank(panel, ScriptedSimulator(), settings, tmp_path / "bank").complete
    bank = read_bank(tmp_path / "bank", panel)
    clinical, general = scripted.CLINICAL, scripted.GENERAL
    ill = {*clinical.whos, *clinical.things, *clinical.qualities, "feels", "fever", "appetite", "patient"}
    words = re.compile(rf"\b(?:{'|'.join(ill - {*general.whos, *general.things})})\b", re.I)
    assert not [text for text in (*bank.texts, *bank.background) if words.search(text)]

    # Each label keeps to findings of its own, as the clinical texts do.
    for name in bank.labels:
        own = [t for t, i in zip(bank.texts, bank.label_index, strict=True) if bank.labels[i] == name]
        found = Counter(
            f"{quality} {thing}"
            for text in own
            for quality in general.qualities
            for thing in general.things
            if f" {quality} {thing}" in text
        )
        assert found.most_common(1)[0][1] > 0.6 * len(own), name


@pytest.mark.parametrize("register", ["clinician", "case-report", "patient", "plain"])
def test_the_other_registers_keep_their_phrases(register: str) -> None:
    panel = Panel("p", (Label("gout"), Label("mumps")), register=register)
    prompt = Plan(panel, "m", BuildSettings(per_label=1)).planned("gout", 0).request.prompt
    text = scripted.describe(prompt, random.Random(1))
    assert any(thing in text for thing in scripted.CLINICAL.things)
