"""Prompt ensemble: eight ways to put the same question; the answer is the share of votes for each label."""

from __future__ import annotations

from simdx.baselines.interview import Ask, AskingMethod, Question, fit_asking
from simdx.baselines.prompts import PARAPHRASES
from simdx.baselines.votes import letter_question
from simdx.methods.base import Material, Settings
from simdx.simulators.base import Capabilities


def fit_ensemble(material: Material, settings: Settings) -> AskingMethod:
    return fit_asking(material, settings, ask_ensemble)


def ask_ensemble(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    asked = PARAPHRASES[: settings.budget or len(PARAPHRASES)]

    def questions(text: str, key: int) -> list[Question]:
        return [
            letter_question(text, names, phrase, temperature=0.0, seed=0, grammars=able.grammars)
            for phrase in asked
        ]

    return questions
