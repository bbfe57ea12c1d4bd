"""Novelty: what is no description at all goes to none of these, and nothing else moves."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank, read_bank
from simdx.embedders import get_embedder
from simdx.methods import outside as outside_module
from simdx.methods.calibration import calibrated
from simdx.methods.outside import Novelty, Outside, everyday_texts
from simdx.methods.panel_data import PanelData
from simdx.methods.real_cases import with_real
from simdx.panels import PACKAGED, load_source
from simdx.types import Case

FOREIGN = (
    "The flight to Lisbon was cancelled and the airline put us on a bus to Porto instead.",
    "SELECT name, count(*) FROM members GROUP BY name HAVING count(*) > 3;",
    "Seit gestern funktioniert das Internet im ganzen Haus nicht mehr, bitte schicken Sie jemanden.",
    "asdf qwer zxcv uiop hjkl vbnm tyui",
)


QUICK, *OTHERS = PACKAGED


@pytest.fixture(scope="module", params=[QUICK, *(pytest.param(p, marks=pytest.mark.slow) for p in OTHERS)])
def panel_data(request: pytest.FixtureRequest) -> PanelData:
    source = load_source(request.param)
    return calibrated(PanelData.prepare(source.panel, packaged_bank(source), get_embedder("wordllama")))


def with_and_without(panel_data: PanelData, monkeypatch: pytest.MonkeyPatch) -> tuple[Outside, Outside]:
    """The out-of-class probability as shipped, and by the background alone."""
    both = Outside.fit(panel_data)
    monkeypatch.setattr(outside_module.Novelty, "fit", classmethod(lambda _cls, _panel_data: None))
    background_alone = Outside.fit(panel_data)
    assert both is not None
    assert background_alone is not None
    return both, background_alone


def test_the_scale_runs_from_the_simulations_to_everyday_texts(panel_data: PanelData) -> None:
    fitted = Novelty.fit(panel_data)
    everyday = fitted.of(panel_data.observe(everyday_texts()))
    assert np.median(everyday) == pytest.approx(1, abs=0.02)  # a few of them deny something
    own = (fitted.typicality.reference - fitted.own) / fitted.span
    assert np.median(own) == pytest.approx(0, abs=1e-6)
    assert np.quantile(own, 0.95) < 0.6 < np.quantile(everyday, 0.05)


def test_foreign_texts_are_none_of_these(panel_data: PanelData) -> None:
    uniform = Prior.uniform(len(panel_data.panel.names))
    outside = Outside.fit(panel_data)
    foreign = panel_data.observe(FOREIGN)
    assert outside(foreign, uniform).min() > 0.95
    odds = outside.log_odds(foreign, uniform)
    another_condition, another_kind = odds["background"], odds["novelty"]
    assert expit(another_kind).min() > 0.95, "the background has to say it"
    assert another_kind.mean() > another_condition.mean()


@pytest.mark.slow
def test_another_writer_of_the_register_is_not_strange(
    panel_data: PanelData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fitted to one bank of the panel, asked about the other."""
    source = load_source(panel_data.panel.name)
    first, second = (read_bank(source.folder / f, source.panel) for f in ("bank.jsonl", "bank_b.jsonl"))
    bank = replace(first, background=panel_data.bank.background)
    half = calibrated(PanelData.prepare(source.panel, bank, panel_data.embedder))
    uniform = Prior.uniform(len(panel_data.panel.names))
    both, background_alone = with_and_without(half, monkeypatch)
    seen = half.observe(second.texts)
    moved = both(seen, uniform) - background_alone(seen, uniform)
    assert moved.min() >= 0
    assert 1e-9 < moved.mean() < 0.003


def test_capitals_are_not_another_kind_of_text(panel_data: PanelData) -> None:
    fitted = Novelty.fit(panel_data)
    source = load_source(panel_data.panel.name)
    texts = read_bank(source.folder / "bank_b.jsonl", source.panel).texts[::20]
    loud = tuple(text.upper() for text in texts)
    assert np.quantile(fitted.of(panel_data.observe(loud)), 0.9) < 0.4
    mixed = panel_data.observe((*loud[:2], *texts[:2], FOREIGN[0]))
    assert fitted.of(mixed)[-1] > 0.8


def test_real_cases_say_what_is_not_strange(panel_data: PanelData) -> None:
    german = "Seit drei Tagen brennt die Zunge und sie ist ganz glatt und rot geworden."
    cases = [Case(german, str(i), name) for i, name in enumerate(panel_data.panel.names)]
    plain, told = Novelty.fit(panel_data), Novelty.fit(with_real(panel_data, cases))
    asked = panel_data.observe((german,))
    assert told.of(asked)[0] < plain.of(asked)[0]


def test_an_everyday_panel_has_nothing_strange_in_this_sense(panel_data: PanelData) -> None:
    texts = everyday_texts()
    bank = replace(
        panel_data.bank,
        texts=texts[: 2 * len(panel_data.panel.names)],
        label_index=np.repeat(np.arange(len(panel_data.panel.names)), 2),
        background=texts[20:],
        against=None,
    )
    everyday = PanelData.prepare(panel_data.panel, bank, panel_data.embedder)
    assert Novelty.fit(everyday) is None
    assert Outside.fit(calibrated(everyday)) is not None
