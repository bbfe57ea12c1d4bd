"""Alternatives to an answer: conditions of the library that no label means, including emergencies, and
sentences of the text that the leading label does not explain (`methods.world`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from simdx.abc.logs import expit
from simdx.answer import NearCondition, OutsideAnswer, RedFlagAnswer
from simdx.methods.fitted import AnswerTable, Fitted
from simdx.methods.panel_data import Observations
from simdx.reading import split_sentences, states_own
from simdx.types import Float, Int

CLEAR = math.log(10)  # an emergency is named if its log-likelihood exceeds the leading label's by this
LIKELY = 0.01  # and its probability is at least this
NEAR = 0.1  # with this probability it is named whatever its likelihood, unless it is a kind of the label
NEAREST = 3  # conditions named under none of these
LEAST_TOPIC = 0.01  # least probability of an everyday topic that is named (panels not about illness)


class Beyond(NamedTuple):
    """Alternatives to one answer."""

    outside: OutsideAnswer | None = None
    unexplained: tuple[str, ...] = ()  # sentences
    red_flags: tuple[RedFlagAnswer, ...] = ()
    rival: tuple[str, float] | None = None  # an emergency that is likely, and its probability


def beyond_of(fitted: Fitted, observations: Observations, table: AnswerTable) -> list[Beyond]:
    """The likeliest conditions outside the panel, and sentences that the leading label does not explain."""
    world, found = fitted.world, fitted.calibration
    if world is None or found is None or table.out_of_class is None:
        return [Beyond()] * len(observations.texts)
    compared, lead = world.compared(observations), table.of_labels.argmax(axis=1)
    shares = world.shares(compared)
    chances = table.out_of_class[:, None] * shares
    clinical = fitted.data.panel.is_clinical  # with other panels no illness is named
    named = chances if clinical else np.where([c.medical for c in world.conditions], 0.0, chances)
    urgent, margin = world.rivals(compared, lead)
    rows, kind = np.arange(len(lead)), ~world.outside[urgent]  # emergencies that are a kind of the label
    near_by = np.where(kind, table.of_labels[rows, lead] * expit(margin), chances[rows, urgent])
    asked = np.flatnonzero(table.out_of_class < table.of_labels.max(axis=1))
    texts = [observations.texts[i] for i in asked]
    marked = dict(
        zip(asked.tolist(), _marked(fitted, texts, lead[asked], compared.conditions[asked]), strict=True)
    )
    out: list[Beyond] = []
    for i, chance in enumerate(chances):
        order = np.argsort(-named[i])[:NEAREST].tolist()
        order = [c for c in order if clinical or named[i, c] >= LEAST_TOPIC]
        rival = None
        clear = margin[i] > CLEAR and near_by[i] >= LIKELY
        if clinical and (clear or (not kind[i] and near_by[i] >= NEAR)):
            rival = world.conditions[urgent[i]].name, float(near_by[i])
            if not kind[i]:
                order = list(dict.fromkeys([*order, int(urgent[i])]))
        near = tuple(
            NearCondition(condition=one.name, probability=float(chance[c]), emergency=one.emergency)
            for c, one in ((c, world.conditions[c]) for c in order)
        )
        out.append(Beyond(OutsideAnswer(nearest=near), *marked.get(i, ((), ())), rival))
    return out


def _marked(
    fitted: Fitted, texts: list[str], lead: Int, conditions: Float
) -> list[tuple[tuple[str, ...], tuple[RedFlagAnswer, ...]]]:
    """For each text: sentences that its leading label does not explain, and the red flags in them."""
    world, found = fitted.world, fitted.calibration
    if world is None or found is None or not texts:
        return []
    said, scale, out = list(map(split_sentences, texts)), found.unexplained, []
    excess = [np.zeros(len(some)) for some in said] if scale is None else world.excess(said, lead)
    for i, (text, sentences, by) in enumerate(zip(texts, said, excess, strict=True)):
        stated = world.red_flags(text, int(lead[i]), conditions[i]) if fitted.data.panel.is_clinical else []
        flags = tuple(
            RedFlagAnswer(sentence=sentence, finding=finding, condition=of)
            for sentence, finding, of in stated
        )
        most = math.inf if scale is None else scale.threshold(len(sentences))
        flagged = {flag.sentence for flag in flags}
        marked = (
            s for s, b in zip(sentences, by, strict=True) if s in flagged or (b > most and states_own(s))
        )
        out.append((tuple(dict.fromkeys(marked)), flags))
    return out
