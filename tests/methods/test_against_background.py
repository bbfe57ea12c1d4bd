"""Which banks stand against the background: a panel may say so, and only none of these is weighed by it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx import Classifier
from simdx.abc.prior import Prior
from simdx.bank import packaged_bank
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods.calibration import calibrated
from simdx.methods.outside import KINDS, BackgroundModel, Outside
from simdx.methods.panel_data import standing_against
from simdx.methods.real_cases import with_real
from simdx.methods.recipe import LabelPosterior
from simdx.panels import PACKAGED, load_source, problems_of
from simdx.types import Bank, Case, Panel
from tests import builders
from tests.builders import LIBRARY

BORDER = ("a red book about fruit on a shelf", "a paper boat on the water", "a page on engine oil")


@pytest.fixture
def widened(toy_bank: Bank) -> Bank:
    """The toy bank, and a text of each label that reaches into the background."""
    return replace(
        toy_bank,
        texts=(*toy_bank.texts, *BORDER),
        label_index=np.concatenate([toy_bank.label_index, np.arange(3)]),
        background=LIBRARY,
    )


def test_texts_set_aside_are_in_the_answer_and_not_in_none_of_these(toy_panel: Panel, widened: Bank) -> None:
    against = np.arange(len(widened.texts)) < len(widened.texts) - 3
    named = builders.panel_data(toy_panel, replace(widened, against=against))
    everything = builders.panel_data(toy_panel, widened)
    seen = everything.observe(BORDER)
    uniform = Prior.uniform(3)
    probabilities = [
        fit_method(m, Settings()).answer(seen, uniform).among_labels for m in (named, everything)
    ]
    assert np.array_equal(*probabilities)
    share = [BackgroundModel.fit(m).features(seen)[:, 0] for m in (named, everything)]
    assert np.all(share[0] > share[1])  # what reaches into the background no longer speaks for the labels


def test_real_cases_always_stand_against_it(toy_panel: Panel, widened: Bank) -> None:
    against = np.arange(len(widened.texts)) < len(widened.texts) - 3
    named = builders.panel_data(toy_panel, replace(widened, against=against))
    with_them = with_real(named, [Case(BORDER[0], "1", "apple")])
    model = BackgroundModel.fit(with_them)
    assert len(model.comparison.label_index) == against.sum() + 1 + len(LIBRARY)
    taken = LabelPosterior(with_them).comparison.label_index
    assert len(taken) == len(widened.texts) + 1  # the answer takes all
    known = calibrated(named)
    outside, with_case = Outside.fit(known), Outside.fit(replace(with_them, calibration=known.calibration))
    seen = named.observe(BORDER[:1])
    assert with_case(seen, Prior.uniform(3))[0] < outside(seen, Prior.uniform(3))[0]


def test_a_label_without_a_text_there_speaks_with_all(widened: Bank) -> None:
    first = np.flatnonzero(widened.label_index == 0)
    only_one = replace(widened, against=np.arange(len(widened.texts)) == first[0])
    expected = [first[0], *np.flatnonzero(widened.label_index > 0)]
    assert standing_against(only_one).tolist() == sorted(expected)
    assert np.array_equal(standing_against(widened), np.arange(len(widened.texts)))


def test_subset_and_identity_follow(widened: Bank) -> None:
    named = replace(widened, against=widened.label_index < 2)
    assert named.hash == widened.hash
    assert named.identity != widened.identity == widened.hash
    assert named.identity != replace(widened, against=widened.label_index < 1).identity
    assert replace(widened, against=np.ones(len(widened.texts), dtype=bool)).identity == widened.hash
    part = named.subset([0, len(widened.texts) - 1])
    assert part.against.tolist() == [named.against[0], named.against[-1]]
    assert part.background == LIBRARY
    with pytest.raises(ValueError, match="3 values"):
        replace(widened, against=np.ones(3, dtype=bool))


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_panels_name_one_bank(name: str) -> None:
    source = load_source(name)
    bank = packaged_bank(source)
    assert bank.none_prior is source.none_prior is None  # the one prior of every panel
    parts = [len(path.read_text(encoding="utf-8").splitlines()) for path in source.banks]
    assert len(source.against) == 1
    assert bank.against.sum() == parts[source.banks.index(source.against[0])]
    model = BackgroundModel.fit(PanelData.prepare(source.panel, bank, get_embedder("wordllama")))
    assert len(model.comparison.label_index) == bank.against.sum() + len(bank.background)
    assert (len(model.log_share), model.n_labels) == (KINDS, len(source.panel.names))


PANEL = "labels: [apple, boat]\nbanks: [one.jsonl, two.jsonl]\n"
ROW = '{{"label": "{}", "text": "{}"}}\n'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("background: bg.jsonl\nagainst_background: [three.jsonl]\n", "not among the banks"),
        ("against_background: [one.jsonl]\n", "the panel has no background"),
        ("background: bg.jsonl\nagainst_background: one.jsonl\n", "against_background: must be a list"),
    ],
)
def test_mistakes_in_a_panel_file_are_named(tmp_path: Path, more: str, said: str) -> None:
    for name in ("one.jsonl", "two.jsonl", "bg.jsonl"):
        (tmp_path / name).write_text(ROW.format("apple", "red fruit") + ROW.format("boat", "wet wood"))
    (tmp_path / "panel.yaml").write_text(PANEL + more)
    assert said in problems_of(tmp_path / "panel.yaml")[0]


def test_every_label_needs_a_text_against_it(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(ROW.format("apple", "red fruit"))
    (tmp_path / "two.jsonl").write_text(ROW.format("apple", "round fruit") + ROW.format("boat", "wet wood"))
    (tmp_path / "bg.jsonl").write_text('{"text": "a book"}\n')
    head = PANEL + "background: bg.jsonl\n"
    (tmp_path / "panel.yaml").write_text(head + "against_background: [two.jsonl]\n")
    bank = packaged_bank(load_source(tmp_path))
    assert bank.against.tolist() == [False, True, True]
    (tmp_path / "panel.yaml").write_text(head + "against_background: [one.jsonl]\n")
    with pytest.raises(BadInput, match="no bank of against_background describes 'boat'"):
        Classifier(tmp_path)
