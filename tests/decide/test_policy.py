"""Policies are checked at the border, tuned on simulated text, and hold what labelled cases showed."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from simdx.abc.prior import Prior
from simdx.decide import policy as policies
from simdx.decide.alarm import Alarm, Null
from simdx.decide.decision import Facts, decide
from simdx.decide.policy import (
    AIM,
    LEAST_HELD_OUT,
    AcceptEvidence,
    ConformalFile,
    Origin,
    Policy,
    RiskFile,
    Thresholds,
    check_policy,
    most_allowed,
    policy_data,
    policy_text,
    policy_words,
    read_policy,
    too_few,
    upper_end,
)
from simdx.decide.tune import largest_entropy, tune_on_simulated
from simdx.disk import sealed
from simdx.errors import BadInput
from simdx.methods import AnswerTable
from simdx.types import Float, Mask, Panel, SecondOrder
from tests.decide.test_decision import ONE, UTILITY

RECORD = AcceptEvidence("cases", 40, 30, 1, 100, 0, upper_end(0, 100), {"bank": "b"})


def test_a_policy_survives_its_file(tmp_path: Path, toy_panel: Panel) -> None:
    policy = Policy(
        panel="toy",
        origin=Origin(
            "labelled cases", 40, 0.05, {"bank": "x"}, {"entropy_bits": 0.7, "epistemic_bits": None}
        ),
        thresholds=Thresholds(confident=None, entropy_bits=0.7),
        conformal=ConformalFile("class-conditional", 0.9, {"apple": 0.5, "river": None, "engine": -1.0}, 40),
        risk=RiskFile(0.05, 0.9, None, 40, 0, 0),
        utility=UTILITY,
    )
    file = tmp_path / "policy.yaml"
    file.write_text(policy_text(policy), encoding="utf-8")
    assert read_policy(file, toy_panel) == policy
    assert any("always" in line for line in policy_words(policy))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"threshold": {}}, "threshold"),
        ({"thresholds": {"confident": 2}}, "less than or equal to 1"),
        ({"format": 9}, "format"),
        ({"panel": "other"}, "is for panel 'other'"),
        ({"utility": {"test": {"apple": 1}}}, "at least two"),
        ({"utility": {"test": ONE, "pear": ONE}}, "neither a label"),
        ({"utility": {"test": {"apple": 1}, "review": {"apple": 1}}}, "every label"),
        ({"utility": {"test": {"apple": 1}, "review": {"river": 1}}}, "same labels"),
        (
            {"conformal": {"kind": "split", "level": 0.9, "largest": {"pear": 1}, "n": 3}},
            "not for the labels",
        ),
        ({"review_rules": [{"name": "r"}]}, "neither phrases nor a pattern"),
        ({"review_rules": [{"name": "r", "pattern": "(a"}]}, "not a regular expression"),
    ],
)
def test_bad_policies_are_one_sentence(data: dict[str, object], message: str, toy_panel: Panel) -> None:
    with pytest.raises(BadInput, match=message):
        check_policy(data, "here", toy_panel)


def test_entropy_may_rise_to_the_risk() -> None:
    bits = np.array([0.1, 0.2, 0.3, 0.3, 0.5])
    wrong = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    assert largest_entropy(bits, wrong, 0.25) == 0.3
    assert largest_entropy(bits, wrong, 0.2) == 0.2  # the tied block at .3 goes in whole or not at all
    assert largest_entropy(bits, np.ones(5), 0.1) is None


def test_bits_that_know_nothing_are_not_used(toy_panel: Panel) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    wrong = rng.random(300) < 0.3
    claimed = np.where(wrong, (truth + 1) % 3, truth)
    top = np.where(wrong, 0.5, 0.8) + 0.1 * rng.random(300)
    answers = table(top, claimed, aleatoric=wrong + 0.1 * rng.random(300), epistemic=rng.random(300))
    null = Null.of(rng.normal(size=50))
    policy = tune_on_simulated(toy_panel, answers, truth, Alarm((), (null,)), {})
    assert policy.thresholds.epistemic_bits is None
    assert policy.thresholds.aleatoric_bits is not None
    kept = answers.entropy_bits <= policy.thresholds.entropy_bits + 1e-4
    assert wrong[kept].mean() == pytest.approx(0.05, abs=0.01)  # as far as the risk allows
    assert policy.thresholds.confident == Thresholds().confident  # simulated text never loosens


def table(
    top: Float, claimed: Float, aleatoric: Float | None = None, epistemic: Float | None = None
) -> AnswerTable:
    """Answers that give `top` to the claimed label, and the bits given as their second order."""
    n = len(top)
    posterior = np.full((n, 3), (1 - top[:, None]) / 2)
    posterior[np.arange(n), claimed] = top
    second = None
    if aleatoric is not None and epistemic is not None:
        none = np.zeros(n)
        second = SecondOrder(posterior, aleatoric + epistemic, aleatoric, epistemic, none, none)
    return AnswerTable(
        among_labels=posterior, out_of_class=None, prior=Prior.uniform(3),
        effective_simulations=np.ones(n), tolerance=np.ones(n), trace=None, usage=None,
        make_typicality=lambda: np.ones(n), make_second_order=lambda: second,
    )  # fmt: skip


def test_few_simulated_texts_leave_the_round_figures_and_say_so(toy_panel: Panel) -> None:
    alarm = Alarm((), (Null.of(np.zeros(20)),))

    def tuned(n: int, wrong: int = 1) -> tuple[Policy, str]:
        truth = np.arange(n) % 3
        truth[:wrong] = (truth[:wrong] + 1) % 3
        # Confident answers, some wrong: a limit at 5 % errors would leave a small bank nothing.
        answers = table(np.linspace(0.99, 0.77, n), np.arange(n) % 3)
        policy = tune_on_simulated(toy_panel, answers, truth, alarm, {"bank": "b"})
        assert check_policy(yaml.safe_load(policy_text(policy)), "again") == policy
        return policy, "\n".join(policy_words(policy))

    small, said = tuned(LEAST_HELD_OUT - 1)
    assert small.thresholds == Thresholds()
    assert (small.origin.source, small.origin.n) == ("round figures", LEAST_HELD_OUT - 1)
    assert "tuning needs 100 held-out texts of the bank, and there are 99" in said
    assert "always" not in said  # one wrong of 99 is chance
    sure = Facts(np.array([0.9, 0.06, 0.04]), 0.03, typicality=0.5)
    assert decide(toy_panel, sure, small).action == "accept"
    doubtful, said = tuned(LEAST_HELD_OUT - 1, wrong=12)
    assert doubtful.origin.refuted
    assert doubtful.thresholds == Thresholds()
    assert "test    always: too many confident answers" in said
    assert "entropy exceeds" not in said
    for bits in (0.0, 0.03):  # not even a certain answer passes, and no limit of 0.00 bits is spoken of
        held = decide(toy_panel, replace(sure, entropy_bits=bits), doubtful)
        assert held.action == "test"
        assert "too many confident answers to the bank's own 99 texts were wrong" in held.reason
        assert "entropy" not in held.reason
    enough, _ = tuned(LEAST_HELD_OUT)
    assert (enough.origin.source, enough.origin.refuted) == ("simulated text", False)
    assert enough.thresholds.entropy_bits is not None
    assert too_few(enough) is None
    assert too_few(Policy()) is None  # written by hand: nobody claimed a bank for it


def test_fifty_nine_outside_cases_are_the_fewest() -> None:
    assert upper_end(0, 59) <= 0.05 < upper_end(0, 58)
    assert upper_end(3, 3) == 1.0
    assert upper_end(0, 0) == 1.0
    assert upper_end(13, 327) == pytest.approx(0.0624, abs=1e-4)  # R: binom.test(13, 327, alternative="less")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"inside": 19}, "only 19 labelled cases of its labels"),
        ({"accepted": 0, "wrong": 0}, "none of 40 labelled cases of its labels passes every limit"),
        ({"wrong": 2}, "2 of 30 labelled cases that passed every check were wrong"),
        ({"outside": 58}, "only 58 labelled outside cases; the minimum is 60"),
        ({"outside_accepted": 4, "upper": upper_end(4, 100)}, "4 of 100 labelled outside cases would be"),
    ],
)
def test_what_a_record_lacks(change: dict[str, object], said: str | None) -> None:
    (*found,) = replace(RECORD, **change).shortcomings()
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_a_record_is_counted_and_survives_the_file(toy_panel: Panel) -> None:
    accepted, wrong = np.arange(30) < 20, np.arange(30) % 10 == 0
    inside, outside = (np.where(passed, -np.inf, np.inf) for passed in (accepted, np.arange(80) == 3))
    found = AcceptEvidence.counted(inside, wrong, outside, {"bank": "b"}, "mine")
    assert (found.inside, found.accepted, found.wrong, found.outside, found.outside_accepted) == (
        30, 20, 2, 80, 1,
    )  # fmt: skip
    policy = Policy(panel="toy", evidence=found)
    assert check_policy(policy_data(policy), "here", toy_panel) == policy
    assert any("mine: 20 of 30" in line for line in policy_words(policy))
    assert any("likely  is the strongest" in line for line in policy_words(Policy()))
    with pytest.raises(BadInput, match="upper"):
        check_policy({"evidence": {**policy_data(policy)["evidence"], "upper": 7}}, "here")


def test_where_too_many_outside_cases_pass_a_limit_is_set_and_counted_on_other_cases() -> None:
    assert most_allowed(58) == -1
    assert [most_allowed(n) for n in (59, 200, 786)] == [0, 4, 29]
    rng = np.random.default_rng(1)
    inside, outside = rng.beta(1, 40, 300), rng.beta(4, 4, 400)
    some = rng.random(400) < 0.2  # outside cases that look like inside ones in everything else

    def counted(passed: Mask, none: Float) -> AcceptEvidence:
        tried = np.where(passed, none, np.inf)
        return AcceptEvidence.counted(inside, np.zeros(300, dtype=bool), tried, {}, "mine")

    found = counted(some, outside)
    assert found.none_limit is not None
    assert ((outside < found.none_limit) & some).sum() == int(most_allowed(400) * AIM)
    assert 0 < found.outside_accepted <= most_allowed(400)
    assert found.accepted == (inside < found.none_limit).sum() > 200
    assert not list(found.shortcomings())
    assert counted(some & (outside > 0.9), outside).none_limit is None
    none = counted(some, np.zeros(400))  # nothing separates them: the limit lets nothing through
    assert none.accepted == 0
    assert list(none.shortcomings())


def test_other_limits_are_another_policy_and_rules_of_review_are_not() -> None:
    rule = check_policy({"review_rules": [{"name": "r", "phrases": ["boat"]}]}, "here")
    assert rule.limits == Policy().limits
    assert Policy(thresholds=Thresholds(confident=0.5)).limits != Policy().limits


def test_a_damaged_record_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / policies.FILE
    monkeypatch.setattr(policies, "files", lambda _: tmp_path)
    for change, count in (("", 1), ("0", 0)):
        text = json.dumps(sealed({"evidence": [asdict(RECORD)]}))
        file.write_text(text.replace('"wrong": 1', f'"wrong": 1{change}'))
        policies.packaged_records.cache_clear()
        assert len(policies.packaged_records()) == count
    monkeypatch.undo()
    policies.packaged_records.cache_clear()
