"""Bank scores: the MMD against its definition, a valid test, and figures that move the right way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.bank.files import read_bank, write_jsonl
from simdx.bank_score import BankScore, covered, mmd_test, score_bank
from simdx.errors import BadInput
from simdx.types import Bank, EmbeddedBank, Panel
from tests.builders import panel_data, toy_texts
from tests.cli.conftest import Cli
from tests.faults.world import write_world


def cases(seed: int, per_label: int = 10) -> list[str]:
    """Texts made as the toy bank's are."""
    return list(toy_texts(per_label, seed)[0])


def score_of(panel: Panel, bank: Bank, texts: list[str]) -> BankScore:
    data = panel_data(panel, bank)
    return score_bank(data, data.observe(texts), permutations=99)


def embedded(rows: np.ndarray) -> EmbeddedBank:
    return EmbeddedBank(rows, np.zeros(len(rows), dtype=np.int64), 1, (rows.shape[1],))


def test_mmd_against_its_definition() -> None:
    rng = np.random.default_rng(1)
    bank, seen = rng.normal(size=(7, 4)), rng.normal(size=(5, 4)) + 1
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (bank, seen)]
    mean = np.concatenate(unit).mean(axis=0)
    x, y = ((u - mean) / np.linalg.norm(u - mean, axis=1, keepdims=True) for u in unit)
    pooled = np.concatenate([x, y])
    gaps = [((a - b) ** 2).sum() for i, a in enumerate(pooled) for b in pooled[i + 1 :]]
    width = np.median(gaps)

    def k(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-((a - b) ** 2).sum() / width))

    within_x = np.mean([k(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j])
    within_y = np.mean([k(a, b) for i, a in enumerate(y) for j, b in enumerate(y) if i != j])
    across = np.mean([k(a, b) for a in x for b in y])
    found, _ = mmd_test(embedded(bank), seen, 20, 0)
    assert found == pytest.approx(within_x + within_y - 2 * across, abs=1e-5)


def test_the_mmd_test_holds_its_level_and_has_power() -> None:
    """200 tests of one distribution at level .1: the count of rejections is Binomial(200, .1), mean 20 and
    standard deviation 4.2; 4 of them are allowed. A shifted distribution is found at once."""
    rng = np.random.default_rng(2)
    rejected = 0
    for seed in range(200):
        one, two = rng.normal(size=(15, 3)), rng.normal(size=(12, 3))
        rejected += mmd_test(embedded(one), two, 39, seed)[1] <= 0.1
    assert rejected == pytest.approx(20, abs=17)
    squared, p = mmd_test(embedded(rng.normal(size=(40, 3))), rng.normal(size=(40, 3)) + 2, 199, 0)
    assert squared > 0.1
    assert p == pytest.approx(1 / 200)


def test_coverage_counts_rows_near_enough() -> None:
    reference = np.array([[1.0, 0, 0], [0.995, 0.0998749, 0], [0.995, -0.0998749, 0]])
    rows = np.array([[0.999, 0.0447, 0], [0, 1.0, 0], [0, 0, 1.0], [0.999, 0, 0.0447]])
    assert covered(rows, reference) == 0.5


def test_a_damaged_bank_scores_lower(toy_panel: Panel, toy_bank: Bank) -> None:
    texts = cases(11)
    whole = score_of(toy_panel, toy_bank, texts)
    rng = np.random.default_rng(5)
    index = toy_bank.label_index.copy()
    wrong = rng.permutation(len(index))[: len(index) // 2]
    index[wrong] = (index[wrong] + 1) % 3
    noised = score_of(toy_panel, replace(toy_bank, label_index=index), texts)
    assert whole.fidelity > noised.fidelity + 0.1
    assert whole.self_accuracy > noised.self_accuracy + 0.2
    assert whole.confidence > noised.confidence
    assert whole.fidelity == pytest.approx((whole.confidence * whole.agreement * whole.balance) ** (1 / 3))


def test_other_text_is_told_apart(toy_panel: Panel, toy_bank: Bank) -> None:
    same = score_of(toy_panel, toy_bank, cases(12))
    rng = np.random.default_rng(6)
    words = ["court", "judge", "law", "paper", "appeal", "verdict", "crime", "jury"]
    other = score_of(toy_panel, toy_bank, [" ".join(rng.choice(words, size=6)) for _ in range(30)])
    assert same.mmd_p > 0.01
    assert other.mmd_p == pytest.approx(1 / 100)
    assert other.coverage < same.coverage
    assert other.typicality_low > same.typicality_low
    assert other.typicality_median < same.typicality_median
    with pytest.raises(BadInput, match="at least 10"):
        score_of(toy_panel, toy_bank, cases(14)[:9])


def test_the_verb(tmp_path: Path, toy_panel: Panel, cli: Cli) -> None:
    write_world(tmp_path)
    texts, plot = cases(16), tmp_path / "p.svg"
    write_jsonl(tmp_path / "texts.jsonl", ({"text": text} for text in texts))
    given = ("bank", "score", "--panel", tmp_path / "with-bank.yaml", "--cases", tmp_path / "texts.jsonl")
    found = cli(*given, "--json", "--permutations", "99", "--plot", plot).json
    bank = read_bank(tmp_path / "rows.jsonl", toy_panel)
    assert found["fidelity"] == pytest.approx(score_of(toy_panel, bank, texts).fidelity)
    assert plot.read_text().startswith("<svg")
    assert "typicality of the cases" in plot.read_text()
    assert "coverage" in cli(*given).out
