"""Elicited fidelity: the same question asked again with sampling; the answer is how often each label came.

The paper does not say how many samples it takes: ten here (`budget` changes it), at temperature 0.7.
Seeds are keyed by (seed, case, sample), so order and batch do not matter where the server honours seeds.
"""

from __future__ import annotations

from simdx.baselines.interview import AskingMethod, Question, simulator_for, store_for
from simdx.baselines.prompts import CHOOSE
from simdx.baselines.votes import letter_question
from simdx.methods.base import Material, Settings
from simdx.types import content_hash

SAMPLES = 10
TEMPERATURE = 0.7


def fit_fidelity(material: Material, settings: Settings) -> AskingMethod:
    simulator = simulator_for(settings)
    names = material.panel.names
    grammars = simulator.capabilities.grammars

    def questions(text: str, key: int) -> list[Question]:
        return [
            letter_question(
                text,
                names,
                CHOOSE,
                temperature=TEMPERATURE,
                seed=sample_seed(settings.seed, key, sample),
                grammars=grammars,
            )
            for sample in range(settings.budget or SAMPLES)
        ]

    return AskingMethod(material.panel, simulator, questions, store_for(settings, simulator))


def sample_seed(seed: int, key: int, sample: int) -> int:
    """31 bits, which every server takes."""
    return int(content_hash("sample", str(seed), str(key), str(sample))[:8], 16) & 0x7FFF_FFFF
