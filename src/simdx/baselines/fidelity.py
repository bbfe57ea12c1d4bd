"""Elicited fidelity: the same question asked again with sampling; the answer is how often each label came.

The paper does not say how many samples it takes: ten here (`budget` changes it), at temperature 0.7.
Seeds are keyed by (seed, case, sample), so order and batch do not matter where the server honours seeds.
"""

from __future__ import annotations

from simdx.baselines.interview import Ask, AskingMethod, Question, fit_asking
from simdx.baselines.prompts import CHOOSE
from simdx.baselines.votes import letter_question
from simdx.methods.base import Material, Settings
from simdx.simulators.base import Capabilities
from simdx.types import content_hash

SAMPLES = 10
TEMPERATURE = 0.7


def fit_fidelity(material: Material, settings: Settings) -> AskingMethod:
    return fit_asking(material, settings, ask_fidelity)


def ask_fidelity(names: tuple[str, ...], settings: Settings, able: Capabilities) -> Ask:
    def questions(text: str, key: int) -> list[Question]:
        return [
            letter_question(
                text,
                names,
                CHOOSE,
                temperature=TEMPERATURE,
                seed=sample_seed(settings.seed, key, sample),
                grammars=able.grammars,
            )
            for sample in range(settings.budget or SAMPLES)
        ]

    return questions


def sample_seed(seed: int, key: int, sample: int) -> int:
    """31 bits, which every server takes."""
    return int(content_hash("sample", str(seed), str(key), str(sample))[:8], 16) & 0x7FFF_FFFF
