"""How far the background is ahead, as odds: recovered where they are known, rehearsed on texts not fitted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from simdx import Classifier
from simdx.abc.prior import Prior
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import Material
from simdx.methods import odds as odds_module
from simdx.methods.background import Opposition
from simdx.methods.novelty import Novelty
from simdx.methods.odds import (
    FOLDS,
    MOST_BITS,
    PRIORS,
    Rehearsed,
    at_prior,
    fit_odds,
    rehearse_other,
    rehearse_own,
    rise_of,
)
from simdx.methods.outside import SHIPPED_ODDS, Outside
from simdx.types import BackgroundOdds, Bank, Float, Panel

BACKGROUND = tuple(f"quiet library book shelf page {i} paper reader {i % 5}" for i in range(24))
CONDITIONS = tuple(f"book {i // 3}" for i in range(24))


@pytest.fixture
def material(toy_panel: Panel, toy_bank: Bank) -> Material:
    return Material.prepare(toy_panel, replace(toy_bank, background=BACKGROUND), get_embedder("hashing"))


def sure(n: int, k: int = 3) -> Float:
    return np.eye(k)[np.arange(n) % k]


def drawn(slope: float, offset: float, n: int = 40_000) -> tuple[Rehearsed, float]:
    """Scores whose true odds are known: uniform over a range, inside or outside by the logistic rule."""
    rng = np.random.default_rng(3)
    score = rng.uniform(-8, 4, n)
    outside = rng.random(n) < expit(slope * score + offset)
    # A balanced fit sees even odds; those of the draw come off the offset.
    given = logit(outside.mean())
    return Rehearsed("own", score[~outside], score[outside], sure(int((~outside).sum()))), float(given)


@pytest.mark.parametrize(("slope", "offset"), [(0.7, 1.0), (1.6, 3.0)])
def test_known_odds_are_recovered(slope: float, offset: float) -> None:
    rehearsed, given = drawn(slope, offset)
    odds = fit_odds([rehearsed]).odds
    assert abs(odds.slope - slope) < 0.05 * slope
    assert abs(odds.offset - (offset - given)) < 0.15


@pytest.mark.parametrize(("inside", "outside"), [(-5.0, 5.0), (-60.0, -40.0), (-0.001, 0.001)])
def test_perfectly_told_apart_stays_near_the_shipped(inside: float, outside: float) -> None:
    odds = fit_odds([Rehearsed("own", np.full(30, inside), np.full(30, outside), sure(30))]).odds
    assert abs(np.log(odds.slope / SHIPPED_ODDS.slope)) < 2
    assert abs(odds.offset - SHIPPED_ODDS.offset) < 5


def test_few_texts_move_the_odds_less() -> None:
    rehearsed, _ = drawn(3.0, 4.0)
    few = Rehearsed("own", rehearsed.inside[:12], rehearsed.outside[:12], rehearsed.posterior[:12])
    away = [abs(np.log(fit_odds([r]).odds.slope / SHIPPED_ODDS.slope)) for r in (few, rehearsed)]
    assert away[0] < away[1]


def test_what_is_not_told_apart_has_no_odds() -> None:
    for inside, outside in ((5.0, -5.0), (0.0, 0.0)):
        with pytest.raises(BadInput, match="on the right side"):
            fit_odds([Rehearsed("another", np.full(30, inside), np.full(30, outside), sure(30))])


def test_writers_weigh_the_same_whatever_they_wrote() -> None:
    rng = np.random.default_rng(0)
    few = Rehearsed("own", rng.normal(-2, 1, 50), rng.normal(1, 1, 50), sure(50))
    other = Rehearsed("another", rng.normal(-1, 2, 50), rng.normal(1, 2, 50), sure(50))
    many = replace(other, inside=np.tile(other.inside, 20), posterior=np.tile(other.posterior, (20, 1)))
    assert fit_odds([few, many]).odds == fit_odds([few, other]).odds


def test_the_prior_is_the_largest_that_costs_little() -> None:
    for shift in (-9.0, -6.0, -4.0):
        inside = np.random.default_rng(1).normal(shift, 1, 200)
        found = fit_odds([Rehearsed("own", inside, np.random.default_rng(2).normal(1, 1, 200), sure(200))])
        allowed = [p for p in PRIORS if found.rise_bits[p] <= MOST_BITS]
        assert found.odds.prior == (max(allowed) if allowed else min(PRIORS))
        rises = [found.rise_bits[p] for p in sorted(PRIORS)]
        assert rises == sorted(rises)


def test_the_worst_writer_decides_the_prior() -> None:
    far = Rehearsed("own", np.full(50, -20.0), np.full(50, 3.0), sure(50))
    near = Rehearsed("another", np.full(50, -1.0), np.full(50, 3.0), sure(50))
    found = fit_odds([far, near])
    assert found.rise_bits[0.1] == rise_of(near, replace(found.odds, prior=0.1))
    assert found.rise_bits[0.1] > rise_of(far, replace(found.odds, prior=0.1))


def test_a_rise_by_hand() -> None:
    """A sure answer of two labels, drawn half way to an even prior: (.75, .25), and .811 bits more."""
    rehearsed = Rehearsed("own", np.zeros(4), np.zeros(4), np.eye(2)[[0, 1, 0, 1]])
    bits = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25))
    assert np.isclose(rise_of(rehearsed, BackgroundOdds(1.0, 0.0, 0.5)), bits)


@pytest.mark.parametrize("two_banks", [False, True])
def test_nothing_is_asked_of_a_fit_that_holds_it(
    material: Material, monkeypatch: pytest.MonkeyPatch, two_banks: bool
) -> None:
    # Toy texts repeat by chance; each is made its own.
    texts = tuple(f"{text} {chr(97 + i % 26)}{i}" for i, text in enumerate(material.bank.texts))
    bank = replace(material.bank, texts=texts)
    material = Material.prepare(material.panel, bank, material.embedder)
    if two_banks:
        against = np.arange(len(texts)) % 2 == 0
        material = replace(material, bank=replace(material.bank, against=against))
    asked: list[list[Any]] = []

    class Watched:
        """In place of the opposition: notes what each fit holds and what it is asked, inside then outside."""

        @staticmethod
        def fit(part: Material) -> SimpleNamespace:
            assert len(part.embedded.background) == len(part.bank.background)
            asked.append([part.bank])
            real = Opposition.fit(part)
            return SimpleNamespace(ahead=lambda seen, may: asked[-1].append(seen) or real.ahead(seen, may))

    monkeypatch.setattr(odds_module, "Opposition", Watched)
    rehearsed = rehearse_own(material, CONDITIONS)
    condition_of = dict(zip(BACKGROUND, CONDITIONS, strict=True))
    label_of = dict(zip(material.bank.texts, material.bank.label_index.tolist(), strict=True))
    assert len(asked) == FOLDS
    for bank, inside, outside in asked:
        assert set(bank.texts).isdisjoint(inside.texts)
        assert set(bank.label_index.tolist()) == {0, 1, 2}
        assert {condition_of[t] for t in bank.background}.isdisjoint(condition_of[t] for t in outside.texts)
        for text, vector in zip(inside.texts, inside.vectors, strict=True):
            assert np.allclose(vector, material.embedded.vectors[material.bank.texts.index(text)])
        if two_banks:
            assert set(bank.texts) <= {t for t, a in zip(material.bank.texts, against, strict=True) if a}
        else:
            assert {label_of[t] for t in inside.texts} == {0, 1, 2}
    assert sorted(t for _, _, outside in asked for t in outside.texts) == sorted(BACKGROUND)
    assert rehearsed.auroc > 0.9
    # The answers belong to the texts they stand beside.
    truth = [label_of[t] for _, inside, _ in asked for t in inside.texts]
    assert (rehearsed.posterior.argmax(axis=1) == truth).mean() > 0.9


def test_how_texts_are_dealt_does_not_hang_on_their_order(material: Material) -> None:
    rng = np.random.default_rng(5)
    rows, others = rng.permutation(len(material.bank.texts)), rng.permutation(len(BACKGROUND))
    bank = replace(material.bank.subset(rows), background=tuple(BACKGROUND[i] for i in others))
    shuffled = Material.prepare(material.panel, bank, material.embedder)
    one, other = rehearse_own(material, CONDITIONS), rehearse_own(shuffled, [CONDITIONS[i] for i in others])
    assert np.allclose(np.sort(one.outside), np.sort(other.outside), rtol=1e-2)
    assert np.allclose(np.sort(one.inside), np.sort(other.inside), rtol=1e-2)


def test_what_cannot_be_rehearsed(material: Material) -> None:
    bank = material.bank

    def prepared(**changes: object) -> Material:
        return Material.prepare(material.panel, replace(bank, **changes), material.embedder)

    twice = {"texts": bank.texts * 2, "label_index": np.tile(bank.label_index, 2)}
    twice["against"] = np.arange(2 * len(bank.texts)) < len(bank.texts)
    one, others = material.observe(("one",)), material.observe(BACKGROUND)
    for ask, said in (
        (lambda: rehearse_own(prepared(background=BACKGROUND[:1] * 24), CONDITIONS), "texts that repeat"),
        (lambda: rehearse_own(prepared(**twice), CONDITIONS), "texts that repeat"),
        (lambda: rehearse_own(prepared(background=BACKGROUND[:5]), CONDITIONS[:5]), "too little to rehearse"),
        (lambda: rehearse_own(prepared(background=()), ()), "no background"),
        (lambda: rehearse_other(material, one, others), "another writer needs"),
        (lambda: rehearse_other(material, material.observe(bank.texts[:12]), others), "are the panel's own"),
    ):
        with pytest.raises(BadInput, match=said):
            ask()


def test_texts_asked_of_every_fit_are_counted_once(material: Material) -> None:
    against = np.arange(len(material.bank.texts)) % 2 == 0
    named = Material.prepare(material.panel, replace(material.bank, against=against), material.embedder)
    aside = {t for t, a in zip(named.bank.texts, against, strict=True) if not a}
    fitted = {t for t, a in zip(named.bank.texts, against, strict=True) if a}
    rehearsed = rehearse_own(named, CONDITIONS)
    assert len(rehearsed.inside) > len(aside)
    assert rehearsed.texts == min(len(aside - fitted), len(BACKGROUND))
    rng = np.random.default_rng(0)
    once = Rehearsed("own", rng.normal(-2, 1, 60), rng.normal(2, 1, 60), sure(60), distinct=12)
    often = replace(once, distinct=600)
    away = [abs(fit_odds([r]).odds.offset - SHIPPED_ODDS.offset) for r in (once, often)]
    assert away[0] < away[1]


def test_a_bank_brings_its_odds(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Novelty, "fit", classmethod(lambda _cls, _material: None))
    own = BackgroundOdds(slope=0.3, offset=-1.0, prior=0.2)
    seen, uniform = material.observe(("a red fruit", "a paper book")), Prior.uniform(3)
    opposition = Opposition.fit(material)
    ahead = opposition.ahead(seen, np.ones(3, dtype=bool))
    for bank, odds in ((material.bank, SHIPPED_ODDS), (replace(material.bank, odds=own), own)):
        outside = Outside.fit(replace(material, bank=bank))
        expected = odds.slope * ahead + odds.offset + logit(odds.prior)
        assert np.allclose(logit(outside(seen, uniform)), expected)


def test_odds_are_part_of_a_banks_identity(toy_bank: Bank) -> None:
    own = BackgroundOdds(1.0, 2.0, 0.05)
    named = replace(toy_bank, odds=own)
    assert named.hash == toy_bank.hash
    assert (
        len({toy_bank.identity, named.identity, replace(named, odds=replace(own, prior=0.1)).identity}) == 3
    )
    assert named.subset([0, 12, 24]).odds == own


@pytest.mark.parametrize(
    ("slope", "offset", "prior"), [(0, 1, 0.1), (np.inf, 1, 0.1), (1, np.nan, 0.1), (1, 1, 0)]
)
def test_odds_that_are_none(slope: float, offset: float, prior: float) -> None:
    with pytest.raises(ValueError, match="no odds"):
        BackgroundOdds(slope, offset, prior)


def test_the_prior_of_none_of_these_at_the_moment_of_asking(
    toy_panel: Panel, material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Novelty, "fit", classmethod(lambda _cls, _material: None))
    texts = ["a red fruit", "a paper book", "a boat in a library"]

    def asked(none_prior: float | None) -> Classifier:
        return Classifier(toy_panel, material.bank, embedder=material.embedder, none_prior=none_prior)

    plain, told = asked(None).infer_batch(texts), asked(0.3).infer_batch(texts)
    assert plain.out_of_class is not None
    assert told.out_of_class is not None
    shift = logit(told.out_of_class) - logit(plain.out_of_class)
    assert np.allclose(shift, logit(0.3) - logit(SHIPPED_ODDS.prior))
    assert np.array_equal(plain.posterior_in_class, told.posterior_in_class)
    answer = asked(0.3).infer(texts[0], explain=False)
    assert "another condition than the labels has a prior of 0.3" in answer.provenance.notes
    assert answer.provenance.bank != asked(None).infer(texts[0], explain=False).provenance.bank
    for wrong in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(BadInput, match="between 0 and 1"):
            asked(wrong)
    with pytest.raises(BadInput, match="describes no other conditions"):
        at_prior(replace(material.bank, background=()), 0.1)
    with pytest.raises(BadInput, match="for --method auto"):
        Classifier(toy_panel, material.bank, method="m-smc", embedder=material.embedder, none_prior=0.1)
