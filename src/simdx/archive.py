"""A user's own texts without labels: which of them to label, and how common the labels are.

A dozen labels say more about how sure answers may be than any simulated text. They say most when the texts
differ in what they are answered, so texts are drawn from strata of the scores: of none of these, and inside
each evenly over the leading probability. Rare strata have more than their share, because what is chosen by
scores alone leaves the calibration of a label given its scores as it is.

Shares of the labels and of none of these in an archive are found without any label:

none of these   the mean probability of it, corrected for what the detector misses and what it takes for
                another condition. Both rates are those of labelled cases where there are some, else those
                that other panels had: a rehearsal on simulated text did not foretell them.
labels          expectation maximisation (Saerens et al. 2002) on answers under even priors, each text weighed
                by its probability of being one of the labels at all

An interval is of resampled texts and rates, widened by what the labels' shares were off on other panels
(results/prevalence): a text that is given to the wrong label stays there in every resample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.methods.calibration_record import LEAST_AUROC
from simdx.types import NONE_OF_THESE, Case, Float, content_hash, plain

MOST = 20  # texts that are shown
NONE_EDGES = (0.1, 0.5, 0.9)  # of the strata, in the probability of none of these
LARGEST = 1_000_000  # characters of a text
MOST_TEXTS = 5_000  # that are looked at


def texts_to_ask(classifier: Classifier, texts: Sequence[str], n: int = MOST) -> list[int]:
    """Positions of the texts to show, in an order that may be left off anywhere.

    Equal texts count once, and texts of the bank are left out: their label is known.
    """
    held = {plain(text) for text in (*classifier.bank.texts, *classifier.bank.background)}
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        if (words := plain(text)) and words not in held:
            first.setdefault(words, i)
    rows = sorted(first.values(), key=lambda i: content_hash(texts[i]))[:MOST_TEXTS]
    if not rows:
        return []
    table = classifier.infer_batch([texts[i] for i in rows])
    leading = table.posterior[:, : len(classifier.panel.names)].max(axis=1)
    none = np.zeros(len(rows)) if table.out_of_class is None else table.out_of_class
    stratum = np.digitize(none, NONE_EDGES)
    waiting = {}
    for s in np.unique(stratum).tolist():
        own = np.flatnonzero(stratum == s)
        waiting[s] = _spread(own[np.argsort(leading[own], kind="stable")].tolist())
    weight = {s: len(own) ** (1 / 3) for s, own in waiting.items()}
    chosen: list[int] = []
    taken = dict.fromkeys(waiting, 0)
    while len(chosen) < min(n, len(rows)):
        s = max((s for s in waiting if waiting[s]), key=lambda s: weight[s] / (taken[s] + 0.5))
        chosen.append(rows[waiting[s].pop(0)])
        taken[s] += 1
    return chosen


def _spread(ordered: list[int]) -> list[int]:
    """The same in an order of which every beginning is spread over the whole: the middle, the quarters, …"""
    found: list[int] = []
    spans = [(0, len(ordered))]
    while spans:
        low, high = spans.pop(0)
        if low < high:
            middle = (low + high) // 2
            found.append(ordered[middle])
            spans += [(low, middle), (middle + 1, high)]
    return found


def read_texts(path: Path) -> list[str]:
    """Texts without labels: a table, or a text file with a text a line, or a paragraph each."""
    if path.suffix.lower() != ".txt":
        return read_cases(path, labelled=False).texts
    try:
        whole = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    paragraphs = [text for part in whole.split("\n\n") if (text := " ".join(part.split()))]
    lines = [text for line in whole.splitlines() if (text := line.strip())]
    if not lines:
        raise BadInput(f"{path.name} has no texts: give a text a line, or paragraphs")
    return [text[:LARGEST] for text in (paragraphs if len(paragraphs) > 1 else lines)]


def labelled_file(panel: Path) -> Path:
    """Where the labels of a panel file are kept: beside it, with their texts."""
    file = panel / "panel.yaml" if panel.is_dir() else panel
    return file.with_name("labelled.jsonl" if file.stem == "panel" else f"{file.stem}-labelled.jsonl")


def read_labelled(path: Path, names: Sequence[str]) -> dict[str, str]:
    """text -> label of those that have been given."""
    if not path.is_file() or not path.stat().st_size:
        return {}
    return {case.text: str(case.label) for case in read_cases(path, labels=(*names, NONE_OF_THESE)).cases}


def write_labelled(path: Path, labelled: Mapping[str, str]) -> None:
    """For their owner's eyes: the texts may be patients'."""
    rows = (json.dumps({"text": t, "label": label}, ensure_ascii=False) for t, label in labelled.items())
    write_atomically(path, "".join(f"{row}\n" for row in rows), mode=0o600)


# --------------------------------------------------------------------------- shares

FEWEST = 30  # texts that shares are read from
# Between the detector's mean probability outside and inside, below which nothing is corrected. This and the
# constants below were once set with the panels of results/prevalence in view.
LEAST_GAP = 0.2
FEWEST_OUTSIDE = 5  # labelled cases of none of these that can say what the detector misses
FLATTERED = 5
OFF = 0.05  # mean error of a label's share on other panels
SMALLEST = 0.001  # a share as a prior: nought would drop the label
RESAMPLES = 200
LEVEL = 0.9
EVEN = 0.1  # texts that count evenly, as a share of all
STEPS, SETTLED = 500, 1e-6  # of expectation maximisation


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """The detector's mean probability of none of these, for texts inside the panel and outside it."""

    inside: Float  # of labelled cases, or of each other panel
    outside: Float
    labelled: bool

    @property
    def middle(self) -> tuple[float, float]:
        return float(self.inside.mean()), self._held(self.outside)

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Rates that might have been: of cases drawn again, or of one more panel like the others."""
        if not self.labelled:
            inside, outside = (_one_more(rates, rng) for rates in (self.inside, self.outside))
            return inside, max(outside, inside + LEAST_GAP)
        own, others = (rng.choice(p, len(p)) for p in (self.inside, self.outside))
        return float(own.mean()), self._held(others)

    def _held(self, outside: Float) -> float:
        # The same cases calibrated the detector, which flatters it: some more count as half found.
        more = FLATTERED if self.labelled else 0
        return float((outside.sum() + more / 2) / (len(outside) + more))


def _one_more(rates: Float, rng: np.random.Generator) -> float:
    """A rate from the predictive distribution of rates whose log odds are normal."""
    from scipy.special import expit, logit  # slow to import, and the service asks for texts alone

    odds, n = logit(rates), len(rates)
    spread = odds.std(ddof=1) * np.sqrt(1 + 1 / n)
    return float(expit(odds.mean() + spread * rng.standard_t(n - 1)))


# Inside and outside on panels that had labelled cases (results/prevalence).
MEASURED = {
    "airways": (0.059, 0.557), "clauses10": (0.024, 0.403), "clinc10": (0.048, 0.636),
    "injuries": (0.040, 0.436), "reports8": (0.007, 0.273),
}  # fmt: skip


def transferred(panel: str) -> Rates:
    """The rates of the other panels."""
    inside, outside = np.array([pair for name, pair in MEASURED.items() if name != panel]).T
    return Rates(inside, outside, labelled=False)


def prevalence(
    classifier: Classifier, texts: Sequence[str], cases: Sequence[Case] = (), seed: int = 0
) -> dict[str, Any]:
    """Shares in these texts: of each label among the labels, and of none of these or why there is none.

    `cases` are labelled ones that the classifier was calibrated on.
    """
    if len(texts) < FEWEST:
        raise BadInput(f"shares need at least {FEWEST} texts; there are {len(texts)}")
    names = classifier.panel.names
    table = classifier.infer_batch(list(texts))
    rates, refused, basis = rates_of(classifier, cases)
    none = table.out_of_class if refused is None else None
    found, intervals = estimated(table.among_labels, none, rates, np.random.default_rng(seed))
    shares = [
        {"share": v, "interval": around} for v, around in zip(found.tolist(), intervals.tolist(), strict=True)
    ]
    of_none = None if none is None else round(float(np.clip(found[-1], SMALLEST, 0.95)), 4)
    return {
        "panel": classifier.panel.name,
        "n": len(texts),
        "labels": dict(zip(names, shares, strict=False)),
        "none_of_these": None if none is None else shares[-1],
        "refused": refused,
        "basis": basis,
        "prior": [f"{n}={p:g}" for n, p in zip(names, as_prior(found[: len(names)]), strict=True)],
        "none_prior": of_none,
    }


def as_prior(shares: Float) -> list[float]:
    """Shares of the labels as `--prior` takes them: four digits, none nought, together one."""
    values = np.maximum(shares, SMALLEST)
    exact = values / values.sum() * 10_000
    units = np.floor(exact).astype(int)
    units[np.argsort(units - exact)[: 10_000 - units.sum()]] += 1
    return (units / 10_000).tolist()


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    def shown(name: str, share: Mapping[str, Any]) -> str:
        low, high = share["interval"]
        return f"  {name:40} {share['share']:6.1%}  ({low:.1%} to {high:.1%})"

    yield f"{found['panel']}, {found['n']} texts; {found['basis']}"
    for name, share in sorted(found["labels"].items(), key=lambda pair: -pair[1]["share"]):
        yield shown(name, share)
    if found["none_of_these"] is None:
        yield f"  no share of {NONE_OF_THESE}: {found['refused']}"
    else:
        yield f"{shown(NONE_OF_THESE, found['none_of_these'])} of all texts"
    said = " ".join(f"--prior '{one}'" for one in found["prior"])
    none = found["none_prior"]
    yield f"  as priors: {said}" + ("" if none is None else f" --none-prior {none:g}")


def rates_of(classifier: Classifier, cases: Sequence[Case]) -> tuple[Rates | None, str | None, str]:
    """The detector's rates, or why they cannot be used; and what all of it rests on."""
    found = classifier.fitted.calibration
    basis = "the calibration of this method was never measured" if found is None else found.sentence()
    if not classifier.fitted.none_of_these or found is None:
        return None, "the panel has no background, so it cannot be estimated", basis
    if found.auroc is not None and found.auroc < LEAST_AUROC:
        return None, f"background texts are poorly recognised (AUROC {found.auroc:.2f})", basis
    others = [case.text for case in cases if case.label == NONE_OF_THESE]
    if len(cases) and len(others) < FEWEST_OUTSIDE:  # other panels' rates are not of a detector they moved
        return None, f"the labelled cases hold fewer than {FEWEST_OUTSIDE} of none of these", basis
    rates, by = transferred(classifier.panel.name), "the detector's rates are those of other panels"
    if len(others) >= FEWEST_OUTSIDE:
        own = [case.text for case in cases if case.label != NONE_OF_THESE]
        inside, outside = (classifier.infer_batch(some).out_of_class for some in (own, others))
        assert inside is not None  # it weighs none of these
        assert outside is not None
        rates, by = Rates(inside, outside, labelled=True), f"the detector's rates of {len(cases)} cases"
    inside_rate, outside_rate = rates.middle
    if outside_rate - inside_rate < LEAST_GAP:
        gap = f"{outside_rate:.2f} outside and {inside_rate:.2f} inside"
        return None, f"the scores do not separate (mean probability {gap})", basis
    return rates, None, f"{basis}; {by}"


def estimated(
    posterior: Float, none: Float | None, rates: Rates | None, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Shares of the labels, then of none of these where it is given; and (…, 2) intervals."""
    found = shares(posterior, none, None if rates is None else rates.middle)
    n, draws = len(posterior), []
    for _ in range(RESAMPLES):
        rows, drawn = rng.integers(0, n, n), None if rates is None else rates.draw(rng)
        draws.append(shares(posterior[rows], None if none is None else none[rows], drawn))
    low, high = np.quantile(np.stack(draws), ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)
    wider = np.where(np.arange(len(found)) < posterior.shape[1], OFF, 0.0)
    return found, np.clip(np.stack([low - wider, high + wider], axis=1), 0.0, 1.0)


def shares(posterior: Float, none: Float | None, rates: tuple[float, float] | None) -> Float:
    if none is None or rates is None:
        return label_shares(posterior, np.ones(len(posterior)))
    outside = outside_share(none, *rates)
    return np.append(label_shares(posterior, 1 - moved_to(none, outside)), outside)


def outside_share(none: Float, inside: float, outside: float) -> float:
    """The share at which a detector with these rates has this mean."""
    return float(np.clip((none.mean() - inside) / (outside - inside), 0.0, 1.0))


def moved_to(none: Float, share: float) -> Float:
    """The probabilities, their log odds all moved alike, with this mean."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    if not 0 < share < 1:
        return np.full(len(none), float(share))
    odds = logit(np.clip(none, 1e-9, 1 - 1e-9))
    move = brentq(lambda m: float(expit(odds + m).mean()) - share, -60.0, 60.0)
    return expit(odds + move)


def label_shares(posterior: Float, weight: Float) -> Float:
    """Shares under which the answers, made under even priors, expect themselves.

    Answers that tell labels badly would let a share run away to nought or one: some texts count evenly.
    """
    even = np.full(posterior.shape[1], 1 / posterior.shape[1])
    total = weight.sum()
    if total <= 0:  # no text is of any label: nothing is known of their shares
        return even
    found = weight @ posterior / total
    for _ in range(STEPS):
        moved = posterior * found
        moved /= np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
        before, found = found, (weight @ moved / total + EVEN * even) / (1 + EVEN)
        if np.abs(found - before).max() < SETTLED:
            break
    return found / found.sum()
