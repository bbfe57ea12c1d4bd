"""Choosing a policy's thresholds: from simulated text, or from labelled cases with a stated risk.

A threshold on a kind of bits is set only if those bits separate errors from correct answers (AUROC above
`USEFUL` on the same texts; the AUROC is always recorded). The entropy limit is the largest at which the error
rate among accepted answers stays at the target. The limits on aleatoric and epistemic bits hold for all but
1 % of correct answers. Simulated text is cleaner than real text, so tuning can only make the default
thresholds stricter.

With fewer than `LEAST_HELD_OUT` held-out texts a bank is too small to tune on: with a dozen, one wrong answer
would allow no entropy at all. The default thresholds stay, and the policy says so. Few texts can still refute
a bank: if more of the confident answers to them are wrong than chance allows at the risk, auto-accept is off.

Labelled cases give conformal sets (`metrics.conformal`) and the largest entropy up to which answers may be
accepted with at most the target rate of errors, at a stated confidence, whatever the distribution (learn then
test, Angelopoulos et al. 2021: a binomial test of each entropy, Holm's correction over all). The entropies
are fixed in advance, so they do not depend on the labels. Together with outside cases, labelled cases also
give the evidence that accepting needs (`policy`).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from simdx.abc.prior import Prior
from simdx.decide.alarm import RATE, Alarm
from simdx.decide.policy import LEAST_HELD_OUT, AlarmFile, ConformalFile, Origin, Policy, RiskFile, Thresholds
from simdx.errors import BadInput
from simdx.fitting import fit_method
from simdx.methods.fitted import AnswerTable, Settings, joined
from simdx.methods.panel_data import Observations, PanelData
from simdx.metrics.conformal import Kind, calibrate
from simdx.metrics.scores import auroc
from simdx.types import Float, Int, Mask, Panel, entropy_bits

USEFUL = 0.6  # a kind of bits is used only with at least this AUROC for errors
TAIL = 0.01  # share of correct answers that may exceed a limit on bits
RISK = 0.05  # default share of errors among accepted answers
CHANCE = 0.05  # level of the test that refutes a bank
FOLDS = 5
GRID = 6  # entropies tested by `control_risk`: each one costs power (Holm's correction)


def tune_on_simulated(
    panel: Panel,
    answers: AnswerTable | None,
    truth: Int,
    alarm: Alarm,
    made_for: Mapping[str, str],
    risk: float = RISK,
) -> Policy:
    """The default policy. With too few held-out answers only the alarm is tuned."""
    thresholds, made = Thresholds(), dict(made_for)
    origin = Origin("simulated text", len(truth), risk, made)
    if len(truth) < LEAST_HELD_OUT:
        origin = Origin("round figures", len(truth), None, made)
        if answers is not None:
            # Are confident answers wrong significantly more often than the risk allows?
            from scipy.stats import binom  # slow to import

            sure = answers.of_labels.max(axis=1) >= (thresholds.confident or 0.0)
            wrong = int((answers.of_labels.argmax(axis=1) != truth)[sure].sum())
            refuted = bool(binom.sf(wrong - 1, int(sure.sum()), risk) < CHANCE)
            origin = replace(origin, refuted=refuted)
    elif answers is not None:
        thresholds, separation = _thresholds(answers, truth, risk)
        origin = replace(origin, auroc=separation)
    return Policy(panel=panel.name, origin=origin, thresholds=thresholds, alarm=alarm_file(alarm))


def tune_on_labelled(
    panel: Panel,
    answers: AnswerTable,
    truth: Int,
    alarm: Alarm,
    made_for: Mapping[str, str],
    *,
    risk: float = RISK,
    confidence: float = 0.9,
    coverage: float = 0.9,
    kind: Kind = "class-conditional",
) -> Policy:
    """Thresholds, guaranteed entropy and conformal sets from labelled cases."""
    sets = calibrate(answers.of_labels, truth, level=coverage, kind=kind)
    led = _led_by_a_label(answers)
    led = led if led.any() else np.ones_like(led)  # then no limit can be promised
    thresholds, separation = _thresholds(answers, truth, risk)
    # the guaranteed entropy below replaces the round figure and the limit without a guarantee
    thresholds = replace(thresholds, confident=None, entropy_bits=None)
    limits = zip(panel.names, sets.largest, strict=True)
    largest = {name: float(q) if np.isfinite(q) else None for name, q in limits}
    scores = dict(zip(panel.names, sets.scores, strict=True)) if sets.scores else None
    return Policy(
        panel=panel.name,
        origin=Origin("labelled cases", len(truth), risk, dict(made_for), separation),
        thresholds=thresholds,
        alarm=alarm_file(alarm),
        conformal=ConformalFile(sets.kind, sets.level, largest, sets.n, scores),
        risk=control_risk(answers.posterior[led], truth[led], target=risk, confidence=confidence),
    )


def control_risk(posterior: Float, truth: Int, *, target: float = 0.05, confidence: float = 0.9) -> RiskFile:
    """The most lenient entropy threshold with at most `target` errors among accepted, at that confidence."""
    from scipy.stats import binom  # slow to import, and an answer does not need it

    for name, value in (("risk", target), ("confidence", confidence)):
        if not 0 < value < 1:
            raise BadInput(f"the {name} is {value:g}: give a number between 0 and 1")
    p = np.asarray(posterior, dtype=float)
    if not len(p):
        raise BadInput("there are no labelled cases to control the risk on")
    most = np.log2(p.shape[1])
    certainty = 1 - entropy_bits(p) / most  # in [0, 1], so that a grid can be fixed in advance
    grid = np.linspace(0, 1, GRID, endpoint=False)
    kept = certainty >= grid[:, None]  # (thresholds, cases)
    accepted, errors = kept.sum(axis=1), (kept & (p.argmax(axis=1) != truth)).sum(axis=1)
    p_value = binom.cdf(errors, accepted, target)  # chance of so few errors if the risk equals the target
    order = np.argsort(p_value, kind="stable")
    rejected = np.cumprod(p_value[order] <= (1 - confidence) / np.arange(GRID, 0, -1)).astype(bool)
    valid = order[rejected]
    if not valid.size:
        return RiskFile(target, confidence, None, len(p), 0, 0)
    chosen = int(valid.min())
    entropy = float(most * (1 - grid[chosen]))
    return RiskFile(target, confidence, entropy, len(p), int(accepted[chosen]), int(errors[chosen]))


def alarm_file(alarm: Alarm) -> AlarmFile:
    return AlarmFile(RATE, {view.name: view.bandwidth for view in alarm.views}, alarm.nulls, alarm.own)


def largest_entropy(entropy: Float, wrong: Float, risk: float) -> float | None:
    """The largest entropy up to which at most `risk` of answers are wrong, equal entropies together."""
    order = np.argsort(entropy, kind="stable")
    ranked = entropy[order]
    rate = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    last = np.append(ranked[1:] != ranked[:-1], True)
    good = np.flatnonzero(last & (rate <= risk))
    return float(ranked[good[-1]]) if good.size else None


def _thresholds(answers: AnswerTable, truth: Int, risk: float) -> tuple[Thresholds, dict[str, float | None]]:
    led, second = _led_by_a_label(answers), answers.second_order
    wrong = (answers.posterior.argmax(axis=1) != truth)[led]
    entropy = answers.entropy_bits[led]
    kinds = {"entropy_bits": entropy}
    if second is not None:
        kinds |= {"aleatoric_bits": second.aleatoric_bits[led], "epistemic_bits": second.epistemic_bits[led]}
    separation: dict[str, float | None] = dict.fromkeys(("entropy_bits", "aleatoric_bits", "epistemic_bits"))
    usual: dict[str, float] = {}
    for name, bits in kinds.items():
        value = auroc(bits, wrong).value
        separation[name] = None if value is None else round(value, 3)
        if (separation[name] or 0.0) > USEFUL:  # what all but TAIL of the correct answers stay within
            usual[name] = round(float(np.quantile(bits[~wrong], 1 - TAIL)), 4)
    limit = largest_entropy(entropy, wrong.astype(float), risk)
    thresholds = Thresholds(
        entropy_bits=0.0 if limit is None else round(limit, 4),
        aleatoric_bits=usual.get("aleatoric_bits"),
        epistemic_bits=usual.get("epistemic_bits"),
    )
    return thresholds, separation


def _led_by_a_label(answers: AnswerTable) -> Mask:
    """(N,) the answers that may be accepted: an answer of none of these never is."""
    return answers.posterior.argmax(axis=1) < answers.among_labels.shape[1]


def cross_fitted(data: PanelData, settings: Settings) -> tuple[Int, AnswerTable | None]:
    """Rows of the bank with their answers, each from a fit on the other folds.

    A label's only text stays in every fit and is not answered; where no label has two, all rows come back
    without answers.
    """
    bank, embedded = data.bank, data.embedded
    # With the calibration of the whole bank, as it is what will answer; but weighing the library as well
    # would cost each fold more than all the rest.
    calibration = None if data.calibration is None else replace(data.calibration, world=None)
    fold = folds_in_turn(bank.label_index, FOLDS)
    parts: list[AnswerTable] = []
    for f in np.unique(fold[fold >= 0]):
        kept, held = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        own = bank.subset(kept), embedded.subset(kept), data.embedder
        part = PanelData(data.panel, *own, data.real, calibration, reading=data.reading)
        seen = Observations(tuple(bank.texts[i] for i in held), embedded.vectors[held])
        parts.append(fit_method(part, settings).answer(seen, Prior.uniform(len(bank.labels))))
    if not parts:
        return np.arange(len(bank.texts)), None
    order = np.argsort(fold, kind="stable")
    return order[fold[order] >= 0], joined(parts)


def folds_in_turn(label_index: Int, folds: int) -> Int:
    """Each label's texts distributed over the folds; −1 for the only text of a label."""
    fold = np.full(len(label_index), -1)
    for label in np.unique(label_index):
        rows = np.flatnonzero(label_index == label)
        if rows.size > 1:
            fold[rows] = np.arange(rows.size) % folds
    return fold
