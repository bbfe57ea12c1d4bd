"""Two experts are pooled by the calibration's numbers, and what is not known of them softens the answer."""

from dataclasses import replace

import numpy as np
import pytest

from simdx.abc.logs import softmax
from simdx.abc.prior import Prior
from simdx.embedders.base import HashingEmbedder, JointEmbedder
from simdx.methods import PanelData, Settings
from simdx.methods.calibration import HeldOutScores, calibrate
from simdx.methods.calibration_record import SECOND_WEIGHT, Calibration
from simdx.methods.experts import LogLikelihoods, Pool
from simdx.methods.recipe import LabelPosterior, Recipe
from simdx.types import Bank, Float, Label, Panel

RNG = np.random.default_rng(0)
WORDS = {
    "flu": ["fever", "aches", "chills", "cough"],
    "sprain": ["ankle", "swollen", "twisted", "bruise"],
}


class Second(HashingEmbedder):
    """Another embedder of the same kind, under another name."""

    id = "second"


@pytest.fixture(scope="module")
def data() -> PanelData:
    texts, label = [], []
    for k, words in enumerate(WORDS.values()):
        for i in range(12):
            texts.append(" ".join(RNG.permutation(words)[:3]) + f" since day {i}")
            label.append(k)
    panel = Panel(name="two", labels=tuple(Label(name) for name in WORDS))
    background = tuple(f"{word} of the {i}th train" for i, word in enumerate(["ticket", "seat", "delay"] * 4))
    bank = Bank("two", tuple(WORDS), tuple(texts), np.array(label), background=background)
    return PanelData.prepare(panel, bank, JointEmbedder([HashingEmbedder(), Second()]))


def test_the_first_expert_never_sees_the_second_embedder(data: PanelData) -> None:
    alone = PanelData.prepare(data.panel, data.bank, HashingEmbedder())
    asked = ["fever and chills for two days", "twisted my ankle"]
    both = Pool.fit(data).log_likelihoods(data.observe(asked))
    one = Pool.fit(alone).log_likelihoods(alone.observe(asked))
    assert one.second is None
    assert both.first == pytest.approx(one.first, abs=1e-6)
    assert both.second is not None
    assert both.second.argmax(axis=1).tolist() == [0, 1]


def test_the_weight_decides_between_them() -> None:
    found = LogLikelihoods(np.log([[0.9, 0.1]]), np.log([[0.2, 0.8]]))
    assert np.exp(found.under(Calibration(sharpness=1.0)))[0] == pytest.approx([0.9, 0.1])
    pooled = np.exp(found.under(Calibration(sharpness=1.0, weight=1.0)))[0]
    assert pooled == pytest.approx([0.18 / 0.26, 0.08 / 0.26])


def test_the_share_weighs_regression_against_kernel() -> None:
    regression, kernel = np.log([[0.9, 0.1]]), np.log([[0.2, 0.8]])
    found = LogLikelihoods(regression + kernel, kernel=kernel)
    for share in (0.2, 0.5, 0.9):
        expected = softmax(2 * share * regression + 2 * (1 - share) * kernel, axis=1)
        assert np.exp(found.under(Calibration(sharpness=1.0, share=share))) == pytest.approx(expected)


def test_a_rehearsal_hears_most_of_what_tells_its_own_texts_apart() -> None:
    rng, label = np.random.default_rng(2), np.arange(120) % 3
    right = 2.0 * np.eye(3)[label] + rng.normal(size=(120, 3))
    noise = rng.normal(size=(120, 3))

    def share(regression: Float, kernel: Float) -> float:
        held = HeldOutScores(regression + kernel, label, None, kernel=kernel)
        return calibrate(("a", "b", "c"), [held], None).share

    assert share(right, noise) > 0.8
    assert share(noise, right) < 0.2
    assert share(right + noise, right - noise) == pytest.approx(0.5, abs=0.1)


def test_a_spread_softens_and_is_the_mean_over_sharpness() -> None:
    score = LogLikelihoods(np.array([[4.0, 0.0, -1.0], [0.3, 0.2, 0.0]]))
    sure = np.exp(score.under(Calibration(sharpness=1.5)))
    soft = np.exp(score.under(Calibration(sharpness=1.5, spread=0.5)))
    assert soft.sum(axis=1) == pytest.approx([1, 1])
    assert soft[0, 0] < sure[0, 0]
    drawn = 1.5 * np.exp(0.5 * np.random.default_rng(1).standard_normal(20_000))
    mean = np.mean([softmax(s * score.first, axis=1) for s in drawn], axis=0)
    assert soft == pytest.approx(mean, abs=0.005)


def test_the_prior_enters_by_bayes_rule_whatever_the_spread(data: PanelData) -> None:
    labels = LabelPosterior(replace(data, calibration=Calibration(sharpness=1.0, spread=0.4, weight=0.5)))
    asked = data.observe(["fever and a swollen ankle"])
    flat = labels(asked, Prior.uniform(2)).probabilities[0]
    tilted = labels(asked, Prior.from_probabilities(tuple(WORDS), {"flu": 0.8})).probabilities[0]
    assert tilted[0] / tilted[1] == pytest.approx(4 * flat[0] / flat[1])


def test_a_rehearsed_pool_has_the_shipped_weight_and_five_features(data: PanelData) -> None:
    fitted = Recipe(data, Settings())
    found = fitted.calibration
    assert found is not None
    assert found.weight == SECOND_WEIGHT
    assert found.outside is not None
    assert len(found.outside.centre) == 5
    asked = data.observe(["chills and aches and cough", "delay of the fourth train"])
    none = fitted.out_of_class(asked, Prior.uniform(2))
    assert none is not None
    assert none[0] < none[1]


def test_a_compiled_pool_answers_as_it_did(data: PanelData) -> None:
    fitted = Recipe(data, Settings())
    arrays = fitted.arrays()
    assert arrays is not None
    again = Recipe(replace(data, compiled=arrays, calibration=fitted.calibration), Settings())
    asked, prior = data.observe(["aches since day 3", "a bruise on the ankle"]), Prior.uniform(2)
    first, second = fitted.answer(asked, prior), again.answer(asked, prior)
    assert first.posterior == pytest.approx(second.posterior, abs=1e-9)
