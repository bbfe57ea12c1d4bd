"""Policies are checked at the border; the decision collects every reason and the gravest decides."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from simdx.abc.prior import Prior
from simdx.decide.alarm import Alarm, Null
from simdx.decide.decision import Facts, decide
from simdx.decide.policy import (
    LEAST_HELD_OUT,
    ConformalFile,
    Origin,
    Policy,
    RiskFile,
    Thresholds,
    check_policy,
    policy_text,
    policy_words,
    read_policy,
    too_few,
)
from simdx.decide.tune import largest_entropy, tune_on_simulated
from simdx.errors import BadInput
from simdx.methods import AnswerTable
from simdx.panels.rules import matching, pattern_problem
from simdx.types import Float, Panel, ReviewRule, SecondOrder

ONE = {"apple": 1, "river": 1, "engine": 1}


def facts(p: tuple[float, ...] = (0.9, 0.06, 0.04), **more: object) -> Facts:
    """`p` is among the labels: a tenth of the whole is none of these, unless it is said otherwise."""
    outside = more.setdefault("out_of_class", 0.1)
    left = np.array(p) * (1 - float(outside or 0))  # type: ignore[arg-type]
    return replace(Facts(left, 0.5, typicality=0.5, text="a plain case"), **more)


def test_a_text_in_another_language_is_never_accepted(toy_panel: Panel) -> None:
    assert decide(toy_panel, facts((1.0, 0.0, 0.0), out_of_class=None)).action == "accept"
    found = decide(toy_panel, facts((1.0, 0.0, 0.0), out_of_class=None, foreign=True))
    assert found.action == "review"
    assert found.reason == "the text does not read as English, the language of the simulated texts"


@pytest.mark.parametrize(
    ("p", "outside", "said"),
    [
        ((0.9, 0.06, 0.04), 0.1, "'apple' has probability 81 %"),  # of a tenth, none of these
        ((0.9996, 0.0003, 0.0001), None, "probability over 99 %; all safety"),  # not one that is rounding
        ((1.0, 0.0, 0.0), None, "probability 100 %;"),
    ],
)
def test_a_clear_case_is_accepted(toy_panel: Panel, p: Float, outside: float | None, said: str) -> None:
    found = decide(toy_panel, facts(p, entropy_bits=0.01, out_of_class=outside))
    assert found.action == "accept"
    assert said in found.reason


@pytest.mark.parametrize(
    ("more", "action", "words"),
    [
        ({"out_of_class": 0.7}, "review", "none of these is more likely"),
        ({"typicality": 0.001}, "review", "unlike the simulated"),
        (
            {"alarm": True, "alarm_p": 0.02, "preferred": ("river", "apple", "river", "river")},
            "review",
            "1 of 4 other readings of the text puts 'apple' first, 3 'river': 2 %",
        ),
        ({"epistemic_bits": 0.6}, "review", "epistemic 0.600"),
        ({"aleatoric_bits": 1.4}, "test", "ambiguous"),
        ({"entropy_bits": 1.3}, "test", "entropy 1.30"),
        (
            {"posterior": np.array([0.7, 0.15, 0.05])},
            "test",
            "leads with only 70 %, against 15 % for 'river'",
        ),
        (
            {"posterior": np.array([0.09, 0.01, 0.0]), "out_of_class": 0.9},
            "review",
            "no label has over 9 %; none of these has 90 %",
        ),
        (
            {"posterior": np.array([0.76, 0.02, 0.12])},
            "test",
            "'engine' must not be missed and still has 12 %",
        ),
        ({"conformal_set": ("apple", "river")}, "test", "90% set holds 'apple', 'river'"),
        ({"effective_simulations": 2.0}, "test", "only 2.0 effective simulations"),
        ({"effective_simulations": 0.0}, "test", "never measured"),
    ],
)
def test_each_reason(toy_panel: Panel, more: dict[str, object], action: str, words: str) -> None:
    policy = Policy(
        thresholds=Thresholds(entropy_bits=1.2, aleatoric_bits=1.3, epistemic_bits=0.5),
        conformal=ConformalFile("split", 0.9, {"apple": 0.5, "river": 0.5, "engine": 0.5}, 50),
    )
    calm = facts(conformal_set=("apple",))
    assert decide(toy_panel, calm, policy).action == "accept"
    found = decide(toy_panel, replace(calm, **more), policy)
    assert found.action == action
    assert words in found.reason


def test_reasons_are_collected_and_the_gravest_decides(toy_panel: Panel) -> None:
    found = decide(toy_panel, facts((0.6, 0.2, 0.2), out_of_class=0.5, alarm=True))
    assert (found.action, len(found.reasons)) == ("review", 4)
    assert found.reason == "; ".join(found.reasons)


def test_thresholds_can_be_switched_off(toy_panel: Panel) -> None:
    names = ("confident", "typicality", "out_of_class", "must_not_miss")
    off = Policy(thresholds=Thresholds(**dict.fromkeys(names), alarm=False))
    worst = facts((0.4, 0.3, 0.3), out_of_class=0.2, typicality=0.0, alarm=True)
    assert decide(toy_panel, worst, off).action == "accept"


@pytest.mark.parametrize("utility", [None, {"apple": ONE | {"apple": 2}, "test": ONE}])
def test_none_of_these_is_never_accepted(
    toy_panel: Panel, utility: dict[str, dict[str, float]] | None
) -> None:
    names = ("confident", "typicality", "out_of_class", "must_not_miss")
    off = Policy(thresholds=Thresholds(**dict.fromkeys(names), alarm=False), utility=utility)
    found = decide(toy_panel, facts((0.9, 0.1, 0.0), out_of_class=0.49), off)
    assert (found.action, found.reason) == ("test", "none of these leads with 49 %")
    assert decide(toy_panel, facts((0.9, 0.1, 0.0), out_of_class=0.4), off).action == "accept"


def test_promised_risk(toy_panel: Panel) -> None:
    held = Policy(risk=RiskFile(0.05, 0.9, 0.4, 100, 60, 1))
    assert decide(toy_panel, facts(entropy_bits=0.3), held).action == "accept"
    assert "only up to 0.40 bits" in decide(toy_panel, facts(entropy_bits=0.5), held).reason
    nothing = Policy(risk=RiskFile(0.05, 0.9, None, 100, 0, 0))
    assert decide(toy_panel, facts(entropy_bits=0.0), nothing).action == "test"


UTILITY = {
    "apple": {"apple": 1.0, "river": -1.0, "engine": -20.0, "none of these": -1.0},
    "test": {"apple": 0.5, "river": 0.5, "engine": 0.5, "none of these": 0.0},
    "review": {"apple": 0.2, "river": 0.2, "engine": 0.2, "none of these": 0.2},
}


def test_utility_decides(toy_panel: Panel) -> None:
    policy = check_policy({"utility": UTILITY}, "here", toy_panel)
    sure = facts((0.99, 0.01, 0.0), out_of_class=0.0)
    found = decide(toy_panel, sure, policy)
    assert found.action == "accept"
    assert "accepting 'apple' has the largest expected utility (0.98)" in found.reason
    risky = decide(toy_panel, facts((0.93, 0.02, 0.05), out_of_class=0.0), policy)
    assert risky.action == "test"
    outside = decide(toy_panel, facts((0.99, 0.01, 0.0), out_of_class=0.9), Policy(utility=policy.utility))
    assert outside.action == "review"
    even = {"apple": ONE, "test": ONE}
    assert decide(toy_panel, sure, Policy(utility=even)).action == "test"  # ties go to caution


def test_review_rules_read_the_case(toy_panel: Panel) -> None:
    rules = (
        ReviewRule("pregnancy", ("pregnant", "weeks of gestation"), reason="a pregnant patient"),
        ReviewRule("infant", pattern=r"\b\d{1,2}[- ](day|week)s?[- ]old"),
    )
    panel = replace(toy_panel, review_rules=rules)
    assert decide(panel, facts(text="She is PREGNANT.")).reasons == ("a pregnant patient",)
    assert decide(panel, facts(text="at 30  weeks\nof gestation")).action == "review"
    assert decide(panel, facts(text="impregnanted cloth")).action == "accept"
    assert "review rule 'infant'" in decide(panel, facts(text="A 3-week-old boy")).reason
    assert decide(panel, facts(text="x " * 3000 + "a 3-week-old boy")).action == "review"


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?=a)b", "(", "x" * 300, "a{1,999}b{1,999}", "\ud800"])
def test_patterns_that_re2_does_not_take_are_refused(pattern: str) -> None:
    assert pattern_problem(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"\bchemo\w*", r"anti-?coagul", r"(warfarin|heparin)", r"INR [3-9]", r"a{1,20}b{1,20}", r"(a+)+b",
     r"(a|aa)*b", r"(\w+\s?)*x", "(?:..|.)" * 22 + "\0", "(?:..|.)" * 22 + "é"],
)  # fmt: skip
def test_patterns_that_are_taken_are_quick_on_hostile_text(pattern: str) -> None:
    """Twenty-two alternatives and a NUL passed `panel check` and took half a minute on thirty letters."""
    assert pattern_problem(pattern) is None
    started = time.process_time()
    matching((ReviewRule("r", pattern=pattern),), "a" * 200_000)
    assert time.process_time() - started < 5


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


def held_out(n: int) -> AnswerTable:
    """Confident answers, the first of them wrong: a limit at 5 % errors would leave a small bank nothing."""
    return table(np.linspace(0.99, 0.77, n), np.arange(n) % 3)


def test_few_simulated_texts_leave_the_round_figures_and_say_so(toy_panel: Panel) -> None:
    alarm = Alarm((), (Null.of(np.zeros(20)),))

    def tuned(n: int, wrong: int = 1) -> Policy:
        truth = np.arange(n) % 3
        truth[:wrong] = (truth[:wrong] + 1) % 3
        return tune_on_simulated(toy_panel, held_out(n), truth, alarm, {"bank": "b"})

    small, enough = tuned(LEAST_HELD_OUT - 1), tuned(LEAST_HELD_OUT)
    assert small.thresholds == Thresholds()
    assert (small.origin.source, small.origin.n) == ("round figures", LEAST_HELD_OUT - 1)
    assert "tuning needs 100 held-out texts of the bank, and there are 99" in next(policy_words(small))
    assert check_policy(yaml.safe_load(policy_text(small)), "again") == small
    assert not any("always" in line for line in policy_words(small))  # one wrong of 99 is chance
    assert decide(toy_panel, facts(entropy_bits=0.03), small).action == "accept"
    doubtful = tuned(LEAST_HELD_OUT - 1, wrong=12)
    assert doubtful.origin.refuted
    assert doubtful.thresholds == Thresholds()
    assert check_policy(yaml.safe_load(policy_text(doubtful)), "again") == doubtful
    assert any("test    always: too many confident answers" in line for line in policy_words(doubtful))
    assert not any("entropy exceeds" in line for line in policy_words(doubtful))
    for bits in (0.0, 0.03):  # not even a certain answer passes, and no limit of 0.00 bits is spoken of
        held = decide(toy_panel, facts(entropy_bits=bits), doubtful)
        assert held.action == "test"
        assert "too many confident answers to the bank's own 99 texts were wrong" in held.reason
        assert "entropy" not in held.reason
    assert enough.origin.source == "simulated text"
    assert enough.thresholds.entropy_bits == pytest.approx(held_out(100).entropy_bits.max(), abs=1e-4)
    assert not enough.origin.refuted
    assert too_few(enough) is None
    assert too_few(Policy()) is None  # written by hand: nobody claimed a bank for it
