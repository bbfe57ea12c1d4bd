"""The paper's claims, each once: what it says, its figure, the rule that decides, and what our records make of it.

A rule (`paper/rules.py`) reads records alone and can fail: it wants every comparison, not most of them, an interval
where there is one, and the same simulators on both sides. Where no record holds what a claim is about, the verdict is
"not testable here". Nothing here is a conclusion written beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from paper import rules
from paper.rules import Data, Ruling

AGREES, DISAGREES, UNTESTED = "agrees", "disagrees", "not testable here"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: where it stands, in our words, with the paper's figure and the rule in words."""

    place: str
    says: str
    theirs: str
    rule: str
    decide: Callable[[Data], Ruling]


class Verdict(NamedTuple):
    """A claim decided: ours in figures, one of the three words, and why."""

    claim: Claim
    ours: str
    verdict: str
    why: str


def verdicts(data: Data) -> list[Verdict]:
    """Every claim decided on these records."""
    return [_decided(one, data) for one in CLAIMS]


def _decided(one: Claim, data: Data) -> Verdict:
    try:
        found = one.decide(data)
    except (KeyError, IndexError, StopIteration, TypeError, ValueError):  # a record that is not there, or lacks it
        found = Ruling("", None, "no record holds it")
    word = UNTESTED if found.holds is None or not found.ours else AGREES if found.holds else DISAGREES
    return Verdict(one, found.ours or "–", word, found.why)


CLAIMS = (
    Claim("Table 1", "M-SMC is more accurate than ML, EP and PE on average over models, on every data set",
          "95.5, 81.7 and 96.0 % against 87.2, 63.9 and 52.0 % at best",
          "on every panel ahead of each way of asking on average over the same models, and no model reverses it beyond "
          "doubt", rules.on_average),
    Claim("§5.1", "the margin is largest where the model is weakest", "44 points on MultiCaRe; −8 for Llama on OLB-300",
          "on every panel the weaker model when asked gains more", rules.weakest),
    Claim("Table 1", "M-SMC is more stable over models than ML", "90.6–98.3 % against 65.3–98.6 % on OLB-300",
          "its range of accuracy over the models is the smaller one on every panel", rules.stable),
    Claim("Table 2", "D-SMC matches or exceeds EF in accuracy", "90.8, 81.2, 95.8 % against 90.3, 68.1, 76.7 %",
          "no comparison more than a point below, by the 95 % interval", rules.over_fidelity),
    Claim("Table 2", "D-SMC has the best mean Brier score of EF, D-SMC and ABI", ".080, .390 and .127",
          "lowest of the three on every panel, over the same models", rules.brier),
    Claim("Table 2", "ABI answers four orders of magnitude faster than D-SMC", "18 µs against 25 s",
          "at least 10,000 times faster on every panel, embeddings given", rules.cheap),
    Claim("Table 3", "M-SMC's entropy ranks errors better than every way of asking, by AUROC",
          ".923 against .760; 24 of 24",
          "every comparison beyond doubt", lambda d: rules.wins(d, "error_auroc", -1, rules.PANELS)),
    Claim("Table 3", "and by E-AURC", "24 of 24", "every comparison beyond doubt", lambda d: rules.wins(d, "e_aurc",
          1, rules.PANELS)),
    Claim("Table 3", "the E-AURC of asking is some thirty times M-SMC's", ".11–.17 against .0037",
          "at least ten times for every way of asking", rules.fold),
    Claim("Table 3", "EF's entropy is close to uninformative about its errors", "AUROC .584",
          "no AUROC above .584 beyond doubt", rules.uninformative),
    Claim("Table 4", "without labels M-SMC is calibrated about as well as a centroid classifier with them",
          "ECE .0166 against .0145", "the intervals overlap", rules.native),
    Claim("Table 4",
          "with the same labels ABI is more accurate than the centroid classifier and has the better Brier score",
          ".983 against .964, .031 against .054", "both", rules.matched),
    Claim("Figure 2b", "M-SMC's risk is below that of EF and logits at every coverage",
          ".13 against .40 and .59 at 80 %",
          "below every way of asking the same model, on symptoms", rules.below),
    Claim("Table S7", "M-SMC recovers from a misleading prior", ".14 to .94, accuracy .97",
          "more than half of the mass on the true label, and no more than .05 of accuracy lost",
          rules.prior("m-smc", lambda after, acc, even: after > 0.5 and acc > even - 0.05)),
    Claim("Table S7", "D-SMC does not", "accuracy .72 to .19", "it loses more than half of its accuracy",
          rules.prior("d-smc", lambda after, acc, even: acc < even / 2)),
    Claim("Table S8", "M-SMC's entropy is near its maximum on out-of-class text", "2.5 of 2.58 bits on SD",
          "the interval reaches .95 of log₂ K on both panels", rules.diffuse),
    Claim("Table S8", "and above that of ML and EP", "2.5 against at most 2.1", "above each on both panels",
          rules.more_diffuse),
    Claim("Table S1",
          "D-SMC is lower than ABI in total and aleatoric bits and has two to three times its epistemic bits",
          "1.1 against 1.4, 1.0 against 1.4, .08 against .03", "all three", rules.split),
    Claim("Table S2", "M-SMC's ECE is lower than that of every way of asking", "24 of 24 on MultiCaRe",
          "every comparison beyond doubt", lambda d: rules.wins(d, "ece", 1, rules.PANELS)),
    Claim("Table S2", "so says a regression with the model as random effect", "−.308 [−.449, −.168]",
          "the interval of M-SMC minus ML is below zero", rules.missing(
              "two models are too few for a random effect, five the least; the section has temperatures and weights")),
    Claim("Table S3", "ABI names D-SMC's label and has its means", "97 %, r .975", "reached on case reports",
          rules.faithful),
    Claim("§C", "ABI is more concentrated than D-SMC", "α₀ two times",
          "trained as the paper trains, beyond doubt on every "
          "panel", rules.sharper),
    Claim("§C", "on oral lesions D-SMC's posteriors are near-degenerate", "α₀ > 500", "its median α₀ is above 500",
          rules.degenerate),
    Claim("Table S9", "no variant has every capability", "ABI takes no prior at test time", "none does",
          rules.no_variant),
    Claim("Table S10", "refinement concentrates D-SMC on the true label", ".24 to .76",
          "the last interval above the first",
          rules.refines),
    Claim("Table S10", "populations after the fifth gain nothing", "−.01", "less than .01", rules.enough),
    Claim("§G", "all errors on oral lesions are one confusion, and confident", "12 of 12, mass .889",
          "all of one kind, mean mass above .8", rules.one_confusion),
    Claim("Table S12", "normalised cosines are badly calibrated, M-SMC is not", "ECE .78 against .02",
          "the intervals are apart on case reports", rules.cosines),
    Claim("Table S15", "general embeddings beat biomedical ones", "96.0 and 81.3 against 62.6–75.3 %", "each pair",
          rules.missing("no biomedical encoder and no commercial embedding is at hand")),
    Claim("Table S16", "rounding the weights to four bits does not hurt M-SMC", "ECE .036 to .006",
          "no ECE higher beyond doubt", rules.quantised),
    Claim("Table S17", "the lowest temperature is the worst for M-SMC", "ECE .036 at .2, .01–.02 above",
          "worst at .2 of the five, beyond doubt", rules.coldest),
    Claim("Table S18", "fifty texts a label are enough, and three nearly", "98.0 % at 50, 95.6 % at 3",
          "less than .01 gained from 50 to 500, less than .03 from 3 to 50", rules.few),
    Claim("Table S19", "temperature scaling leaves M-SMC ahead in accuracy, and M-SMC is as well calibrated",
          "77.7 % and .046 against 96.0 % and .036", "both, for every model asked", rules.rescaled),
    Claim("Algorithm 1", "M-SMC with fresh generations for every proposal", "15–25 s a case",
          "thirty cases at least, every population reached, within .1 of the closed form in total variation",
          rules.fresh),
)  # fmt: skip
