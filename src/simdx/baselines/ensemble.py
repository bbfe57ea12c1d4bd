"""Prompt ensemble: eight ways to put the same question; the answer is the share of votes for each label."""

from __future__ import annotations

from simdx.baselines.interview import AskingMethod, Question, simulator_for, store_for
from simdx.baselines.prompts import PARAPHRASES
from simdx.baselines.votes import letter_question
from simdx.methods.base import Material, Settings


def fit_ensemble(material: Material, settings: Settings) -> AskingMethod:
    simulator = simulator_for(settings)
    names = material.panel.names
    grammars = simulator.capabilities.grammars
    asked = PARAPHRASES[: settings.budget or len(PARAPHRASES)]

    def questions(text: str, key: int) -> list[Question]:
        return [
            letter_question(text, names, phrase, temperature=0.0, seed=0, grammars=grammars)
            for phrase in asked
        ]

    return AskingMethod(material.panel, simulator, questions, store_for(settings, simulator))
