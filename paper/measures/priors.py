"""What a prior does: every strength on every label in turn, and one that weighs against a known confusion."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from paper.answers import Spec
from paper.context import Context
from paper.engine import Fitted, Observations
from paper.intervals import mean_interval
from paper.measures import each_panel, packaged_used
from paper.spec import Measured
from simdx.abc.prior import Prior
from simdx.metrics import confusion
from simdx.types import Bank, Float, Int

# --------------------------------------------------------------------------- strengths

HELD = "d-smc, α₀ = K"  # the variant whose concentration does not grow with the prior
PAPER_COUNT = 5
COUNTS = {"smoke": (1, 5, 100), "full": (1, 2, 5, 10, 30, 100, 300, 1000)}  # of the favoured label, one for each other
VARIANTS = ("m-smc", "d-smc", HELD, "auto")


def under_priors(
    fitted: Fitted, observations: Observations, label: Int, n_labels: int, count: float, held: bool
) -> dict[str, dict[str, Any]]:
    """Every label favoured in turn by `count` pseudo-counts against one.

    Per case the mass on the true label and whether the answer is right: under the prior that favours the true
    label (informative), and as means over those that favour a wrong one (misleading).
    """
    n, rows = len(label), np.arange(len(label))
    found = {
        kind: {"posterior_on_true": np.zeros(n), "accuracy": np.zeros(n)} for kind in ("informative", "misleading")
    }
    for favoured in range(n_labels):
        counts = np.ones(n_labels)
        counts[favoured] = count
        prior = Prior(counts / counts.sum(), float(n_labels) if held else float(counts.sum()))
        p = fitted.infer(observations, prior).posterior.probabilities
        mine = label == favoured
        measured = {"posterior_on_true": p[rows, label], "accuracy": (p.argmax(axis=1) == label).astype(float)}
        for name, values in measured.items():
            found["informative"][name][mine] = values[mine]
            found["misleading"][name][~mine] += values[~mine] / (n_labels - 1)
    total = count + n_labels - 1
    return {
        "informative": {"prior_on_true": count / total, **found["informative"]},
        "misleading": {"prior_on_true": 1 / total, **found["misleading"]},
    }


def sensitivity(context: Context) -> Measured:
    strengths = COUNTS[context.scale]

    def measure(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
        label, k, seen = context.labels(panel), len(context.names(panel)), context.observations(panel)
        data: dict[str, list[dict[str, Any]]] = {}
        for variant in VARIANTS:
            fitted = context.fitted(Spec(panel, "d-smc" if variant == HELD else variant))
            rows = data[variant] = []
            for count in strengths:
                rng = context.rng("prior-sensitivity", panel, variant, str(count))
                row: dict[str, Any] = {"count": count}
                for kind, one in under_priors(fitted, seen, label, k, count, variant == HELD).items():
                    row[kind] = {"prior_on_true": one["prior_on_true"]}
                    for name in ("posterior_on_true", "accuracy"):
                        around = mean_interval(one[name], rng, context.size.resamples)
                        row[kind][name] = {"value": float(one[name].mean()), "ci": around}
                rows.append(row)
        return data

    return each_panel(context, measure, packaged_used)


# --------------------------------------------------------------------------- the prior as a remedy

PAPER_PANEL = "oral-lesions"
PAPER_PAIR = ("oral squamous cell carcinoma", "oral mucocele")
PAPER_FEATURE = r"\b(?:indurat|tobacco|smok|cigar|alcohol|betel|areca)\w*"
N_WORDS = 5  # words of a feature found in the bank
LEAST_SHARE = 0.1  # of the true label's simulations must mention a word
DENIALS = {"no", "not", "non", "never", "without", "denies", "denied", "nor", "neither", "free", "absence"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Against which label, for whose sake, and on which feature."""

    how: str
    gold: int
    over: int
    feature: re.Pattern[str]
    said: str  # the feature in words


def mentions(text: str, feature: re.Pattern[str]) -> bool:
    """Whether the text mentions the feature at least once without a denial just before it."""
    low = text.lower()
    for found in feature.finditer(low):
        before = re.findall(r"\w+", low[max(0, found.start() - 60) : found.start()])[-3:]
        if not DENIALS & set(before):
            return True
    return False


def _of_label(bank: Bank, label: int) -> list[str]:
    return [text for text, own in zip(bank.texts, bank.label_index, strict=True) if own == label]


def telling_words(bank: Bank, gold: int, over: int, count: int = N_WORDS) -> tuple[str, ...]:
    """Words that simulations of `gold` use and those of `over` do not, by the ratio of their shares."""
    texts = [_of_label(bank, label) for label in (gold, over)]
    used = [[set(re.findall(r"\w\w+", text.lower())) for text in some] for some in texts]
    of_gold, of_over = (Counter(word for words in some for word in words) for some in used)
    n_gold, n_over = map(len, texts)
    usual = [word for word, n in of_gold.items() if n >= LEAST_SHARE * n_gold]
    ratio = {w: ((of_gold[w] + 0.5) / (n_gold + 1)) / ((of_over[w] + 0.5) / (n_over + 1)) for w in usual}
    return tuple(sorted(usual, key=lambda w: (-ratio[w], w))[:count])


def weight_against(bank: Bank, choice: Choice) -> float:
    """How the odds of the over-predicted label change with the feature: share of its own over the other's."""

    def share(label: int) -> float:
        texts = _of_label(bank, label)
        return (sum(mentions(t, choice.feature) for t in texts) + 0.5) / (len(texts) + 1)

    return share(choice.over) / share(choice.gold)


def most_confused(table: Int) -> tuple[int, int] | None:
    """(gold, answered) of the most frequent confusion; None where nothing was confused."""
    apart = np.array(table)
    np.fill_diagonal(apart, 0)
    if not apart.any():
        return None
    gold, over = np.unravel_index(int(apart.argmax()), apart.shape)
    return int(gold), int(over)


def remedied(fitted: Fitted, observations: Observations, before: Float, flagged: Int, prior: Prior) -> Float:
    """Posteriors with the weighted prior for the flagged cases and unchanged for the others."""
    after = before.copy()
    if flagged.size:
        after[flagged] = fitted.infer(observations.at(flagged), prior).posterior.probabilities
    return after


def remedy(context: Context) -> Measured:
    rows = [
        _remedy(context, panel, method, choice)
        for panel in context.panels
        for choice in _choices(context, panel)
        for method in ("m-smc", "auto")
    ]
    data = {f"{r['panel']}, {r['method']}, {r['choice']}": r for r in rows}
    return Measured(data, context.n, packaged_used(context))


def _choices(context: Context, panel: str) -> list[Choice]:
    bank, found = context.bank(Spec(panel, "m-smc")), []
    if panel == PAPER_PANEL:
        gold, over = (context.names(panel).index(name) for name in PAPER_PAIR)
        said = "induration, tobacco, alcohol or betel"
        found.append(Choice("the paper's", gold, over, re.compile(PAPER_FEATURE), said))
    seen = confusion(context.probabilities(Spec(panel, "m-smc")), context.labels(panel))
    for how, table in (("simulated", _simulated_confusion(context, panel)), ("in view", seen)):
        pair = most_confused(table)
        chosen = telling_words(bank, *pair) if pair else ()
        if pair and chosen:
            feature = re.compile(r"\b(?:" + "|".join(map(re.escape, chosen)) + r")\b")
            found.append(Choice(how, *pair, feature, ", ".join(chosen)))
    return found


def _simulated_confusion(context: Context, panel: str) -> Int:
    """Each half of the packaged bank answered by M-SMC fitted to the other half: no case of any kind."""
    total = np.zeros((len(context.names(panel)),) * 2, dtype=int)
    for own, other in (("bank_a", "bank_b"), ("bank_b", "bank_a")):
        spec, held = Spec(panel, "m-smc", bank=own), context.bank(Spec(panel, "m-smc", bank=other))
        observed = context.panel_data(spec).observe(held.texts)
        posterior = context.fitted(spec).infer(observed, context.prior(spec)).posterior
        total += confusion(posterior.probabilities, held.label_index)
    return total


def _remedy(context: Context, panel: str, method: str, choice: Choice) -> dict[str, Any]:
    spec, names, label = Spec(panel, method), context.names(panel), context.labels(panel)
    weight, observations = weight_against(context.bank(spec), choice), context.observations(panel)
    has = np.array([mentions(text, choice.feature) for text in observations.texts])
    prior = Prior.from_prevalence(names, {}, {names[choice.over]: weight})
    before = context.probabilities(spec)
    after = remedied(context.fitted(spec), observations, before, np.flatnonzero(has), prior)
    answers = [p.argmax(axis=1) for p in (before, after)]
    gain = (answers[1] == label).astype(float) - (answers[0] == label).astype(float)
    gold, over = label == choice.gold, label == choice.over
    rng = context.rng("prior-remedy", panel, method, choice.how)
    return {
        "panel": panel,
        "method": method,
        "choice": choice.how,
        "gold": names[choice.gold],
        "over_predicted": names[choice.over],
        "feature": choice.said,
        "odds_multiplier": weight,
        "mentioned_in": {
            "gold": float(has[gold].mean()) if gold.any() else None,
            "over_predicted": float(has[over].mean()) if over.any() else None,
        },
        "confusions": [int(np.sum(gold & (w == choice.over))) for w in answers],
        "n_gold": int(gold.sum()),
        "over_predicted_lost": [int(np.sum(over & (w != choice.over))) for w in answers],
        "n_over_predicted": int(over.sum()),
        "errors": [int(np.sum(w != label)) for w in answers],
        "accuracy_gain": float(gain.mean()),
        "accuracy_gain_ci": mean_interval(gain, rng, context.size.resamples),
    }
