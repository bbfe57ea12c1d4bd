"""Strangeness: what is no description at all goes to none of these, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.classifier import Classifier
from simdx.embedders import get_embedder
from simdx.methods import outside as outside_module
from simdx.methods.base import Material
from simdx.methods.outside import fit_outside
from simdx.methods.strangeness import Strangeness, everyday_texts
from simdx.panels import PACKAGED, load_source

FOREIGN = (
    "The flight to Lisbon was cancelled and the airline put us on a bus to Porto instead.",
    "SELECT name, count(*) FROM members GROUP BY name HAVING count(*) > 3;",
    "Seit gestern funktioniert das Internet im ganzen Haus nicht mehr, bitte schicken Sie jemanden.",
    "asdf qwer zxcv uiop hjkl vbnm tyui",
)


@pytest.fixture(scope="module", params=PACKAGED)
def material(request: pytest.FixtureRequest) -> Material:
    source = load_source(request.param)
    return Material.prepare(source.panel, packaged_bank(source), get_embedder("wordllama"))


def test_the_scale_runs_from_the_simulations_to_everyday_texts(material: Material) -> None:
    fitted = Strangeness.fit(material)
    assert fitted is not None
    everyday = fitted.of(material.observe(everyday_texts()).vectors)
    assert np.median(everyday) == pytest.approx(1, abs=1e-6)
    own = (fitted.typicality.reference - fitted.own) / fitted.span
    assert np.median(own) == pytest.approx(0, abs=1e-6)
    assert np.quantile(own, 0.95) < 0.6 < np.quantile(everyday, 0.05)


def test_foreign_texts_are_none_of_these_and_simulations_are_not(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    uniform = Prior.uniform(len(material.panel.names))
    both = fit_outside(material)
    monkeypatch.setattr(outside_module.Strangeness, "fit", classmethod(lambda _cls, _material: None))
    background_alone = fit_outside(material)
    assert both is not None
    assert background_alone is not None
    foreign, simulated = material.observe(FOREIGN), material.observe(material.bank.texts)
    assert both(foreign, uniform).min() > 0.8
    assert background_alone(foreign, uniform).max() < 0.8, "the background alone would do"
    moved = both(simulated, uniform) - background_alone(simulated, uniform)
    assert moved.min() >= 0
    assert moved.mean() < 0.002


def test_an_everyday_panel_has_nothing_strange_in_this_sense(material: Material) -> None:
    texts = everyday_texts()
    bank = replace(
        material.bank,
        texts=texts[: 2 * len(material.panel.names)],
        label_index=np.repeat(np.arange(len(material.panel.names)), 2),
        background=texts[20:],
    )
    everyday = Material.prepare(material.panel, bank, material.embedder)
    assert Strangeness.fit(everyday) is None
    outside = fit_outside(everyday)
    assert outside is not None
    assert outside(everyday.observe(texts[:3]), Prior.uniform(len(material.panel.names))).max() < 0.9


def test_the_answer_says_so() -> None:
    answer = Classifier("symptom-to-diagnosis").infer(FOREIGN[3])
    assert answer.out_of_class is not None
    assert answer.out_of_class > 0.9
    assert answer.decision.action == "review"
    assert "none of the panel's labels" in answer.decision.reason
    most = np.log2(len(answer.posterior))
    assert answer.entropy_bits > 0.95 * most


def test_everyday_texts_speak_of_no_illness() -> None:
    texts = everyday_texts()
    assert len(set(texts)) == len(texts) >= 40
    told = " ".join(texts).lower()
    for word in ("pain", "fever", "doctor", "patient", "disease", "symptom", "hospital", "blood"):
        assert word not in told.split()
