"""Artefacts against what their numbers must be: the same quantities worked out apart."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.experiments.paper.artefact import Finding
from simdx.experiments.paper.artefacts import (
    against_itself,
    calibrated_embedding,
    capabilities,
    distribution_aware,
    entropy_strata,
    error_detection,
    error_structure,
    main_results,
    post_hoc_calibration,
    risk_coverage,
    runtime,
    significance,
)
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import D_SMC, M_SMC, RECIPE, own_bank, spec_of
from simdx.metrics import ece, error_auroc, errors, uncertainty
from simdx.types import entropy_bits
from tests.experiments.paper.conftest import PANEL


def _cells(finding: Finding, table: int, first: str) -> dict[str, str]:
    found = finding.tables[table]
    row = next(row for row in found.rows if row[0] == first)
    return dict(zip(found.columns, row, strict=True))


def _wrong(context: Context, name: str) -> int:
    p = context.probabilities(spec_of(name, PANEL))
    return int((p.argmax(axis=1) != context.labels(PANEL)).sum())


def test_main_results_stand_beside_the_paper_s(context: Context) -> None:
    finding = main_results.run(context)
    accuracy = 1 - _wrong(context, M_SMC) / 60
    own = _cells(finding, 0, "M-SMC, reference")
    assert own["accuracy"].startswith(f"{accuracy:.3f} [")
    means = _cells(finding, 1, M_SMC)
    assert means["simulators"] == "3"
    assert means["accuracy, paper"] == "0.955"
    assert means["Brier, paper"].endswith("†")
    assert "sum and the mean" in finding.tables[1].note
    each = [context.scores(spec_of(M_SMC, PANEL, bank))["accuracy"] for bank in context.banks(PANEL)]
    assert means["accuracy"].startswith(f"{np.mean(each):.3f} ({min(each):.3f}")
    # The answers of 'asking' are random, so inference wins and the sentence must say so.
    assert any("all 3 comparisons" in v and "simulations of small" in v for v in finding.verdicts)
    assert finding.figures[0].svg.count('class="theirs"') == 3 + 4 + 1


def test_answered_by_the_prior_is_counted(context: Context) -> None:
    finding = main_results.run(context)
    assert _cells(finding, 0, "ML (small)")["answered"] == "100%"
    asked = next(one for one in context.asked(PANEL) if one.method == "logits")
    assert own_bank(context, PANEL, asked) == "small"


def test_distribution_aware_gives_time_and_calibration(context: Context) -> None:
    finding = distribution_aware.run(context)
    row = _cells(finding, 0, "ABI")
    assert row["latency, paper"].startswith("130.0 ms")
    assert row["time per case"].endswith(("ms", "µs", "s"))
    assert _cells(finding, 0, "EF (small)")["time per case"] == "100.0 ms"
    assert any("under" in v or "over" in v for v in finding.verdicts)


def test_error_detection_is_entropy_against_errors(context: Context) -> None:
    finding = error_detection.run(context)
    p, y = context.probabilities(spec_of(RECIPE, PANEL)), context.labels(PANEL)
    wanted = error_auroc(uncertainty(p), errors(p, y)).value
    assert finding.data[PANEL][RECIPE]["error_auroc"] == wanted
    assert len(finding.tables[1].rows) == 5 + 4


def test_every_row_of_the_calibration_table_shares_its_split(context: Context) -> None:
    finding = calibrated_embedding.run(context)
    found = finding.data[PANEL]
    assert found["calibration_cases"] + found["test_cases"] == 60
    assert abs(found["calibration_cases"] - 12) <= 2  # a fifth, stratified over three labels
    rows = found["rows"]
    assert {row["scores"]["n"] for row in rows.values()} == {found["test_cases"]}
    assert rows["M-SMC + TS"]["scores"]["accuracy"] == rows[M_SMC]["scores"]["accuracy"]
    assert rows[M_SMC]["temperature"] is None
    assert calibrated_embedding.SUPERVISED in rows
    assert calibrated_embedding.CEILING in rows


def test_risk_at_full_coverage_is_the_error_rate(context: Context) -> None:
    finding = risk_coverage.run(context)
    assert _cells(finding, 0, M_SMC)["risk at 100%"] == f"{_wrong(context, M_SMC) / 60:.3f}"
    curve = finding.data[PANEL][M_SMC]
    assert curve["coverage"][-1] == 1
    assert finding.figures[0].svg.count("<polyline") == 8


def test_differences_are_the_other_method_minus_ours(context: Context) -> None:
    finding = significance.run(context)
    asked = next(one for one in context.asked(PANEL) if one.method == "logits")
    y = context.labels(PANEL)
    ours = ece(context.probabilities(spec_of(M_SMC, PANEL, "small")), y).value
    theirs = ece(asked.probabilities, y).value
    assert ours is not None
    assert theirs is not None
    found = finding.data[PANEL]["differences"]["ML (small) − M-SMC over small"]["ece"]
    assert found["difference"] == pytest.approx(theirs - ours)
    assert found["ci"][0] < found["difference"] < found["ci"][1]
    assert all(fit["reason"] for fit in finding.data[PANEL]["regressions"].values())
    assert sum("refused" in v and "too few" in v for v in finding.verdicts) == 2


def test_strata_hold_every_case_once(context: Context) -> None:
    found = entropy_strata.run(context).data[PANEL]
    for strata in found.values():
        assert sum(band["n"] for band in strata.values()) == 60
    right = sum(b["n"] * b["accuracy"] for b in found[D_SMC].values() if b["n"])
    assert right == pytest.approx(60 - _wrong(context, D_SMC))


def test_errors_are_counted_by_kind(context: Context) -> None:
    finding = error_structure.run(context)
    found = finding.data[PANEL]["errors"][M_SMC]
    assert found["errors"] == _wrong(context, M_SMC) == sum(c["n"] for c in found["confusions"])
    assert found["one_hot_errors"] <= found["confident_errors"] <= found["errors"]
    assert _cells(finding, 0, M_SMC)["errors, paper"] == "12"
    for view in finding.data[PANEL]["views"].values():
        assert view["caught"] <= view["confident_errors"] == found["confident_errors"]


def test_scaling_changes_confidence_and_no_answer(context: Context) -> None:
    finding = post_hoc_calibration.run(context)
    block = next(b for b in finding.data[PANEL] if b["asked"])
    before, after = block["rows"]["ML"]["scores"], block["rows"]["ML + TS"]["scores"]
    assert before["accuracy"] == after["accuracy"]
    # Random answers are overconfident: the fitted temperature flattens them, and their log-loss falls.
    assert block["rows"]["ML + TS"]["temperature"] > 1
    assert after["nll"] < before["nll"]


def test_capabilities_come_from_the_code(context: Context) -> None:
    finding = capabilities.run(context)
    found = finding.data
    assert not found["M-SMC"]["posterior_over_simplex"]
    assert found["M-SMC (particles)"]["sampler_per_case"]
    assert not found["M-SMC"]["sampler_per_case"]
    assert not found["ABI"]["prior_at_test_time"]
    assert found["ABI (prior-conditioned)"]["prior_at_test_time"]
    assert all(found["recipe"][key] for key in ("posterior_over_simplex", "uncertainty_split"))
    assert found["recipe"]["prior_moved_mass"] > 0
    assert any("does not bind" in verdict for verdict in finding.verdicts)


def test_fresh_simulations_are_the_sampler_s_proposals(context: Context) -> None:
    finding = runtime.run(context)
    drawn = finding.data[PANEL]["fresh_simulations"]
    assert drawn["median"] >= 2 * 100  # at least two populations of a hundred particles
    assert finding.data[PANEL]["budget"]["banks"]["small"]["simulations"] == 30
    assert any("14.0 s and 8 calls" in verdict for verdict in finding.verdicts)


def test_no_answers_are_less_certain_than_their_entropy_allows() -> None:
    rng = np.random.default_rng(5)
    for k in (2, 3, 7):
        for concentration in (0.02, 0.3, 3.0):
            p = rng.dirichlet(np.full(k, concentration), size=400)
            mean_bits = float(entropy_bits(p).mean())
            assert p.max(axis=1).mean() >= against_itself.least_confidence(mean_bits) - 1e-9
    # and the bound is reached: by equal shares, and by mixtures of them
    assert against_itself.least_confidence(0.0) == 1
    assert against_itself.least_confidence(1.0) == pytest.approx(0.5)
    assert against_itself.least_confidence(0.5) == pytest.approx(0.75)
    assert against_itself.least_confidence(np.log2(3)) == pytest.approx(1 / 3)


def test_the_paper_s_impossible_cells_are_found(context: Context) -> None:
    finding = against_itself.run(context)
    found = {cell["cell"]: cell for cell in finding.data["ece"]}
    qwen = found["Symptom-to-Diagnosis, Qwen, M-SMC"]
    assert qwen["ece_least"] == pytest.approx(0.17, abs=0.005)
    assert finding.data["parameters"]["counted"] == 854_279
    assert [round(row["cap"], 2) for row in finding.data["caps"]] == [0.39, 0.52, 0.66]
    assert not any("MultiCaRe" in cell for cell in found)
