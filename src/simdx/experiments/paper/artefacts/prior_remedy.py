"""The prior as a remedy: weight against an over-predicted label where a stated feature is present.

The paper (appendix F) proposes it for its one systematic confusion (carcinoma read as mucocele: weigh against
mucocele where there is induration or a risk factor) and does not measure it. Here it is measured, for three
ways of choosing:

the paper's   its own pair and its own feature, stated before any of our cases was seen
simulated     pair and feature from simulated text alone: M-SMC fitted to one half of the bank and asked about
              the other gives the pair, the words of the bank the feature
in view       the pair most often confused on the labelled cases themselves; chosen with the answer in view,
              so optimistic; the feature still comes from the bank

The weight is never tuned: it is how much less often simulations of the over-predicted label mention the
feature than those of the other do. A mention counts unless one of the three words before it denies it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.baselines.tfidf import words
from simdx.experiments.paper.artefact import Finding, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import excludes, mean_interval
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.words import METHODS
from simdx.methods import Infer, Observations
from simdx.metrics import confusion
from simdx.types import Bank, Float, Int

ORDER = 345
NAME = "prior-remedy"
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


def telling_words(bank: Bank, gold: int, over: int, count: int = N_WORDS) -> tuple[str, ...]:
    """Words that simulations of `gold` use and those of `over` do not, by the ratio of their shares."""
    shares = []
    for label in (gold, over):
        texts = [t for t, own in zip(bank.texts, bank.label_index, strict=True) if own == label]
        used = Counter(word for text in texts for word in set(words(text)))
        shares.append((used, len(texts)))
    (of_gold, n_gold), (of_over, n_over) = shares
    usual = [word for word, n in of_gold.items() if n >= LEAST_SHARE * n_gold]
    ratio = {w: ((of_gold[w] + 0.5) / (n_gold + 1)) / ((of_over[w] + 0.5) / (n_over + 1)) for w in usual}
    return tuple(sorted(usual, key=lambda w: (-ratio[w], w))[:count])


def weight_against(bank: Bank, choice: Choice) -> float:
    """How the odds of the over-predicted label change with the feature: share of its own over the other's."""

    def share(label: int) -> float:
        texts = [t for t, own in zip(bank.texts, bank.label_index, strict=True) if own == label]
        return (sum(mentions(t, choice.feature) for t in texts) + 0.5) / (len(texts) + 1)

    return share(choice.over) / share(choice.gold)


def remedied(infer: Infer, observations: Observations, before: Float, flagged: Int, prior: Prior) -> Float:
    """Posteriors with the weighted prior for the flagged cases and unchanged for the others."""
    after = before.copy()
    if flagged.size:
        some = Observations(
            tuple(observations.texts[i] for i in flagged),
            observations.vectors[flagged],
            tuple(observations.keys[i] for i in flagged),
        )
        after[flagged] = infer(some, prior)[0].probabilities
    return after


def run(context: Context) -> Finding:
    rows = []
    for panel in context.panels:
        for choice in _choices(context, panel):
            for method in ("m-smc", "auto"):
                rows.append(_measure(context, panel, method, choice))
    return Finding(
        tables=(_table(rows),),
        verdicts=tuple(_verdict(row) for row in rows),
        n=context.n,
        models=("reference bank", *dict.fromkeys(context.embedder_name(Spec(p, "")) for p in context.panels)),
        data={f"{r['panel']}, {r['method']}, {r['choice']}": r for r in rows},
        notes=context.notes,
    )


# --------------------------------------------------------------------------- choosing


def _choices(context: Context, panel: str) -> list[Choice]:
    names = context.names(panel)
    bank = context.bank(Spec(panel, "m-smc"))
    found = []
    if panel == PAPER_PANEL:
        gold, over = (names.index(name) for name in PAPER_PAIR)
        said = "induration, tobacco, alcohol or betel"
        found.append(Choice("the paper's", gold, over, re.compile(PAPER_FEATURE), said))
    seen = confusion(context.probabilities(Spec(panel, "m-smc")), context.labels(panel))
    for how, table in (("simulated", _simulated_confusion(context, panel)), ("in view", seen)):
        pair = most_confused(table)
        if pair is None:
            continue
        chosen = telling_words(bank, *pair)
        if chosen:
            feature = re.compile(r"\b(?:" + "|".join(map(re.escape, chosen)) + r")\b")
            found.append(Choice(how, *pair, feature, ", ".join(chosen)))
    return found


def most_confused(table: Int) -> tuple[int, int] | None:
    """(gold, answered) of the most frequent confusion; None where nothing was confused."""
    apart = np.array(table)
    np.fill_diagonal(apart, 0)
    if not apart.any():
        return None
    gold, over = np.unravel_index(int(apart.argmax()), apart.shape)
    return int(gold), int(over)


def _simulated_confusion(context: Context, panel: str) -> Int:
    """Each half of the packaged bank answered by M-SMC fitted to the other half: no case of any kind."""
    total = np.zeros((len(context.names(panel)),) * 2, dtype=int)
    for own, other in (("bank_a", "bank_b"), ("bank_b", "bank_a")):
        spec = Spec(panel, "m-smc", bank=own)
        held = context.bank(Spec(panel, "m-smc", bank=other))
        observed = context.material(spec).observe(held.texts)
        p = context.fitted(spec)(observed, context.prior(spec))[0].probabilities
        total += confusion(p, held.label_index)
    return total


# --------------------------------------------------------------------------- measuring


def _measure(context: Context, panel: str, method: str, choice: Choice) -> dict[str, Any]:
    spec = Spec(panel, method)
    names, label = context.names(panel), context.labels(panel)
    weight = weight_against(context.bank(spec), choice)
    observations = context.observations(panel)
    has = np.array([mentions(text, choice.feature) for text in observations.texts])
    prior = Prior.from_prevalence(names, {}, {names[choice.over]: weight})
    before = context.probabilities(spec)
    after = remedied(context.fitted(spec), observations, before, np.flatnonzero(has), prior)
    was, now = before.argmax(axis=1), after.argmax(axis=1)
    gain = (now == label).astype(float) - (was == label).astype(float)
    gold, over = label == choice.gold, label == choice.over
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
        "confusions": [int(np.sum(gold & (w == choice.over))) for w in (was, now)],
        "n_gold": int(gold.sum()),
        "over_predicted_lost": [int(np.sum(over & (w != choice.over))) for w in (was, now)],
        "n_over_predicted": int(over.sum()),
        "errors": [int(np.sum(w != label)) for w in (was, now)],
        "accuracy_gain": float(gain.mean()),
        "accuracy_gain_ci": mean_interval(
            gain, context.rng(NAME, panel, method, choice.how), context.size.resamples
        ),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.0%}"

    return Table(
        "The remedy on the confusion it is meant for, on the label it weighs against, and in all",
        (
            "panel",
            "method",
            "chosen",
            "confusion (is → read as)",
            "feature (any of)",
            "mentioned by: is / read as",
            "odds of the latter × ",
            "confusions",
            "errors on the latter",
            "errors in all",
            "accuracy gain",
        ),
        tuple(
            (
                r["panel"], METHODS[r["method"]], r["choice"], f"{r['gold']} → {r['over_predicted']}",
                r["feature"],
                f"{share(r['mentioned_in']['gold'])} / {share(r['mentioned_in']['over_predicted'])}",
                number(r["odds_multiplier"], digits=2),
                f"{r['confusions'][0]} → {r['confusions'][1]} of {r['n_gold']}",
                f"{r['over_predicted_lost'][0]} → {r['over_predicted_lost'][1]} of {r['n_over_predicted']}",
                f"{r['errors'][0]} → {r['errors'][1]}",
                number(r["accuracy_gain"], r["accuracy_gain_ci"]),
            )
            for r in rows
        ),
        "Chosen “in view” uses the labelled cases to find the pair and is optimistic; the others use none. "
        "95 % bootstrap over cases, paired. The paper proposes the remedy and gives no figures.",
    )  # fmt: skip


def _verdict(row: dict[str, Any]) -> str:
    was, now = row["confusions"]
    if was == 0:
        effect = "had nothing to mend"
    elif now < was:
        effect = f"mends {was - now} of {was}"
    else:
        effect = f"mends none of {was}"
    sure = excludes(row["accuracy_gain_ci"])
    total = "all in all a gain" if row["accuracy_gain"] > 0 else "all in all a loss"
    outcome = total if sure else "no change of accuracy beyond its interval"
    return (
        f"{row['panel']}, {METHODS[row['method']]}, {row['choice']} choice: weighing against "
        f"{row['over_predicted']} × {row['odds_multiplier']:.2f} where the feature is mentioned {effect} "
        f"confusions with {row['gold']}; {outcome} "
        f"({number(row['accuracy_gain'], row['accuracy_gain_ci'])})."
    )
