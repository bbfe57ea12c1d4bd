"""Which texts to label, from all strata; and shares in an archive, against known mixtures."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simdx.archive import (
    Rates,
    as_prior,
    estimated,
    label_shares,
    moved_to,
    outside_share,
    prevalence,
    read_texts,
    texts_to_ask,
)
from simdx.bank.files import bank_for
from simdx.classifier import Classifier
from simdx.errors import BadInput
from simdx.types import Bank, Case
from tests.builders import toy_panel, wide_bank
from tests.cli.conftest import Cli

PANEL = "oral-lesions"


def noisy(labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Calibrated answers under even priors: a normal score for each label, higher for the true one."""
    score = rng.normal(size=(len(labels), n)) + 2.0 * (labels[:, None] == np.arange(n))
    likelihood = np.exp(2.0 * score - 2.0)
    return likelihood / likelihood.sum(axis=1, keepdims=True)


def test_expectation_maximisation_finds_shares_that_counting_misses() -> None:
    rng, real = np.random.default_rng(0), np.array([0.7, 0.2, 0.1])
    posterior = noisy(rng.choice(3, 4_000, p=real), 3, rng)
    found = label_shares(posterior, np.ones(4_000))
    counted = np.bincount(posterior.argmax(axis=1), minlength=3) / 4_000
    assert np.abs(found - real).max() < 0.05  # some texts count evenly
    assert np.abs(found - real).sum() < np.abs(counted - real).sum()
    assert found.sum() == pytest.approx(1)


def test_texts_that_are_none_of_these_do_not_count() -> None:
    posterior = np.array([[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10)
    found = label_shares(posterior, np.repeat([1.0, 0.0], 10))
    assert found[0] > 0.9
    assert label_shares(posterior, np.zeros(20)).tolist() == [0.5, 0.5]


def test_the_outside_share_is_corrected_for_what_the_detector_misses() -> None:
    none = np.repeat([0.9, 0.0], [20, 80])  # 40 of 100 outside, half of them found
    assert outside_share(none, 0.0, 0.45) == pytest.approx(0.4)
    assert outside_share(none, 0.3, 0.9) == 0
    assert outside_share(none, 0.0, 0.1) == 1
    moved = moved_to(np.array([0.1, 0.2, 0.6, 0.9]), 0.3)
    assert moved.mean() == pytest.approx(0.3)
    assert (np.diff(moved) > 0).all()
    assert moved_to(none, 0.0).tolist() == [0.0] * 100


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, real, held = np.random.default_rng(1), np.array([0.5, 0.3, 0.2]), []
    rates = Rates(np.full(30, 0.05), np.full(30, 0.55), labelled=False)
    for _ in range(8):
        labels = rng.choice(3, 120, p=real)
        posterior, outside = noisy(labels, 3, rng), rng.random(120) < 0.3
        none = np.where(outside, 0.55, 0.05)
        _, intervals = estimated(posterior, none, rates, rng)
        truth = np.append(np.bincount(labels[~outside], minlength=3) / (~outside).sum(), outside.mean())
        held.append((intervals[:, 0] <= truth) & (truth <= intervals[:, 1]))
    assert np.mean(held) > 0.8


def test_shares_as_priors_sum_to_one_and_drop_no_label() -> None:
    found = as_prior(np.array([0.0, 1 / 3, 2 / 3]))
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found[0] > 0


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of two labels of the bank, and of its background."""
    _, bank, _ = bank_for(PANEL)
    own = [text for text, k in zip(bank.texts, bank.label_index, strict=True) if k in (0, 1)][:60]
    path = tmp_path_factory.mktemp("archive") / "texts.jsonl"
    rows = [{"text": text} for text in (*own, *bank.background[:20])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_command_offers_its_result_as_priors(cli: Cli, archive: Path) -> None:
    found = cli("panel", "prevalence", "--panel", PANEL, "--unlabelled", archive, "--json").json
    assert found["n"] == 80
    assert found["none_of_these"]["share"] > 0.2  # a quarter, and texts of the bank itself are all found
    names = list(found["labels"])
    assert sum(found["labels"][name]["share"] for name in names[:2]) > 0.8
    again = cli(
        "classify", "A swelling of the lip.", "--panel", PANEL, "--json", "--none-prior", found["none_prior"],
        *(part for pair in found["prior"] for part in ("--prior", pair)),
    ).json  # fmt: skip
    assert again["provenance"]["prior"][names[0]] == pytest.approx(float(found["prior"][0].split("=")[1]))
    assert "--none-prior" in cli("panel", "prevalence", "--panel", PANEL, "--unlabelled", archive).out


def test_too_few_texts_and_a_bank_without_background_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="30 texts"):
        prevalence(Classifier(PANEL), ["a text"] * 5)
    panel, bank = toy_panel(), wide_bank()
    labelled = zip(bank.texts, bank.label_index, strict=True)
    known = [Case(text, label=panel.names[k]) for text, k in labelled][::10]
    moved = prevalence(Classifier(panel, bank, calibration_cases=known), bank.texts[:40], known)
    assert "fewer than 5" in moved["refused"]
    found = prevalence(Classifier(panel, replace(bank, background=())), bank.texts[:40])
    assert (found["none_of_these"], found["none_prior"]) == (None, None)
    assert "background" in found["refused"]


def answering(none: np.ndarray, leading: np.ndarray, texts: list[str]) -> SimpleNamespace:
    """A classifier of two labels that answers as told."""

    def infer_batch(asked: list[str]) -> SimpleNamespace:
        rows = [texts.index(text) for text in asked]
        p = np.stack([leading[rows], 1 - leading[rows]], axis=1)
        return SimpleNamespace(posterior=p, out_of_class=none[rows])

    bank = Bank("p", ("a", "b"), (texts[0],), np.zeros(1, dtype=np.int64))
    return SimpleNamespace(infer_batch=infer_batch, bank=bank, panel=SimpleNamespace(names=("a", "b")))


def test_every_stratum_and_the_whole_range_is_asked_about() -> None:
    texts = [f"text number {i}" for i in range(400)]
    none = np.where(np.arange(400) < 360, 0.02, np.where(np.arange(400) < 390, 0.3, 0.97))
    leading = 0.5 + np.linspace(0, 0.5, 400)[np.random.default_rng(0).permutation(400)]
    chosen = texts_to_ask(answering(none, leading, texts), texts, 12)
    assert len(set(chosen)) == 12
    assert 0 not in chosen  # the bank has it
    for stratum in (0.02, 0.3, 0.97):
        asked = np.sum(none[chosen] == stratum)  # of the rare more than their share, of the common less
        assert 2 <= asked <= 7
    inside = leading[[i for i in chosen if none[i] == 0.02]]
    assert inside.min() < 0.7
    assert inside.max() > 0.8
    assert {0.02, 0.3, 0.97} == set(none[chosen[:4]])  # whoever stops early has seen all
    again = texts_to_ask(answering(none, leading, texts), [*texts, texts[5].upper()], 12)
    assert again == chosen  # equal texts count once
    assert texts_to_ask(answering(none, leading, texts), ["", " "], 12) == []
    assert len(texts_to_ask(answering(none, leading, texts), texts[:6], 12)) == 5


def test_texts_come_as_lines_or_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("one\n two \nthree\n")
    assert read_texts(path) == ["one", "two", "three"]
    path.write_text("one\ngoes on\n\ntwo\n\n\n")
    assert read_texts(path) == ["one goes on", "two"]
