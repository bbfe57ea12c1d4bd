"""The table of claims: rules read the records, and a record that contradicts a claim turns its verdict."""

from copy import deepcopy
from typing import Any

import pytest

from paper.claims import AGREES, CLAIMS, DISAGREES, UNTESTED, verdicts
from paper.report import claim_rows
from paper.rules import PANELS
from paper.runner import read_artefacts
from tests.conftest import ROOT
from tests.paper.test_specs import put

RECORDS = [record for record in read_artefacts(ROOT / "results" / "paper") if record.done]
DATA = {record.name: record["finding"]["data"] for record in RECORDS}
# What no record holds yet.
_LIVE = {"n": 30, "outcomes": {"complete": 30}, "seconds": 9}
_LIVE |= {"total_variation": 0.05, "total_variation_ci": [0, 0.06]}
AWAITED = {
    "quantisation-ablation": {"pair": {"bits": 4, "difference": {"ece": {"value": 0.0, "ci": [0.0, 0.0]}}}},
    "algorithm-1": {"panels": {"oral-lesions": _LIVE}, "finished": 30, "begun": 30},
}


def awaited(data: dict[str, Any]) -> dict[str, Any]:
    """What records made before these rows existed lack; a newer one keeps its own."""
    for panel in PANELS:
        if rows := data.get("abi-fidelity"):
            rows.setdefault(
                f"{panel}, the paper's objective and training", rows[f"{panel}, the paper's objective"]
            )
        for model in ("smollm2", "qwen2.5-coder-1.5b"):
            if rows := data.get("error-detection"):
                rows[panel].setdefault(f"M-SMC, {model}", deepcopy(rows[panel]["M-SMC"]))
        for row in (data.get("distribution-aware") or {}).get(panel, ()):
            if row["method"].startswith("EF"):
                row.setdefault("d_smc_minus_asking", {"ci": [0.0, 0.0]})
                row.setdefault("own_bank", "smollm2")
    return data


NEVER, ALWAYS = [-0.2, -0.1], [0.1, 0.2]  # the other one minus M-SMC, beyond doubt
# words of a claim -> record/path: what makes it hold, and what makes it fail
TURNS: dict[str, dict[str, tuple[Any, Any]]] = {
    "more accurate than ML, EP and PE": {"significance/*/differences/*/accuracy/ci": (NEVER, ALWAYS),
                                         "main-results/*/*/accuracy": (0.5, 0.5),
                                         "main-results/*/M-SMC, smollm2/accuracy": (0.9, 0.1),
                                         "main-results/*/M-SMC, qwen2.5-coder-1.5b/accuracy": (0.9, 0.1)},
    "where the model is weakest": {"main-results/*/*/own_bank_accuracy": (0.9, 0.9),
                                   "main-results/*/ML, all orders (hf:smollm2)/own_bank_accuracy": (0.9, 0.0),
                                   "main-results/*/EP (hf:smollm2)/own_bank_accuracy": (0.9, 0.0),
                                   "main-results/*/PE (hf:smollm2)/own_bank_accuracy": (0.9, 0.0)},
    "more stable over models": {"main-results/*/ML, all orders (hf:smollm2)/accuracy": (0.1, 0.5),
                                "main-results/*/ML, all orders (hf:qwen2.5-coder-1.5b)/accuracy": (0.9, 0.5),
                                "main-results/*/M-SMC, smollm2/accuracy": (0.6, 0.4)},
    "matches or exceeds EF": {"distribution-aware/*/*/d_smc_minus_asking/ci": (ALWAYS, NEVER)},
    "best mean Brier": {"distribution-aware/*/*/over_banks/brier": ([0.4], [0.4]),
                        "distribution-aware/*/*/scores/brier": (0.5, 0.3)},
    "four orders of magnitude": {"distribution-aware/*/-9/inference_seconds": (1e6, 1e-9)},
    "ranks errors better": {"significance/*/differences/*/error_auroc/ci": (NEVER, ALWAYS)},
    "by E-AURC": {"significance/*/differences/*/e_aurc/ci": (ALWAYS, NEVER)},
    "some thirty times": {"error-detection/*/*/e_aurc": (0.3, 0.3),
                          "error-detection/*/M-SMC, smollm2/e_aurc": (0.01, 0.2),
                          "error-detection/*/M-SMC, qwen2.5-coder-1.5b/e_aurc": (0.01, 0.2)},
    "close to uninformative": {"error-detection/*/*/ci/error_auroc": ([0.5, 0.6], [0.7, 0.8])},
    "about as well as a centroid": {
        "calibrated-embedding/*/rows/M-SMC/scores/ci/ece": ([0.0, 0.1], [0.5, 0.6])},
    "with the same labels ABI": {"calibrated-embedding/*/rows/ABI + TS/scores/accuracy": (1.0, 1.0),
                                 "calibrated-embedding/*/rows/ABI + TS/scores/brier": (0.0, 2.0)},
    "at every coverage": {"risk-coverage/*/*/risk_at/*": (0.5, 0.5),
                          "risk-coverage/*/M-SMC, smollm2/risk_at/*": (0.1, 0.1),
                          "risk-coverage/*/M-SMC, qwen2.5-coder-1.5b/risk_at/*": (0.1, 0.1),
                          "risk-coverage/*/M-SMC, qwen2.5-coder-1.5b/risk_at/20%": (0.1, 0.6)},
    "M-SMC recovers": {"prior-sensitivity/*/m-smc/*/misleading/accuracy": (0.9, 0.9),
                       "prior-sensitivity/*/m-smc/*/misleading/posterior_on_true": (0.9, 0.4)},
    "D-SMC does not": {"prior-sensitivity/*/d-smc/*/misleading/accuracy": (0.1, 0.9),
                       "prior-sensitivity/*/d-smc/0/misleading/accuracy": (0.9, 0.9)},
    "near its maximum": {"out-of-class/*/0/outside_ci": ([2.0, 2.6], [0.1, 0.2])},
    "above that of ML and EP": {"out-of-class/*/*/outside": (0.5, 0.5),
                                "out-of-class/*/0/outside": (0.6, 0.4)},
    "two to three times its epistemic bits": {
        "uncertainty-decomposition/*/*/spread/all/*/median": (1.0, 1.0),
        "uncertainty-decomposition/*/abi/spread/all/total_bits/median": (2.0, 2.0),
        "uncertainty-decomposition/*/abi/spread/all/aleatoric_bits/median": (2.0, 2.0),
        "uncertainty-decomposition/*/abi/spread/all/epistemic_bits/median": (0.4, 0.9)},
    "ECE is lower than that": {"significance/*/differences/*/ece/ci": (ALWAYS, NEVER)},
    "names D-SMC's label": {"abi-fidelity/*/correlation_of_means": (0.99, 0.5)},
    "more concentrated than D-SMC": {"abi-fidelity/*/ci/alpha0_ratio": ([1.1, 2.0], [0.9, 2.0])},
    "near-degenerate": {"abi-fidelity/*/alpha0_median/d-smc": (501.0, 80.0)},
    "no variant has every": {"capabilities/*/uncertainty_split": (False, True),
                             "capabilities/*/prior_at_test_time": (True, True)},
    "refinement concentrates": {"smc-dynamics/panels/*/d-smc/steps/0/p_true_ci": ([0.1, 0.2], [0.1, 0.9])},
    "after the fifth gain nothing": {"smc-dynamics/panels/*/d-smc/steps/*/p_true": (0.5, 0.5),
                                     "smc-dynamics/panels/*/d-smc/steps/-1/p_true": (0.5, 0.6)},
    "one confusion": {"error-structure/*/errors/M-SMC/errors": (9, 9),
                      "error-structure/*/errors/M-SMC/wrong_label_mass": (0.9, 0.9),
                      "error-structure/*/errors/M-SMC/confusions/0/n": (9, 8)},
    "normalised cosines": {"cosine-ablation/scores/*/M-SMC/ci/ece": ([0.0, 0.1], [0.0, 0.9])},
    "four bits does not hurt": {"quantisation-ablation/*/difference/ece/ci": ([-0.1, 0.1], [0.1, 0.2])},
    "lowest temperature is the worst": {
        "temperature-ablation/series/*/points/*/ece/value": (0.1, 0.1),
        "temperature-ablation/series/*/points/*/ece/ci": ([0.09, 0.11], [0.09, 0.11]),
        "temperature-ablation/series/*/points/0/ece/value": (0.5, 0.05),
        "temperature-ablation/series/*/points/0/ece/ci": ([0.4, 0.6], [0.0, 0.06])},
    "fifty texts a label": {"pool-size/rows/*/means/accuracy": (0.9, None)},
    "fresh generations": {"algorithm-1/panels/*/n": (30, 30),
                          "algorithm-1/panels/*/total_variation_ci": ([0, 0.06], [0, 0.2]),
                          "algorithm-1/panels/*/outcomes": ({"complete": 30}, {"complete": 30})},
    "leaves M-SMC ahead": {"post-hoc-calibration/*/*/rows/M-SMC/scores/accuracy": (1.0, 0.0),
                           "post-hoc-calibration/*/*/rows/M-SMC/scores/ece": (0.0, 0.0)},
}  # fmt: skip


def test_every_claim_has_a_rule_that_is_seen_to_turn() -> None:
    says = [one.says for one in CLAIMS]
    assert len(set(says)) == len(says)
    reasons = ("no biomedical", "two models are")
    waiting = {v.claim.says for v in verdicts(DATA) if v.why.startswith(reasons)}
    turned = {s for s in says if any(words in s for words in TURNS)}
    assert turned | waiting == set(says)


@pytest.mark.parametrize("words", TURNS)
def test_a_record_that_contradicts_a_claim_turns_its_verdict(words: str) -> None:
    found = {}
    for side, verdict in enumerate((AGREES, DISAGREES)):
        used = {path.partition("/")[0] for path in TURNS[words]} | {"main-results", "significance"}
        data = awaited(deepcopy({name: ({**AWAITED, **DATA})[name] for name in used}))
        for path, values in TURNS[words].items():
            name, _, rest = path.partition("/")
            if values[side] is not None:
                put(data[name], rest, values[side])
        (one,) = [v for v in verdicts(data) if words in v.claim.says]
        assert one.verdict == verdict, one.ours
        found[verdict] = one
    assert UNTESTED not in found


@pytest.mark.parametrize(
    ("finished", "begun", "outcomes"), [(2, 50, {"complete": 2}), (29, 30, {"complete": 29, "budget": 1})]
)
def test_cases_of_algorithm_1_that_are_few_or_cut_short_decide_nothing(
    finished: int, begun: int, outcomes: dict[str, int]
) -> None:
    short = {"oral-lesions": _LIVE | {"n": sum(outcomes.values()), "outcomes": outcomes}}
    data = {"algorithm-1": {"panels": short, "finished": finished, "begun": begun}}
    (one,) = [v for v in verdicts(data) if v.claim.place == "Algorithm 1"]
    assert one.verdict == UNTESTED
    assert f"{finished} of {begun} begun cases ended" in one.why


def test_without_records_nothing_is_claimed() -> None:
    assert {one.verdict for one in verdicts({})} == {UNTESTED}


def test_the_page_has_each_claim_once_with_figures_from_the_records() -> None:
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    for row in claim_rows(RECORDS):
        assert page.count(f"| {row[1]} |") == 1
        assert row[3] in page
    assert page.index("## What differs from the paper") < page.index("| where | the paper claims")
