"""The shipped recipe: lexical rows, self-consistency, Bayes' rule in the prior, and none of these."""

from dataclasses import replace

import numpy as np
import pytest

from simdx import Classifier, Prior
from simdx.methods import PanelData, fitted
from simdx.methods.calibration import calibrated
from simdx.methods.fitted import joined
from simdx.methods.outside import Outside
from simdx.types import Bank, Panel
from tests import builders
from tests.builders import toy_classifier

CASES = (
    "red sweet fruit from the orchard tree",
    "a boat under a bridge in flood water",
    "motor oil and a broken piston and valve",
)


@pytest.fixture
def panel_data() -> PanelData:
    return builders.panel_data(background=builders.LIBRARY)


def test_none_of_these(panel_data: PanelData) -> None:
    outside = Outside.fit(calibrated(panel_data))
    seen = panel_data.observe((*CASES, "a reader with a paper book in the library"))
    q = outside(seen, Prior.uniform(3))
    assert np.all((q > 0) & (q <= 1))
    assert q[3] > 0.5 > q[:3].max()
    assert Outside.fit(panel_data) is None  # nothing is known about the bank yet
    bare = PanelData.prepare(panel_data.panel, replace(panel_data.bank, background=()), panel_data.embedder)
    assert Outside.fit(calibrated(bare)) is None


def test_an_answer_is_the_same_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, among few, among many and in parts: to 1e-9, by numpy's products and by scipy's."""
    oral = Classifier("oral-lesions")
    texts = [*oral.bank.texts[:40], "zzz", "1234", oral.bank.texts[0].upper()]
    seen = oral.observe(texts)
    whole = oral.infer_batch_observed(seen)
    monkeypatch.setattr(fitted, "CHUNK", 20)
    parts = oral.infer_batch_observed(oral.observe(texts))
    alone = joined([oral.infer_batch([text]) for text in texts])
    for other in (parts, alone):
        for column in ("posterior", "out_of_class", "effective_simulations", "typicality"):
            found, expected = getattr(other, column), getattr(whole, column)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=column)
    score = oral.desk.alarms(seen, whole)[0].score
    each = (oral.observe([text]) for text in texts)
    one = [oral.desk.alarms(o, oral.infer_batch_observed(o))[0].score[0] for o in each]
    np.testing.assert_allclose(one, score, rtol=0, atol=1e-8)


def test_a_bank_of_one_text_per_label(toy_panel: Panel) -> None:
    tiny = Bank("toy", toy_panel.names, ("red fruit", "wet water", "hot oil"), np.arange(3), name="tiny")
    classifier = toy_classifier(tiny)
    p = classifier.predict_proba(["red fruit", "oil"])
    assert np.allclose(p.sum(axis=1), 1)
    assert np.isfinite(p).all()
    answer = classifier.infer("red fruit")  # no text can be held out, so there is nothing to tune on
    assert any("and there are 3" in note for note in answer.provenance.notes)
