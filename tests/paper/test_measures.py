"""What the artefacts measure: calculations on toys with known answers, and each on the packaged cases."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from paper import posteriors, scores
from paper.artefacts import ARTEFACTS
from paper.context import Context, Measured
from paper.world import D_SMC, M_SMC, REFERENCE, Spec, spec_of
from simdx.abc.prior import Prior
from simdx.methods import Observations
from simdx.methods.fitted import Inferred
from simdx.metrics import ood_auroc
from simdx.runs import NotRun
from simdx.types import Float, Posterior, Trace, entropy_bits
from tests.paper.conftest import PANEL, asking_record, small_context, write_banks

BY_NAME = {one.name: one for one in ARTEFACTS}


def _run(context: Context, name: str) -> tuple[Any, list[pd.DataFrame]]:
    """An artefact's figures as its record would hold them, and its tables."""
    data = BY_NAME[name].measure(context).to_json()["data"]
    BY_NAME[name].figures(data)
    return data, list(BY_NAME[name].tables(data).values())


def _row(table: pd.DataFrame, first: str) -> dict[str, Any]:
    return table[table.iloc[:, 0] == first].iloc[0].to_dict()


def _wrong(context: Context, name: str) -> int:
    p = context.probabilities(spec_of(name, PANEL))
    return int((p.argmax(axis=1) != context.labels(PANEL)).sum())


def _observations(n: int) -> Observations:
    return Observations(tuple(f"case {i}" for i in range(n)), np.zeros((n, 2)))


# --------------------------------------------------------------------------- scores


def test_main_results_stand_beside_the_paper_s(context: Context) -> None:
    _, (every, means) = _run(context, "main-results")
    accuracy = 1 - _wrong(context, M_SMC) / 60
    assert _row(every, "M-SMC, reference")["accuracy"].startswith(f"{accuracy:.3f} [")
    mean = _row(means, M_SMC)
    assert mean["models"] == 1  # the model asked, and no bank by anyone else
    assert mean["accuracy, paper"] == "0.955"
    assert mean["Brier, paper"].endswith("†")


@pytest.mark.parametrize(
    ("artefact", "which", "first", "column", "cell"),
    [
        ("error-structure", 0, M_SMC, "paper: errors, mass, one-hot", "12.000, 0.889"),
        ("runtime", 1, "D-SMC, paper", "a case", "8"),
        pytest.param("distribution-aware", 0, "ABI", "latency, paper", "130.0 ms", marks=pytest.mark.slow),
    ],
)
def test_tables_hold_our_figures_and_the_paper_s(
    context: Context, artefact: str, which: int, first: str, column: str, cell: str
) -> None:
    _, tables = _run(context, artefact)
    assert str(_row(tables[which], first)[column]).startswith(cell)


def test_every_row_of_the_calibration_table_shares_its_split(context: Context) -> None:
    data, _ = _run(context, "calibrated-embedding")
    found = data[PANEL]
    assert found["calibration_cases"] + found["test_cases"] == 60
    assert abs(found["calibration_cases"] - 12) <= 2  # a fifth, stratified over three labels
    rows = found["rows"]
    assert {row["scores"]["n"] for row in rows.values()} == {found["test_cases"]}
    assert rows["M-SMC + TS"]["scores"]["accuracy"] == rows[M_SMC]["scores"]["accuracy"]
    assert rows[M_SMC]["temperature"] is None
    assert {scores.SUPERVISED, scores.CEILING} <= set(rows)


# --------------------------------------------------------------------------- errors


def test_risk_at_full_coverage_is_the_error_rate_and_bands_hold_every_case_once(context: Context) -> None:
    _, (table,) = _run(context, "risk-coverage")
    assert _row(table, M_SMC)["risk at 100%"] == f"{_wrong(context, M_SMC) / 60:.3f}"
    data, _ = _run(context, "entropy-strata")
    assert all(sum(band["n"] for band in bands.values()) == 60 for bands in data[PANEL].values())


def test_differences_count_the_draw_of_the_bank_and_debias_ece(context: Context) -> None:
    data, (table,) = _run(context, "significance")
    found = data[PANEL]["differences"]["ML (small) − M-SMC over small"]
    asked = next(one for one in context.asked(PANEL) if one.method == "logits")
    own = context.probabilities(spec_of(M_SMC, PANEL, "small"))
    right = [(p.argmax(axis=1) == context.labels(PANEL)).mean() for p in (own, asked.probabilities)]
    assert found["accuracy"]["difference"] == pytest.approx(right[1] - right[0])
    low, high = found["accuracy"]["ci"]
    spread = data[PANEL]["bank_spread"]["small"]["accuracy"]
    assert spread > 0
    assert high - low > 2 * 1.96 * spread
    assert _row(table, "ML (small) − M-SMC over small")["Δ accuracy"].startswith(
        f"{right[1] - right[0]:.3f} ["
    )


# --------------------------------------------------------------------------- the simplex and the network


def test_the_spread_is_that_of_dirichlet_draws() -> None:
    alpha = np.array([4.0, 2.0, 1.0])
    draws = np.random.default_rng(0).dirichlet(alpha, size=50_000)
    apart = np.sqrt(((draws - draws.mean(axis=0)) ** 2).sum(axis=1).mean())
    mean = alpha[None] / alpha.sum()
    assert posteriors.spread_of(mean, np.array([alpha.sum()]))[0] == pytest.approx(apart, rel=0.01)


def test_the_triangles_show_the_case_of_median_entropy(context: Context) -> None:
    data, _ = _run(context, "ternary")
    p = context.probabilities(Spec(PANEL, "d-smc"))
    right = p.argmax(axis=1) == context.labels(PANEL)
    bits, shown = entropy_bits(p[right]), {one["heading"].split(" (")[0]: one for one in data["triangles"]}
    typical = entropy_bits(np.array([shown["correct"]["mean"]]))
    assert np.sum(bits < typical - 1e-12) == (len(bits) - 1) // 2
    assert list(shown) == ["prior", "correct", *([] if right.all() else ["wrong"]), "out of class"]
    assert all(len(one["draws"]) == 200 for one in shown.values())


def test_the_parts_of_uncertainty_add_up_by_outcome(context: Context) -> None:
    spec, label = Spec(PANEL, "d-smc"), context.labels(PANEL)
    groups = posteriors.split_by_outcome(context.answers(spec), context.answers(spec, True), label)
    assert len(groups["correct"]["total_bits"]) == 60 - _wrong(context, D_SMC)
    for parts in groups.values():
        np.testing.assert_allclose(
            parts["total_bits"], parts["aleatoric_bits"] + parts["epistemic_bits"], atol=1e-9
        )
    data, _ = _run(context, "uncertainty-decomposition")
    found = data[PANEL]["d-smc"]["auroc"]["out of class: epistemic_bits"]["value"]
    inside, beyond = groups["all"]["epistemic_bits"], groups["out of class"]["epistemic_bits"]
    assert found == pytest.approx(ood_auroc(inside, beyond).value)
    # a fixed share of prior mass is accepted, so epistemic bits do not find out-of-class cases here
    assert found < 0.5


def test_both_objectives_are_trained_and_compared(context: Context) -> None:
    data, _ = _run(context, "abi-fidelity")
    assert set(data) == {f"{PANEL}, {name}" for name in posteriors.OBJECTIVES}
    row = data[f"{PANEL}, own objective"]
    assert row["parameters"] == 256 * 256 + 256 + 256 * 256 + 256 + 256 * 3 + 3
    assert row["n"] == 60


def test_networks_of_whole_embeddings_stand_beside_those_of_coordinates(context: Context) -> None:
    data, (table,) = _run(context, "whole-embedding")
    arms = data[PANEL]["small"]
    assert arms[posteriors.TARGET]["agreement"] == 1
    whole = [name for name in arms if "minus_coordinates" in arms[name]]
    assert whole == [
        f"{name}, whole embedding" for name in (posteriors.PAPERS_NETWORK, posteriors.ON_THE_BANK)
    ]
    for name in whole:
        beside, own = arms[name.removesuffix(", whole embedding")]["scores"], arms[name]["scores"]
        gap = arms[name]["minus_coordinates"]["accuracy"]["difference"]
        assert gap == pytest.approx(own["accuracy"] - beside["accuracy"])
    assert list(table["method"]) == list(arms)
    # A spec without such a network has the name and the intervals that it had before there was one.
    assert "inputs" not in spec_of(D_SMC, PANEL).key


# --------------------------------------------------------------------------- priors


class _Bayes:
    """An inference that is exactly Bayes' rule on a fixed likelihood."""

    def __init__(self, likelihood: Float) -> None:
        self.likelihood = likelihood

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        rows = [int(text.removeprefix("case ")) for text in observations.texts]
        joint = self.likelihood[rows] * prior.probabilities
        p = joint / joint.sum(axis=1, keepdims=True)
        return Inferred(Posterior(p, np.ones(len(p)), np.zeros(len(p))))


def test_every_wrong_label_is_tried_and_averaged() -> None:
    fitted = _Bayes(np.array([[8.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 30.0]]))
    even, five = (
        posteriors.under_priors(fitted, _observations(3), np.array([0, 1, 2]), 3, count, held=False)
        for count in (1, 5)
    )
    np.testing.assert_allclose(*(even[kind]["posterior_on_true"] for kind in ("informative", "misleading")))
    own, wrong = five["informative"], five["misleading"]
    assert own["prior_on_true"] == pytest.approx(5 / 7)
    assert wrong["prior_on_true"] == pytest.approx(1 / 7)
    np.testing.assert_allclose(own["posterior_on_true"], [40 / 42, 15 / 17, 150 / 152])
    np.testing.assert_allclose(wrong["posterior_on_true"], [8 / 14, 3 / 9, 30 / 36])
    # odds of 5 overrule evidence of 3 to 1, and not of 8 or 30 to 1
    np.testing.assert_allclose(wrong["accuracy"], [1, 0, 1])
    np.testing.assert_allclose(own["accuracy"], [1, 1, 1])


def test_priors_move_the_packaged_cases(context: Context) -> None:
    data, (table,) = _run(context, "prior-sensitivity")
    for sweep in data[PANEL].values():
        informed = [row["informative"]["posterior_on_true"]["value"] for row in sweep]
        misled = [row["misleading"]["posterior_on_true"]["value"] for row in sweep]
        assert informed == sorted(informed)
        assert misled == sorted(misled, reverse=True)
    misled = table[(table["method"] == "D-SMC") & (table["prior"] == "misleading")]
    assert misled.iloc[0]["accuracy, paper"] == "0.190†"


# --------------------------------------------------------------------------- out of class


def test_entropy_out_of_class_for_every_method(context: Context) -> None:
    measured = posteriors.out_of_class(context)
    rows = {row["method"]: row for row in measured.data[PANEL]}
    spec = Spec(PANEL, "m-smc")
    inside, beyond = (
        entropy_bits(a["probabilities"]) for a in (context.answers(spec), context.answers(spec, True))
    )
    assert rows["M-SMC"]["outside"] == pytest.approx(beyond.mean())
    assert rows["M-SMC"]["auroc"] == pytest.approx(ood_auroc(inside, beyond).value)
    assert all(0 <= row["outside"] <= np.log2(3) + 1e-9 for row in rows.values())


def test_recorded_answers_out_of_class_are_used(tmp_path: Path, context: Context) -> None:
    cases = context.cases(PANEL).outside
    ids = [case.id for case in cases.cases]
    sure = [[0.98, 0.01, 0.01]] * (len(ids) - 1) + [[1 / 3, 1 / 3, 1 / 3]]
    asking_record(tmp_path, "bold", "logits", ids, sure, [1.0] * (len(ids) - 1) + [0.0])
    (row,), missing = posteriors.asked_bits(small_context(tmp_path / "out", tmp_path, tmp_path), PANEL)
    assert (row["paper"], row["n_outside"]) == ("ML", len(ids) - 1)
    # the answer that could not be read is left out, not counted as the prior
    assert row["outside"] == pytest.approx(entropy_bits(np.array(sure[:1]))[0])
    assert not missing


# --------------------------------------------------------------------------- the samplers


def test_a_case_that_stopped_leaves_the_means() -> None:
    steps = np.array([[0.5, 0.3], [0.1, 0.3], [0.1, 0.2]])
    mass = np.stack([1 - steps, steps], axis=2)
    trace = Trace(
        steps, steps, np.ones((3, 2), int), steps, steps, mass, np.array([1, 3]), ("floor", "complete")
    )
    rows = posteriors.dynamics_table(trace, np.array([1, 0]))
    assert [(row["population"], len(row["p_true"])) for row in rows] == [(1, 2), (2, 1), (3, 1)]
    assert [row["epsilon"] for row in rows] == pytest.approx([0.4, 0.3, 0.2])
    assert [row["p_true"].mean() for row in rows] == pytest.approx([0.6, 0.7, 0.8])


def test_capabilities_come_from_the_code(context: Context) -> None:
    data, (table,) = _run(context, "capabilities")
    assert not data["M-SMC"]["posterior_over_simplex"]
    assert data["M-SMC (particles)"]["sampler_per_case"]
    assert not data["M-SMC"]["sampler_per_case"]
    assert not data["ABI"]["prior_at_test_time"]
    assert data["ABI (prior-conditioned)"]["prior_at_test_time"]
    assert all(data["recipe"][key] for key in ("posterior_over_simplex", "uncertainty_split"))
    assert data["recipe"]["prior_moved_mass"] > 0
    assert _row(table, "prior at test time")["ABI, paper"] == "no"


# --------------------------------------------------------------------------- ablations


def test_embedders_that_are_not_here_are_named(context: Context, private_home: Path) -> None:
    found, missing = scores.embedders_at_hand(("wordllama", "hashing", "minilm", "wordllama+minilm"))
    assert found == ["wordllama", "hashing"]
    assert set(missing) == {"minilm", "wordllama+minilm"}
    measured = scores.embedding_ablation(context)
    assert any("minilm" in note for note in measured.notes)
    accuracy = measured.data["scores"][PANEL]["M-SMC, wordllama"]["accuracy"]
    assert accuracy == context.scores(Spec(PANEL, "m-smc"))["accuracy"]


def _by_size(measured: Measured) -> dict[tuple[str, str, int], Any]:
    return {(r["bank"], r["method"], r["size"]): r for r in measured.data["rows"]}


def test_a_pool_larger_than_the_bank_is_the_bank(context: Context) -> None:
    measured = BY_NAME["pool-size"].measure(context)
    rows, whole = _by_size(measured), context.scores(Spec(PANEL, "d-smc"))
    for size in (500, 1000):
        row = rows["reference", "d-smc", size]
        assert (row["distinct"], row["means"]["accuracy"]) == ([100, 100], whole["accuracy"])
    assert rows["reference", "d-smc", 3]["distinct"] == [3, 3]
    assert rows["small", "m-smc", 30]["distinct"] == [10, 10]


def test_two_weights_of_one_model_are_compared(tmp_path: Path, context: Context) -> None:
    with pytest.raises(NotRun, match="one model with different weights"):
        scores.quantisation_ablation(context)
    write_banks(tmp_path, {"tiny": 8, "tiny-q8_0": 8, "tiny-t0.4": 8})
    own = small_context(tmp_path / "out", tmp_path, tmp_path)
    assert own.models(PANEL) == ("tiny",)
    data, (table,) = _run(own, "quantisation-ablation")
    assert list(data) == [f"{PANEL}: tiny and tiny-q8_0"]  # a temperature is no other weight
    pair = data[f"{PANEL}: tiny and tiny-q8_0"]
    first, second = pair["m-smc"]
    assert pair["difference"]["accuracy"]["value"] == pytest.approx(second["accuracy"] - first["accuracy"])
    assert table.iloc[0, 0] == "M-SMC, tiny"


def test_temperatures_come_from_banks(tmp_path: Path, context: Context) -> None:
    with pytest.raises(NotRun, match="several temperatures"):
        scores.temperature_ablation(context)
    write_banks(tmp_path, {"tiny": 8, "tiny-t0.8": 8, "tiny-t0.2": 8})
    own = small_context(tmp_path / "out", tmp_path, tmp_path)
    data, _ = _run(own, "temperature-ablation")
    points = data["series"][0]["points"]
    assert [point["temperature"] for point in points] == [0.2, 0.8]
    assert points[0]["texts"] == 24
    assert points[0]["ece"]["value"] == own.scores(Spec(PANEL, "m-smc", "tiny-t0.2"))["ece"]


def test_the_draw_of_a_bank_is_measured_by_its_halves_and_by_disjoint_banks(
    tmp_path: Path, asking: Path
) -> None:
    folder = write_banks(tmp_path / "banks", {"small": 10, "small-n40": 40})
    own = small_context(tmp_path / "out", folder, asking)
    three = scores.disjoint_draws(own, PANEL, "small")
    texts = [set(bank.texts) for bank in three]
    assert [set(bank.counts.values()) for bank in three] == [{10}] * 3
    assert not any(a & b for a, b in itertools.combinations(texts, 2))
    found = scores.bank_draws(own).data[PANEL]
    assert set(found["small"]) == {M_SMC, D_SMC, scores.THREE}
    assert all(spread["accuracy"] > 0 for spread in found["small"].values())
    assert scores.THREE not in found[REFERENCE]


def test_three_draws_on_file_are_averaged(tmp_path: Path, asking: Path) -> None:
    folder = write_banks(tmp_path / "banks", {"small": 10, "small-s1": 10, "small-s2": 10})
    own = small_context(tmp_path / "out", folder, asking)
    assert own.models(PANEL) == ("small",)
    assert own.draws(PANEL, "small") == ("small", "small-s1", "small-s2")
    row = scores.significance(own).data[PANEL]["differences"]["ML (small) − M-SMC over small"]
    asked = next(one for one in own.asked(PANEL) if one.method == "logits")
    y = own.labels(PANEL)
    right = [
        (own.probabilities(spec_of(M_SMC, PANEL, b)).argmax(axis=1) == y).mean()
        for b in own.draws(PANEL, "small")
    ]
    assert row["draws"] == 3
    expected = (asked.probabilities.argmax(axis=1) == y).mean() - np.mean(right)
    assert row["accuracy"]["difference"] == pytest.approx(expected)


def test_algorithm_1_takes_a_stratified_sample_and_ends_where_the_texts_end() -> None:
    y = np.array([0, 1, 2] * 20)
    ids = [f"case {i}" for i in range(60)]
    rows = posteriors.sampled(ids, y)
    assert np.bincount(y[rows]).tolist() == [5, 5, 5]
    shuffled = np.random.default_rng(0).permutation(60)
    again = posteriors.sampled([ids[i] for i in shuffled], y[shuffled])
    assert {ids[i] for i in rows} == {ids[shuffled[i]] for i in again}
    rng = np.random.default_rng(1)
    texts = [rng.normal(size=(4000, 8)) + 3 * np.eye(8)[label] for label in range(3)]
    prior = Prior.uniform(3)
    p, populations, drawn = posteriors._one_case(texts, np.eye(8)[1], prior, 0)
    assert (populations, p.argmax()) == (5, 1)
    few, fewer, _ = posteriors._one_case([some[:300] for some in texts], np.eye(8)[1], prior, 0)
    assert 0 < fewer < 5
    assert few.argmax() == 1
    assert drawn > 500
