"""The further artefacts' calculations on toys with known answers, and each of them on the packaged cases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.abc.second_order import concentration_cap, of_dirichlet
from simdx.amortised import fidelity
from simdx.bank.files import packaged_bank, write_bank
from simdx.experiments.paper.artefact import Finding, NotRun
from simdx.experiments.paper.artefacts import (
    abi_fidelity,
    cosine_ablation,
    embedding_ablation,
    out_of_class,
    pool_size,
    prior_remedy,
    prior_sensitivity,
    quantisation_ablation,
    smc_dynamics,
    temperature_ablation,
    ternary,
    uncertainty_decomposition,
)
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import excludes, interval, mean_interval
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.world import Variant, pool
from simdx.methods import Observations
from simdx.metrics import ood_auroc
from simdx.panels import load_source
from simdx.types import Bank, Float, Posterior, Trace, entropy_bits
from tests.experiments.paper.conftest import PANEL, SMALL


def _sound(finding: Finding) -> dict[str, object]:
    """What every finding must be: JSON without NaN, drawings that are whole, sentences without gaps."""
    record = finding.to_json()
    json.dumps(record, allow_nan=False)
    assert finding.verdicts
    assert finding.tables
    for figure in finding.figures:
        assert figure.svg.startswith("<svg")
        assert figure.svg.endswith("</svg>")
        assert "nan" not in figure.svg
    assert not [v for v in finding.verdicts if "nan" in v.split() or not v.endswith(".")]
    return record


def _observations(n: int) -> Observations:
    return Observations(tuple(f"case {i}" for i in range(n)), np.zeros((n, 2)), tuple(range(n)))


# --------------------------------------------------------------------------- intervals


def test_intervals_hold_what_they_are_of() -> None:
    x = np.random.default_rng(0).normal(size=400)
    found = interval(np.median, x, rng=np.random.default_rng(1), resamples=300)
    assert found is not None
    assert found[0] < np.median(x) < found[1]
    mean = mean_interval(x, np.random.default_rng(1), 2000)
    assert mean is not None
    half = 1.96 * x.std() / 20
    assert mean == pytest.approx([x.mean() - half, x.mean() + half], abs=0.02)
    assert interval(np.median, np.zeros(0), rng=np.random.default_rng(1), resamples=100) is None
    assert interval(lambda _: None, x, rng=np.random.default_rng(1), resamples=100) is None
    assert excludes([0.1, 0.2])
    assert not excludes([-0.1, 0.2])
    assert not excludes(None)


# --------------------------------------------------------------------------- the simplex


def test_the_spread_is_that_of_dirichlet_draws() -> None:
    alpha = np.array([4.0, 2.0, 1.0])
    draws = np.random.default_rng(0).dirichlet(alpha, size=50_000)
    apart = np.sqrt(((draws - draws.mean(axis=0)) ** 2).sum(axis=1).mean())
    mean = alpha[None] / alpha.sum()
    assert ternary.spread_of(mean, np.array([alpha.sum()]))[0] == pytest.approx(apart, rel=0.01)


def test_the_triangles_show_the_case_of_median_entropy(context: Context) -> None:
    finding = ternary.run(context)
    _sound(finding)
    answers, label = context.answers(Spec(PANEL, "d-smc")), context.labels(PANEL)
    right = answers.probabilities.argmax(axis=1) == label
    bits = entropy_bits(answers.probabilities[right])
    shown = finding.data["examples"]["correct"]
    assert np.sum(bits < shown["entropy_bits"] - 1e-12) == (len(bits) - 1) // 2
    assert answers.outside is not None
    examples = {"correct", "out of class"} | ({"wrong"} if not right.all() else set())
    assert set(finding.data["examples"]) == examples
    # one frame and 200 draws for the prior and for each example
    assert finding.figures[0].svg.count('class="frame"') == 1 + len(examples)
    assert finding.figures[0].svg.count('class="draw"') == 200 * (1 + len(examples))


def test_the_parts_of_uncertainty_add_up_by_outcome(context: Context) -> None:
    answers, label = context.answers(Spec(PANEL, "d-smc")), context.labels(PANEL)
    groups = uncertainty_decomposition.split_by_outcome(answers, label)
    wrong = int((answers.probabilities.argmax(axis=1) != label).sum())
    assert len(groups["correct"]["total_bits"]) == 60 - wrong
    for parts in groups.values():
        whole = parts["aleatoric_bits"] + parts["epistemic_bits"]
        np.testing.assert_allclose(parts["total_bits"], whole, atol=1e-9)
    finding = uncertainty_decomposition.run(context)
    _sound(finding)
    found = finding.data[PANEL]["d-smc"]["auroc"]["out of class: epistemic_bits"]["value"]
    inside, outside = groups["all"]["epistemic_bits"], groups["out of class"]["epistemic_bits"]
    assert found == pytest.approx(ood_auroc(inside, outside).value)
    # a fixed share of prior mass is accepted, so epistemic bits do not find out-of-class cases here
    assert found < 0.5


# --------------------------------------------------------------------------- the network


def test_a_perfect_network_is_faithful_and_a_concentrated_one_is_not() -> None:
    alpha = np.random.default_rng(0).gamma(4.0, size=(40, 3))
    target = of_dirichlet(alpha)
    same = fidelity.Comparison(target, target, target, np.zeros(40), 100)
    found = abi_fidelity.measure(same, target.mean, target.mean.argmax(axis=1))
    assert found["agreement"] == found["agreement_with_m_smc"] == 1.0
    assert found["alpha0_ratio"]["median"] == pytest.approx(1.0)
    assert found["kl_quartiles"] == [0.0, 0.0, 0.0]
    sharp = of_dirichlet(100 * alpha)
    kl = fidelity.dirichlet_kl(alpha, 100 * alpha, np.ones(3, dtype=bool))
    worse = abi_fidelity.measure(
        fidelity.Comparison(target, target, sharp, kl, 100), 1 - target.mean, target.mean.argmax(axis=1)
    )
    assert worse["alpha0_ratio"]["median"] == pytest.approx(100.0)
    assert worse["kl_quartiles"][1] > 1
    assert worse["agreement"] == 1.0
    assert worse["agreement_with_m_smc"] < 1


def test_both_objectives_are_trained_and_compared(context: Context) -> None:
    finding = abi_fidelity.run(context)
    _sound(finding)
    assert set(finding.data) == {f"{PANEL}, own objective", f"{PANEL}, the paper's objective"}
    row = finding.data[f"{PANEL}, own objective"]
    assert row["parameters"] == 256 * 256 + 256 + 256 * 256 + 256 + 256 * 3 + 3
    assert row["n"] == 60


# --------------------------------------------------------------------------- priors


def _bayes(likelihood: Float):  # type: ignore[no-untyped-def]
    """An inference that is exactly Bayes' rule on a fixed likelihood."""

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, None]:
        joint = likelihood[list(observations.keys)] * prior.probabilities
        p = joint / joint.sum(axis=1, keepdims=True)
        return Posterior(p, np.ones(len(p)), np.zeros(len(p))), None

    return infer


def test_every_wrong_label_is_tried_and_averaged() -> None:
    likelihood = np.array([[8.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 30.0]])
    label = np.array([0, 1, 2])
    infer = _bayes(likelihood)
    even = prior_sensitivity.under_priors(infer, _observations(3), label, 3, 1, held=False)
    np.testing.assert_allclose(even.informative, even.misleading)
    five = prior_sensitivity.under_priors(infer, _observations(3), label, 3, 5, held=False)
    assert five.prior_informative == pytest.approx(5 / 7)
    assert five.prior_misleading == pytest.approx(1 / 7)
    np.testing.assert_allclose(five.informative, [40 / 42, 15 / 17, 150 / 152])
    np.testing.assert_allclose(five.misleading, [8 / 14, 3 / 9, 30 / 36])
    # odds of 5 overrule evidence of 3 to 1, and not of 8 or 30 to 1
    np.testing.assert_allclose(five.right_misleading, [1, 0, 1])
    np.testing.assert_allclose(five.right_informative, [1, 1, 1])


def test_the_breaking_point_is_where_accuracy_halves() -> None:
    assert prior_sensitivity.breaking_point([1, 5, 30], [0.9, 0.5, 0.4]) == 30
    assert prior_sensitivity.breaking_point([1, 5, 30], [0.9, 0.8, 0.5]) is None


def test_priors_move_the_packaged_cases(context: Context) -> None:
    finding = prior_sensitivity.run(context)
    _sound(finding)
    for sweep in finding.data[PANEL].values():
        informed = [row["informative"]["posterior_on_true"]["value"] for row in sweep]
        misled = [row["misleading"]["posterior_on_true"]["value"] for row in sweep]
        assert informed == sorted(informed)
        assert misled == sorted(misled, reverse=True)
    quoted = next(row for row in finding.tables[0].rows if row[1:3] == ("D-SMC", "misleading"))
    assert quoted[-1] == "0.19†"
    assert "six labels" in finding.tables[0].note


def test_a_mention_counts_unless_it_is_denied() -> None:
    feature = re.compile(prior_remedy.PAPER_FEATURE)
    assert prior_remedy.mentions("The margins are Indurated.", feature)
    assert prior_remedy.mentions("No pain. She has smoked for years.", feature)
    assert not prior_remedy.mentions("A non-smoker without any induration.", feature)
    assert not prior_remedy.mentions("A soft swelling of the lip.", feature)
    assert prior_remedy.mentions("No induration at first, but indurated margins now.", feature)


def test_features_and_weights_come_from_the_bank() -> None:
    texts = ("hard ulcer", "hard mass", "hard edge", "soft bubble", "soft dome", "hard soft bubble")
    bank = Bank("toy", ("a", "b"), texts, np.array([0, 0, 0, 1, 1, 1]))
    assert prior_remedy.telling_words(bank, 0, 1, count=1) == ("edge",)
    assert "hard" in prior_remedy.telling_words(bank, 0, 1)
    choice = prior_remedy.Choice("toy", 0, 1, re.compile(r"\bhard\b"), "hard")
    assert prior_remedy.weight_against(bank, choice) == pytest.approx(1.5 / 3.5)
    assert prior_remedy.most_confused(np.array([[9, 1, 4], [0, 9, 0], [2, 0, 9]])) == (0, 2)
    assert prior_remedy.most_confused(np.diag([3, 3])) is None


def test_only_flagged_cases_see_the_weighted_prior() -> None:
    likelihood = np.array([[2.0, 3.0], [2.0, 3.0], [1.0, 9.0]])
    infer = _bayes(likelihood)
    before = likelihood / likelihood.sum(axis=1, keepdims=True)
    prior = Prior.from_prevalence(("a", "b"), {}, {"b": 0.5})
    after = prior_remedy.remedied(infer, _observations(3), before, np.array([0]), prior)
    np.testing.assert_allclose(after[1:], before[1:])
    np.testing.assert_allclose(after[0], [4 / 7, 3 / 7])


def test_the_remedy_is_measured_on_all_choices(context: Context) -> None:
    finding = prior_remedy.run(context)
    _sound(finding)
    rows = list(finding.data.values())
    assert {"the paper's", "simulated"} <= {row["choice"] for row in rows}
    paper = next(row for row in rows if row["choice"] == "the paper's" and row["method"] == "m-smc")
    assert paper["odds_multiplier"] < 0.5
    assert paper["mentioned_in"]["gold"] > paper["mentioned_in"]["over_predicted"]
    assert paper["accuracy_gain"] == pytest.approx((paper["errors"][0] - paper["errors"][1]) / 60)


# --------------------------------------------------------------------------- out of class


def test_entropy_out_of_class_for_every_method(context: Context) -> None:
    finding = out_of_class.run(context)
    _sound(finding)
    rows = {row["method"]: row for row in finding.data[PANEL]}
    answers = context.answers(Spec(PANEL, "m-smc"))
    assert answers.outside is not None
    assert rows["M-SMC"]["outside"] == pytest.approx(entropy_bits(answers.outside).mean())
    inside, outside = entropy_bits(answers.probabilities), entropy_bits(answers.outside)
    assert rows["M-SMC"]["auroc"] == pytest.approx(ood_auroc(inside, outside).value)
    assert all(0 <= row["outside"] <= np.log2(3) + 1e-9 for row in rows.values())
    # these records hold no out-of-class answers, and this run asks nobody
    assert sum("was not run" in note for note in finding.notes) == 2


def test_recorded_answers_out_of_class_are_used(tmp_path: Path, context: Context) -> None:
    outside = context.cases(PANEL).outside
    assert outside is not None
    names = list(context.names(PANEL))
    ids = [case.id for case in outside.cases]
    sure = [[0.98, 0.01, 0.01]] * (len(ids) - 1) + [[1 / 3, 1 / 3, 1 / 3]]
    record = {
        "format": 1,
        "status": "done",
        "cell": {"simulator": "bold", "panel": {"panel": PANEL}, "method": {"method": "logits"}},
        "labels": names,
        "asking": {},
        "rows": {"id": ids, "posterior": sure, "carried_by": [1.0] * (len(ids) - 1) + [0.0]},
    }
    cells = tmp_path / "asking-outside" / "cells"
    cells.mkdir(parents=True)
    (cells / "logits.json").write_text(json.dumps(record), encoding="utf-8")
    own = Context("smoke", tmp_path / "out", panels=(PANEL,), size=SMALL, asking=tmp_path)
    found, missing = out_of_class._asked(own, PANEL)
    assert [bits.paper for bits in found] == ["ML"]
    # the answer that could not be read is left out, not counted as the prior
    assert found[0].outside == pytest.approx([entropy_bits(np.array(sure[0]))] * (len(ids) - 1))
    assert (len(found[0].outside), found[0].asked) == (len(ids) - 1, len(ids))
    assert len(missing) == 1
    assert "EP" in missing[0]


# --------------------------------------------------------------------------- the samplers


def test_the_population_at_which_acceptance_falls() -> None:
    acceptance = np.array([[0.5, 0.5], [0.3, 0.4], [0.1, 0.3]])
    trace = Trace(
        acceptance, acceptance, np.ones((3, 2), int), acceptance, acceptance, np.ones((3, 2, 2)) / 2,
        np.array([3, 3]), ("complete", "complete"),
    )  # fmt: skip
    assert smc_dynamics.stopped_by(trace).tolist() == [3, 0]


def test_particles_stay_under_the_cap_and_near_the_closed_form(context: Context) -> None:
    finding = smc_dynamics.run(context)
    _sound(finding)
    found = finding.data["panels"][PANEL]
    for step in found["d-smc"]["steps"]:
        assert step["cap"] == pytest.approx(concentration_cap(3, step["population"]))
        assert step["p_true"] <= step["cap"] + 0.05
    tolerances = [step["epsilon"] for step in found["d-smc"]["steps"]]
    assert tolerances == sorted(tolerances, reverse=True)
    assert found["d-smc"]["distance_to_closed_form"] < 0.1
    example = finding.data["example"]
    assert example["id"] in {case.id for case in context.cases(PANEL).dataset.cases}
    assert [step["population"] for step in example["steps"]] == list(range(1, 9))


# --------------------------------------------------------------------------- ablations


def test_normalised_cosines_are_nearly_uniform(context: Context) -> None:
    finding = cosine_ablation.run(context)
    _sound(finding)
    scores = finding.data["scores"][PANEL]
    assert scores["embedding cosine, normalised"]["entropy_bits"] > 0.98 * np.log2(3)
    assert scores["embedding cosine, softmax"]["accuracy"] == pytest.approx(
        scores["embedding cosine, normalised"]["accuracy"]
    )
    gap = finding.data["d_smc_minus_cosine"][PANEL]
    d_smc, cosine = scores["D-SMC"], scores["embedding cosine, normalised"]
    assert gap["brier"]["value"] == pytest.approx(d_smc["brier"] - cosine["brier"])


def test_embedders_that_are_not_here_are_named(
    context: Context, monkeypatch: pytest.MonkeyPatch, private_home: Path
) -> None:
    found, missing = embedding_ablation.at_hand(("wordllama", "hashing", "minilm", "wordllama+minilm"))
    assert found == {"wordllama": 256, "hashing": 256}
    assert set(missing) == {"minilm", "wordllama+minilm"}
    monkeypatch.setattr(embedding_ablation, "SMOKE", ("wordllama", "hashing", "mpnet"))
    finding = embedding_ablation.run(context)
    _sound(finding)
    assert any("mpnet" in note for note in finding.notes)
    accuracy = finding.data["scores"][PANEL]["M-SMC, wordllama"]["accuracy"]
    assert accuracy == context.scores(Spec(PANEL, "m-smc"))["accuracy"]
    assert sum("not at hand" in row for row in finding.tables[0].rows) == 5


def test_a_pool_larger_than_the_bank_is_the_bank(context: Context) -> None:
    finding = pool_size.run(context)
    _sound(finding)
    rows = {(r["bank"], r["method"], r["size"]): r for r in finding.data["rows"]}
    whole = context.scores(Spec(PANEL, "d-smc"))
    for size in (500, 1000):
        row = rows["reference", "d-smc", size]
        assert row["distinct"] == [100, 100]
        assert row["means"]["accuracy"] == whole["accuracy"]
    assert rows["reference", "d-smc", 3]["distinct"] == [3, 3]
    assert rows["small", "m-smc", 30]["distinct"] == [10, 10]
    assert any("500 and 1000" in v and "100 distinct" in v for v in finding.verdicts)


def _with_banks(tmp_path: Path, names: tuple[str, ...]) -> Context:
    source = load_source(PANEL)
    for seed, name in enumerate(names):
        write_bank(tmp_path / f"{PANEL}-{name}", pool(packaged_bank(source), 8, seed), source.panel)
    return Context("smoke", tmp_path / "out", panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)


def test_a_large_pool_by_a_model_belongs_to_this_question_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = load_source(PANEL)
    whole = replace(packaged_bank(source), against=None)
    twice = replace(whole, texts=(*whole.texts, *(f"{text} Noted today." for text in whole.texts)))
    twice = replace(twice, label_index=np.tile(whole.label_index, 2))
    write_bank(tmp_path / f"{PANEL}-tiny-n200", twice, source.panel)
    own = _with_banks(tmp_path, ("tiny",))
    assert own.models(PANEL) == ("tiny",)
    assert own.variants(PANEL)["tiny-n200"] == Variant("tiny", "n200", "pool")
    monkeypatch.setattr(pool_size, "LARGEST", 200)
    monkeypatch.setattr(pool_size, "LARGEST_PANEL", "another panel")
    monkeypatch.setattr(pool_size, "PAPER_SIZES", (3, 50, 200))
    finding = pool_size.run(own)
    _sound(finding)
    rows = {(r["bank"], r["method"], r["size"]): r for r in finding.data["rows"]}
    assert rows["tiny-n200", "d-smc", 200]["distinct"] == [200, 200]
    assert rows["tiny-n200", "d-smc", 100]["pools"] == 2  # half of it: there is something to draw
    assert ("tiny", "d-smc", 200) not in rows
    accuracy = own.scores(Spec(PANEL, "m-smc", "tiny-n200"))["accuracy"]
    assert any("simulations of tiny-n200" in v and f"{accuracy:.3f} with 200" in v for v in finding.verdicts)


def test_two_weights_of_one_model_are_compared(tmp_path: Path, context: Context) -> None:
    variants = {
        "m-q8_0": Variant("m", "q8_0", "weights"),
        "m-t0.4": Variant("m", "t0.4", "temperature"),
        "m-n90": Variant("m", "n90", "pool"),
    }
    assert quantisation_ablation.pairs_of(("m",), variants) == [("m", "m-q8_0")]
    with pytest.raises(NotRun, match="one model with different weights"):
        quantisation_ablation.run(context)
    own = _with_banks(tmp_path, ("tiny", "tiny-q8_0", "tiny-t0.4"))
    assert own.models(PANEL) == ("tiny",)
    finding = quantisation_ablation.run(own)
    _sound(finding)
    pair = finding.data[f"{PANEL}: tiny and tiny-q8_0"]
    first, second = pair["m-smc"]
    assert pair["difference"]["accuracy"]["value"] == pytest.approx(second["accuracy"] - first["accuracy"])
    assert finding.tables[0].rows[0][1] == "tiny"


def test_temperatures_from_banks_or_from_the_study(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = _with_banks(tmp_path, ("tiny", "tiny-t0.8", "tiny-t0.2"))
    finding = temperature_ablation.run(own)
    _sound(finding)
    points = finding.data["series"][0]["points"]
    assert [point["temperature"] for point in points] == [0.2, 0.8]
    assert points[0]["texts"] == 24
    assert points[0]["ece"]["value"] == own.scores(Spec(PANEL, "m-smc", "tiny-t0.2"))["ece"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotRun, match="diversity study"):
        temperature_ablation.run(context)
    scores = {"n_texts": 9, "accuracy": 0.5, "brier": 0.6, "ece": 0.2, "ci": {}}
    rows = [
        {"temperature": t, "facets": True, "complete": True, "scrubbed": {**scores, "ece": t}}
        for t in (0.8, 0.2)
    ]
    study = tmp_path / "study.json"
    study.write_text(json.dumps({"panel": PANEL, "model": "m", "cases": 3, "rows": rows}), encoding="utf-8")
    (series,) = temperature_ablation.from_study(study)
    assert [(p["temperature"], p["ece"]["value"]) for p in series["points"]] == [(0.2, 0.2), (0.8, 0.8)]
    assert temperature_ablation.from_study(tmp_path / "none.json") == []


def test_without_out_of_class_cases_there_is_nothing_to_show(tmp_path: Path) -> None:
    own = Context("smoke", tmp_path, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    own._cases[PANEL] = replace(own.cases(PANEL), outside=None)
    with pytest.raises(NotRun, match="out-of-class"):
        out_of_class.run(own)
