"""Unlabelled real cases: what they teach, that they stay quiet, and that none speaks for itself."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx import BadInput, Classifier, Prior
from simdx.abc.space import Apart, Space
from simdx.methods import Fitted, PanelData, Settings, real_cases
from simdx.methods.calibration_record import TRANSFERRED_OUTSIDE, Calibration
from simdx.methods.fitted import CrossFitted
from simdx.methods.outside import Outside, kinds_of
from simdx.methods.panel_data import fold_of
from simdx.methods.real_cases import CLAIMED, LEAST_SHARE, PULL, WEIGHT, shares, with_archive, with_real
from simdx.methods.recipe import LabelPosterior, Recipe, fit_recipe
from simdx.types import Bank, Case, EmbeddedBank, plain
from tests import builders
from tests.builders import toy_classifier

# Real apples are written in the bank's words and in words of their own ("cider", "press").
ARCHIVE = [
    "the cider press and a sweet red fruit", "cider from the orchard fruit tree",
    "press the fruit to juice and cider", "a ferry boat on the water of the stream",
    "the ferry and the bridge over the flood", "a tram with motor and gear and oil",
    "the tram has a piston and a valve", "a cloud above a stone wall",
]  # fmt: skip
UNIFORM = Prior.uniform(3)


@pytest.fixture
def panel_data(toy_bank: Bank) -> PanelData:
    prepared = builders.panel_data(
        texts=(*toy_bank.texts, *("cider press ferry tram",) * 3),  # so that the vocabulary knows the words
        label_index=np.concatenate([toy_bank.label_index, [0, 1, 2]]),
        background=("a grey cloud above", "a stone wall", "a cloud and a wall", "the wall of grey stone"),
    )
    known = Calibration(outside=TRANSFERRED_OUTSIDE)
    return replace(prepared, calibration=known)


def test_every_text_stands_under_its_labels_in_the_shares_of_its_answer(panel_data: PanelData) -> None:
    taught = with_archive(panel_data, ARCHIVE).real
    centred = with_archive(panel_data, ARCHIVE, weight=0)
    assert taught.inferred.all()
    asked = panel_data.observe(ARCHIVE)
    share = shares(centred, asked)
    assert share.shape == (len(ARCHIVE), 3)
    assert (share.sum(axis=1) <= 1 + 1e-9).all()
    for i, text in enumerate(ARCHIVE):
        rows = [j for j, held in enumerate(taught.texts) if held == text]
        kept = np.flatnonzero(share[i] > LEAST_SHARE)
        assert taught.label_index[rows].tolist() == kept.tolist()
        assert np.allclose(taught.weight[rows], WEIGHT * share[i, kept])
        assert set(taught.fold[rows].tolist()) <= {fold_of(text)}  # one that none of these claims has no row
    own = np.flatnonzero(share[:7].sum(axis=1) > 0)
    assert share[own].argmax(axis=1).tolist() == [[0, 0, 0, 1, 1, 2, 2][i] for i in own]
    claimed = Outside.fit(centred)(asked, UNIFORM) >= CLAIMED
    assert claimed.any()
    assert (share[claimed] == 0).all()  # no label adopts what none of these claims
    bare = replace(panel_data, bank=replace(panel_data.bank, background=()))
    bare = PanelData.prepare(panel_data.panel, bare.bank, panel_data.embedder)
    assert with_archive(bare, ARCHIVE).real.label_index.max() <= 2


def test_none_of_these_is_told_as_if_no_label_had_adopted_anything(panel_data: PanelData) -> None:
    asked = panel_data.observe(["the cider and a ferry", "a grey wall", "a tram in a cloud"])
    centred, taught = (with_archive(panel_data, ARCHIVE, weight=w) for w in (0.0, 5.0))
    assert len(taught.real.texts)
    bare, before, after = (
        Outside.fit(d).log_odds(asked, UNIFORM)["background"] for d in (panel_data, centred, taught)
    )
    assert np.allclose(after, before)
    assert not np.allclose(before, bare, atol=1e-3)  # the archive does centre


def test_an_archive_teaches_words_the_bank_does_not_tie_to_a_label(panel_data: PanelData) -> None:
    cases = panel_data.observe(["cider and the press", "the ferry", "a tram"])
    before = LabelPosterior(panel_data)(cases, UNIFORM).probabilities
    after = LabelPosterior(with_archive(panel_data, ARCHIVE, weight=3.0))(cases, UNIFORM).probabilities
    own = np.arange(3)
    assert (before[own, own] < 0.6).all()
    assert (after[own, own] > before[own, own] + 0.1).all()


def test_the_centre_is_the_archives_mean_drawn_towards_the_simulations(panel_data: PanelData) -> None:
    moved = with_archive(panel_data, ARCHIVE, weight=0)
    assert not len(moved.real.texts)
    assert moved.real.centre.texts == frozenset(map(plain, ARCHIVE))
    for fold, centre in enumerate(moved.real.centre.folds):
        left = [t for t in ARCHIVE if fold_of(t) != fold]
        again = with_archive(panel_data, left, weight=0).real
        assert np.allclose(centre.embedded, again.centre.embedded)
        assert np.allclose(centre.lexical, again.centre.lexical)
        assert centre.texts == frozenset(map(plain, left))

    alone = with_archive(panel_data, ARCHIVE[:1], weight=0).real.centre.folds[fold_of(ARCHIVE[0])]
    assert alone.texts == frozenset()  # whose only text is left out: the simulations' own mean

    def unit(texts: tuple[str, ...] | list[str]) -> np.ndarray:
        vectors = panel_data.observe(texts).vectors
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    simulated = (*panel_data.bank.texts, *panel_data.bank.background)
    n = len(ARCHIVE)
    expected = (n * unit(ARCHIVE).mean(axis=0) + PULL * unit(simulated).mean(axis=0)) / (n + PULL)
    assert np.allclose(moved.real.centre.embedded, expected, atol=1e-6)
    words = panel_data.lexicon
    both = [words.rows(t).mean() for t in (ARCHIVE, simulated)]
    assert np.allclose(moved.real.centre.lexical, (n * both[0] + PULL * both[1]) / (n + PULL))
    # cases are centred on it, simulations are not
    comparison, before = LabelPosterior(moved).comparison, LabelPosterior(panel_data).comparison
    assert np.allclose(comparison.embedded, before.embedded, atol=1e-5)
    asked = panel_data.observe(["a boat on the stream"])
    for moved_part, part in zip(comparison.observe(asked), before.observe(asked), strict=True):
        assert not np.allclose(moved_part, part, atol=1e-2)


def test_rows_that_stand_apart_have_their_own_mean_taken_out() -> None:
    apart = np.array([False, False, True, False, True, False, False, True])
    vectors = np.random.default_rng(2).normal(size=(8, 5))
    bank = EmbeddedBank(vectors, np.array([0, 1, 0, 1, 0, 1, 0, 1]), 2, (5,))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    own = unit[apart].mean(axis=0)
    placed = Space.fit(bank, centre=True, apart=Apart(apart, own))
    centred = np.where(apart[:, None], unit - own, unit - unit[~apart].mean(axis=0))
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    assert np.allclose(placed.bank, centred[placed.rows], atol=1e-6)
    assert np.allclose(placed.transform(vectors)[apart], centred[apart], atol=1e-6)


def test_a_text_of_the_archive_is_answered_by_a_fit_without_it(panel_data: PanelData) -> None:
    taught = with_archive(panel_data, ARCHIVE, weight=5.0)
    recipe = fit_recipe(taught, Settings())
    text = ARCHIVE[0]
    real = taught.real
    alone = LabelPosterior(taught.with_real(real.without(fold_of(text))))
    whole = LabelPosterior(taught)
    asked = panel_data.observe(["some other fruit", f" {text.upper()}.", "a boat", ARCHIVE[3]])
    found = recipe.answer(asked, UNIFORM)
    by_alone, by_whole = (fit(asked, UNIFORM) for fit in (alone, whole))
    for rows, by in ([1], by_alone), ([0, 2], by_whole):
        assert np.allclose(found.among_labels[rows], by.probabilities[rows])
        assert np.allclose(found.effective_simulations[rows], by.effective_simulations[rows])
        assert np.allclose(found.tolerance[rows], by.tolerance[rows])
    assert found.among_labels[1].min() > 1e3 * by_whole.probabilities[1].min()  # less sure
    # evidence follows the fit that answered, row by row
    evidence = recipe.evidence(asked, UNIFORM)
    assert np.allclose(evidence.share[1], alone.evidence(asked, UNIFORM).share[1])
    assert np.allclose(evidence.distance[[0, 2]], whole.evidence(asked, UNIFORM).distance[[0, 2]])
    # what is left of a text when a sentence is taken away goes where the whole text goes
    part = panel_data.observe(["sweet red fruit"], of=[text])
    assert np.allclose(recipe.answer(part, UNIFORM).among_labels, alone(part, UNIFORM).probabilities)


def test_out_of_class_probabilities_are_left_out_likewise(panel_data: PanelData) -> None:
    other = toy_classifier(panel_data.bank, unlabelled=ARCHIVE, unlabelled_weight=5.0)
    real = other.data.real
    left = other.data.with_real(real.without(fold_of(ARCHIVE[7])))
    alone = Outside.fit(left)
    seen = other.observe([ARCHIVE[7], "water boat stream bridge"])
    found = other.infer_batch_observed(seen).out_of_class
    assert np.isclose(found[0], alone(seen, UNIFORM)[0])
    assert found[1] != pytest.approx(alone(seen, UNIFORM)[1], abs=1e-4)


def test_a_text_given_twice_counts_once_and_labelled_cases_keep_their_weight(panel_data: PanelData) -> None:
    labelled = with_real(panel_data, [Case("a red fruit", label="apple")], 2.0)
    taught = with_archive(
        labelled, [*reversed(ARCHIVE), ARCHIVE[0] + "!", ARCHIVE[1] + " .", "A red fruit."]
    ).real
    once = with_archive(labelled, ARCHIVE).real
    assert np.array_equal(taught.label_index, once.label_index)
    assert np.allclose(taught.weight, once.weight, atol=1e-6)
    assert taught.weight[0] == 2.0
    assert not taught.inferred[0]
    assert len(taught.centre.texts) == len(ARCHIVE)  # the labelled case is not in it


def test_without_the_archive_nothing_of_it_is_left(panel_data: PanelData) -> None:
    assert with_archive(panel_data, ARCHIVE).without_archive().real is None
    labelled = with_real(panel_data, [Case("a red fruit", label="apple")])
    left = with_archive(labelled, ARCHIVE).without_archive().real
    assert (left.texts, left.centre) == (("a red fruit",), None)
    assert panel_data.without_archive() is panel_data


def test_a_policy_tuned_without_an_archive_serves_with_one() -> None:
    """Tuning on simulated text leaves the archive out, so it would find the packaged thresholds again."""
    texts = ["a white patch on the tongue", "a swelling of the lip", "an ulcer of the gum"]
    taught = Classifier("oral-lesions", unlabelled=texts)
    packaged = Classifier("oral-lesions")
    assert taught.policy.thresholds == packaged.policy.thresholds
    assert taught.policy.fits(taught.desk.fingerprint)
    assert taught.desk.fingerprint != packaged.desk.fingerprint
    assert not packaged.policy.fits(taught.desk.fingerprint)  # a guarantee found without it is none with it


def test_answers_state_the_archive_and_never_quote_it(private_home: Path, panel_data: PanelData) -> None:
    toy_classifier(panel_data.bank)
    before = sorted(private_home.rglob("*.safetensors"))
    classifier = toy_classifier(panel_data.bank, unlabelled=ARCHIVE)
    assert before
    assert sorted(private_home.rglob("*.safetensors")) == before
    answer = classifier.infer("red fruit. a boat", ask=True)
    assert any("an archive (8 unlabelled), which counts as" in note for note in answer.provenance.notes)
    assert {e.text for e in answer.evidence} <= set(panel_data.bank.texts)
    whole = json.dumps(answer.to_json())
    assert not any(text in whole for text in ARCHIVE)
    kept = [p.read_bytes() for p in private_home.rglob("*") if p.is_file()]
    assert kept
    assert not any(word in content for content in kept for word in (b"cider press and", b"ferry boat"))


def test_rows_beside_the_grouped_ones_join_the_nearest_kind() -> None:
    rng = np.random.default_rng(5)
    middles = np.eye(4)[:3] * 4
    rows = np.concatenate([rng.normal(size=(12, 4)) * 0.2 + m for m in middles])
    beside = np.concatenate([middles[1:2], middles[0:1]])
    kind = kinds_of(np.concatenate([rows, beside]), 3, grouped=36)
    assert kind[:36].tolist() == kinds_of(rows, 3).tolist()
    assert (kind[36], kind[37]) == (kind[12], kind[0])


def test_threads_that_ask_at_once_share_one_fit(panel_data: PanelData) -> None:
    made: list[int] = []

    def fit(part: PanelData) -> Fitted:
        made.append(len(made))
        time.sleep(0.01)
        return Recipe(part, Settings())

    fits = CrossFitted(with_archive(panel_data, ARCHIVE), fit)
    seen = [panel_data.observe([text]) for text in ARCHIVE * 3]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda o: fits._parts(o)[0][2], seen))
    assert len(made) == 1 + len({fold_of(t) for t in ARCHIVE})
    assert found[: len(ARCHIVE)] == found[len(ARCHIVE) : 2 * len(ARCHIVE)]


def test_a_guarantee_is_not_found_on_the_archive_nor_kept_for_another(panel_data: PanelData) -> None:
    labels = np.array([0, 1, 2] * 12)
    texts = [f"{['a red fruit', 'a boat', 'the motor'][k]} {i}" for i, k in enumerate(labels)]
    one = toy_classifier(panel_data.bank, unlabelled=ARCHIVE)
    policy = one.tune_policy(texts, labels)
    assert policy.conformal is not None
    same = toy_classifier(panel_data.bank, unlabelled=list(reversed(ARCHIVE)), policy=policy)
    assert same.infer("a red fruit").conformal_set is not None
    other = toy_classifier(panel_data.bank, unlabelled=ARCHIVE[:5], policy=policy).infer("a red fruit")
    assert other.conformal_set is None
    assert any("other real cases" in note for note in other.provenance.notes)
    with pytest.raises(BadInput, match="1 of these cases are also in the archive"):
        one.tune_policy([*texts, ARCHIVE[0]], np.append(labels, 0))


def test_of_a_very_large_archive_only_a_part_is_adopted(
    panel_data: PanelData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_cases, "MOST_ADOPTED", 3)
    real = with_archive(panel_data, ARCHIVE).real
    assert len(set(real.texts)) <= 3
    assert len(real.centre.texts) == len(ARCHIVE)
