"""The rule: every reason is collected, the gravest decides, and what the panel lacks leaves `likely`."""

import time
from dataclasses import replace

import numpy as np
import pytest

from simdx.decide.decision import Facts, decide, excluded
from simdx.decide.policy import ConformalFile, Policy, RiskFile, Thresholds, check_policy
from simdx.panels.schema import matching, pattern_problem
from simdx.types import Float, Panel, ReviewRule

ONE = {"apple": 1, "river": 1, "engine": 1}
OFF = Thresholds(confident=None, typicality=None, out_of_class=None, must_not_miss=None, alarm=False)
UTILITY = {
    "apple": {"apple": 1.0, "river": -1.0, "engine": -20.0, "none of these": -1.0},
    "test": {"apple": 0.5, "river": 0.5, "engine": 0.5, "none of these": 0.0},
    "review": {"apple": 0.2, "river": 0.2, "engine": 0.2, "none of these": 0.2},
}


def facts(p: tuple[float, ...] = (0.9, 0.06, 0.04), **more: object) -> Facts:
    """`p` is among the labels: a tenth of the whole is none of these, unless it is said otherwise."""
    outside = more.setdefault("out_of_class", 0.1)
    left = np.array(p) * (1 - float(outside or 0))  # type: ignore[arg-type]
    return replace(Facts(left, 0.5, typicality=0.5, text="a plain case"), **more)


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
        ({"foreign": True}, "review", "does not read as English, the language of the simulated texts"),
        ({"aleatoric_bits": 1.4}, "test", "ambiguous"),
        ({"entropy_bits": 1.3}, "test", "entropy 1.30"),
        (
            {"posterior": np.array([0.7, 0.15, 0.05])},
            "test",
            "leads with only 70 %, against 15 % for 'river'",
        ),
        (
            {"posterior": np.array([0.7, 0.04, 0.01]), "out_of_class": 0.25},
            "test",
            "leads with only 70 %, against 25 % for none of these",
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
        ({"effective_simulations": 2.0}, "test", "only 2.0 simulated texts are like this one"),
        ({"effective_simulations": 0.0}, "test", "never measured"),
        ({"unexplained": ("I coughed up blood.",)}, "test", "1 sentence not explained by 'apple'"),
        (
            {"unexplained": ("I coughed up blood.",), "red_flags": ("coughing up blood, a red flag of x",)},
            "test",
            "1 sentence not explained by 'apple' (coughing up blood, a red flag of x)",
        ),
        ({"rival": ("pulmonary embolism", 0.12)}, "test", "could be pulmonary embolism (emergency), 12 %"),
        ({"refuted": ("only 40% were right",), "missing": ("no cases",)}, "test", "off: only 40% were right"),
        ({"missing": ("no cases",), "effective_simulations": 1.0}, "test", "only 1.0 simulated"),
        ({"missing": ("no cases",), "out_of_class": 0.9}, "review", "none of these is more likely"),
        (
            {"missing": ("no cases", "no library")},
            "likely",
            "not accepted automatically: no cases; no library",
        ),
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
    if action == "test":  # limits on the answer itself go before, and then nothing is said of the panel
        assert "no cases" not in found.reason


def test_reasons_are_collected_and_the_gravest_decides(toy_panel: Panel) -> None:
    found = decide(toy_panel, facts((0.6, 0.2, 0.2), out_of_class=0.5, alarm=True))
    assert (found.action, len(found.reasons)) == ("review", 4)
    assert found.reason == "; ".join(found.reasons)
    worst = facts((0.4, 0.3, 0.3), out_of_class=0.2, typicality=0.0, alarm=True)
    assert decide(toy_panel, worst, Policy(thresholds=OFF)).action == "accept"  # all can be switched off


@pytest.mark.parametrize(
    ("prior", "even", "action", "said"),
    [
        ((0.6, 0.4, 0.0), None, "likely", "'engine' must not be missed, and its prior is 0 %"),
        ((0.6, 0.395, 0.005), None, "likely", "'engine' must not be missed, and its prior is 0.5 %"),
        ((0.5, 0.48, 0.02), None, "accept", ""),
        ((0.6, 0.0, 0.4), None, "accept", ""),  # any other label
        (
            (0.5, 0.0, 0.5),
            (0.4, 0.6, 0.0),
            "test",
            "excludes 'river', which would lead with 60 % under an even",
        ),
        ((0.5, 0.0, 0.5), (0.6, 0.4, 0.0), "accept", ""),
        (
            (0.5, 0.5, 0.0),
            (0.7, 0.0, 0.3),
            "test",
            "must not be missed and would have 30 % under an even prior",
        ),
    ],
)
def test_what_a_prior_excludes(
    toy_panel: Panel, prior: tuple[float, ...], even: tuple[float, ...] | None, action: str, said: str
) -> None:
    under_even = None if even is None else np.array(even)
    found = decide(toy_panel, facts(prior=np.array(prior), even=under_even))
    assert found.action == action
    assert said in found.reason
    assert not excluded(np.full(400, 1 / 400)).any()  # an even prior excludes nothing
    assert excluded(np.array([0.0, *[1 / 399] * 399])).tolist() == [True, *[False] * 399]


@pytest.mark.parametrize("utility", [None, {"apple": ONE | {"apple": 2}, "test": ONE}])
def test_none_of_these_is_never_accepted(
    toy_panel: Panel, utility: dict[str, dict[str, float]] | None
) -> None:
    off = Policy(thresholds=OFF, utility=utility)
    found = decide(toy_panel, facts((0.9, 0.1, 0.0), out_of_class=0.49), off)
    assert (found.action, found.reason) == ("test", "none of these leads with 49 %")
    assert decide(toy_panel, facts((0.9, 0.1, 0.0), out_of_class=0.4), off).action == "accept"


def test_promised_risk(toy_panel: Panel) -> None:
    held = Policy(risk=RiskFile(0.05, 0.9, 0.4, 100, 60, 1))
    assert decide(toy_panel, facts(entropy_bits=0.3), held).action == "accept"
    assert "only up to 0.40 bits" in decide(toy_panel, facts(entropy_bits=0.5), held).reason
    nothing = Policy(risk=RiskFile(0.05, 0.9, None, 100, 0, 0))
    assert decide(toy_panel, facts(entropy_bits=0.0), nothing).action == "test"


def test_utility_decides(toy_panel: Panel) -> None:
    policy = check_policy({"utility": UTILITY}, "here", toy_panel)
    sure = facts((0.99, 0.01, 0.0), out_of_class=0.0)
    found = decide(toy_panel, sure, policy)
    assert found.action == "accept"
    assert "accepting 'apple' has the largest expected utility (0.98)" in found.reason
    assert decide(toy_panel, replace(sure, missing=("no outside cases",)), policy).action == "likely"
    risky = facts((0.93, 0.02, 0.05), out_of_class=0.0)
    assert decide(toy_panel, risky, policy).action == "test"
    assert decide(toy_panel, facts((0.99, 0.01, 0.0), out_of_class=0.9), policy).action == "review"
    even = Policy(utility={"apple": ONE, "test": ONE})
    assert decide(toy_panel, sure, even).action == "test"  # ties go to caution


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
