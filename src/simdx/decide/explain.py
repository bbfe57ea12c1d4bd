"""Why an answer is what it is.

evidence          the simulated descriptions with most weight, for the leading label and its competitors
sentences         the leading outcome's probability with each part of the case left out in turn: a positive
                  effect is support, a negative one evidence against. A long case is cut into at most
                  `MOST_PARTS` runs of sentences, so that a case report costs no more than a dozen answers
flip              the prior that would change the answer; only the leading label's prior is changed
pairs             sentences of the case and of a simulation that share words typical of a label; words that
                  every label's texts use, such as function words, make no pair
missing finding   the finding that would reduce uncertainty most if it were known. Findings are clauses of the
                  bank that are typical of a label still possible and are not in the case. The nearest clause
                  of each label is used as the reply, and the finding of least expected entropy is returned.
                  This needs some hundred answers
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simdx.answer import Evidence, MissingFinding, SentenceEffect, SentencePair
from simdx.methods.fitted import EvidenceWeights
from simdx.reading import CUT, as_read, split_sentences, stems
from simdx.types import Bank, Float, Int, entropy_bits

# --------------------------------------------------------------------------- evidence

LEADING = 3  # descriptions of the leading label
RIVALS = 1  # descriptions of every label that competes with it
COMPETES = 0.1  # a label with this probability competes; the second label is always shown
MOST_LABELS = 3  # labels with evidence: the leading one and two competitors


def evidence_of(
    weights: EvidenceWeights, posterior: Float, names: Sequence[str], texts: Sequence[str]
) -> list[tuple[Evidence, ...]]:
    """For each answer (N, K) the simulations with most weight, or the nearest ones without a kernel.

    They are the highest-ranked simulations of each leading label in turn.
    """
    distance, share = weights.distance, weights.share
    # distance orders simulations of equal share (all zero, or under a hard tolerance)
    rank = distance if share is None else 1e-9 * distance - share
    leading = np.argsort(-posterior, axis=1, kind="stable")[:, :MOST_LABELS]
    mass = np.take_along_axis(posterior, leading, axis=1)
    shown = mass >= COMPETES
    shown[:, :2] = mass[:, :2] > 0  # a label that the prior excludes is no competitor
    out: list[list[Evidence]] = [[] for _ in posterior]
    for case, place in np.argwhere(shown).tolist():
        label = int(leading[case, place])
        rows = np.flatnonzero(weights.label_index == label)
        best = np.argsort(rank[case, rows], kind="stable")[: LEADING if place == 0 else RIVALS]
        out[case] += [
            Evidence(
                label=names[label], text=texts[int(weights.rows[row])], distance=float(distance[case, row]),
                share=None if share is None else float(share[case, row]),
            )
            for row in rows[best].tolist()
        ]  # fmt: skip
    return [tuple(one) for one in out]


# --------------------------------------------------------------------------- sentences

MOST_PARTS = 12  # answers that an explanation may need


def runs_of_sentences(text: str, most: int = MOST_PARTS) -> list[str]:
    """At most `most` runs of whole consecutive sentences, as equal in length as they allow."""
    sentences = split_sentences(text)
    if len(sentences) <= most:
        return sentences
    length = np.array([len(sentence) for sentence in sentences])
    middle = np.cumsum(length) - length / 2
    run = (middle / length.sum() * most).astype(int)  # a sentence belongs to the run that holds its middle
    return [" ".join(sentences[i] for i in np.flatnonzero(run == k)) for k in np.unique(run)]


def sentence_effects(
    texts: Sequence[str], posterior: Float, prior: Float, answer: Callable[[list[str], list[str]], Float]
) -> list[tuple[SentenceEffect, ...]]:
    """Effects on each text's leading outcome, strongest first.

    `answer(shortened, whole)` returns the posteriors of all shortened texts. If a case has only one part, its
    answer is compared with the prior, the answer to an empty text; none of these has no such prior.
    """
    parts = [runs_of_sentences(text) for text in texts]
    owner = np.array([i for i, own in enumerate(parts) for _ in own if len(own) > 1], dtype=int)
    shortened = [" ".join(own[:j] + own[j + 1 :]) for own in parts if len(own) > 1 for j in range(len(own))]
    rest = answer(shortened, [texts[i] for i in owner]) if shortened else posterior[:0]
    out = []
    for i, (own, lead) in enumerate(zip(parts, posterior.argmax(axis=1).tolist(), strict=True)):
        without = rest[owner == i, lead] if len(own) > 1 else prior[lead : lead + 1]
        effects = [
            SentenceEffect(text=part, effect=float(posterior[i, lead] - p))
            for part, p in zip(own, without, strict=False)
        ]
        out.append(tuple(sorted(effects, key=lambda e: -abs(e.effect))))
    return out


# --------------------------------------------------------------------------- flip

FAR = 40.0  # log odds beyond which a prior counts as certain
POINTS, HALVINGS = 10, 12  # scanned and bisected if the method itself must answer


def exact_flip(
    among_labels: Float, out_of_class: float, prior: Float, leading: int
) -> tuple[int, float] | None:
    """(outcome, prior): below that prior of the leading label, with the others in proportion, the answer is
    that outcome; None if no other is possible. For a posterior proportional to prior times likelihood.

    Outcome K is none of these; its probability does not depend on the priors of the possible labels.
    """
    rest = prior.sum() - prior[leading]
    if rest <= 0 or prior[leading] <= 0:
        return None
    # For each other label: the prior odds of the leading label at which the two are equally likely.
    level = np.where(prior > 0, among_labels, 0.0) / rest / (among_labels[leading] / prior[leading])
    level[leading] = 0.0
    least = out_of_class / (1 - out_of_class)  # of the labels' mass, for the leading one to lead
    level = np.append(level, level.sum() * least / (1 - least) if least < 1 else 0.0)
    first = int(level.argmax())
    return (first, float(level[first] / (1 + level[first]))) if level[first] > math.exp(-FAR) else None


def searched_flip(prior: Float, leading: int, answer: Callable[[Float], Float]) -> tuple[int, float] | None:
    """The same for any method; `answer(prior)` is the posterior under another prior.

    With a hard tolerance the label can lead again at a smaller prior, so smaller priors are scanned before
    the crossing is bisected; the scan is finest near the present prior.
    """
    others = np.where(np.arange(len(prior)) == leading, 0.0, prior)
    if others.sum() <= 0 or prior[leading] <= 0:
        return None

    def winner(log_odds: float) -> int:
        moved = others / others.sum() * (1 - _share(log_odds))
        moved[leading] = _share(log_odds)
        return int(answer(moved).argmax())

    high = low = now = math.log(prior[leading]) - math.log(others.sum())
    for step in np.geomspace(0.02, FAR + max(now, 0.0), POINTS).tolist():
        low = now - step
        if winner(low) != leading:
            break
        high = low
    else:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if winner(middle) == leading else (middle, high)
    return winner(low), _share(high)


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


# --------------------------------------------------------------------------- words typical of a label

LEAST_Z = 2.5  # standard errors by which a typical word is more frequent in a label's texts than in all
LEAST_BITS = 1.0  # two sentences must share this to be a pair
LEAST_OVERLAP = 0.25  # of their typical words, as a cosine


@dataclass(frozen=True, slots=True)
class Telling:
    """Words typical of a label: word -> (label, log2 ratio of its frequency in that label's texts to all)."""

    words: Mapping[str, tuple[int, float]]

    @classmethod
    def of(cls, bank: Bank) -> Telling:
        size = np.bincount(bank.label_index, minlength=len(bank.labels))
        seen: dict[str, Float] = {}
        for text, label in zip(bank.texts, bank.label_index.tolist(), strict=True):
            for word in stems(text):
                seen.setdefault(word, np.zeros(len(size)))[label] += 1
        names, count = list(seen), np.array(list(seen.values())).reshape(len(seen), len(size))
        share = count.sum(axis=1, keepdims=True) / max(len(bank.texts), 1)
        spread = np.sqrt(np.maximum(size * share * (1 - share), 1e-12))
        z = np.where(share < 1, (count - size * share) / spread, 0.0)
        best = z.argmax(axis=1) if names else np.zeros(0, int)
        return cls(
            {
                names[i]: (int(k), float(np.log2(count[i, k] / size[k] / share[i, 0])))
                for i, k in enumerate(best)
                if z[i, k] >= LEAST_Z
            }
        )

    def bits(self, words: Iterable[str]) -> float:
        return sum(self.words[w][1] for w in words if w in self.words)

    def bits_for(self, label: int, words: Iterable[str]) -> float:
        """Bits for the label minus bits for other labels."""
        return sum(b if k == label else -b for k, b in (self.words[w] for w in words if w in self.words))


def paired(case: Sequence[str], texts: Sequence[str], telling: Telling) -> list[SentencePair]:
    """For each sentence of the case, its partner in each text that has one."""
    out = []
    for t, text in enumerate(texts):
        theirs = [(s, stems(as_read(s, CUT)[0])) for s in split_sentences(text)]
        for mine in case:
            words = stems(as_read(mine, CUT)[0])  # a denied finding supports nothing
            found = max(theirs, key=lambda one: telling.bits(words & one[1]), default=None)
            if found is None:
                continue
            shared = {w for w in words & found[1] if w in telling.words}
            needed = LEAST_OVERLAP * math.sqrt(telling.bits(words) * telling.bits(found[1]))
            if telling.bits(shared) >= max(LEAST_BITS, needed):
                both = tuple(sorted(shared))
                out.append(SentencePair(case=mine, evidence=t, sentence=found[0], words=both))
    return out


# --------------------------------------------------------------------------- missing finding

PER_LABEL = 2  # replies per label and finding; each reply needs an answer
LEAST_MASS = 0.02  # labels below it are not worth asking about
CANDIDATES = 8  # findings weighed for each label
_CLAUSE = re.compile(r"[,;:()]\s+|\s+(?:but|while|although|whereas)\s+")
_LENGTHS = range(3, 12)  # words of a clause that names a finding and little else


@dataclass(frozen=True, slots=True)
class Clauses:
    """The bank's clauses that may be findings, embedded, with the label of each."""

    texts: tuple[str, ...]
    label_index: Int
    vectors: Float

    @classmethod
    def of(cls, bank: Bank, telling: Telling, embed: Callable[[Sequence[str]], Float]) -> Clauses:
        """Clauses with a word typical of a label and without a number (an age or a date is no finding)."""
        found: dict[tuple[str, int], None] = {}
        for text, label in zip(bank.texts, bank.label_index.tolist(), strict=True):
            for sentence in split_sentences(text):
                for clause in _CLAUSE.split(sentence):
                    clause = clause.strip(" .,;:!?\"'")
                    plain = len(clause.split()) in _LENGTHS and not any(c.isdigit() for c in clause)
                    if plain and telling.bits(stems(clause)) > 0:
                        found[clause, label] = None
        texts = tuple(clause for clause, _ in found)
        return cls(texts, np.array([label for _, label in found], dtype=int), embed(texts))

    def open_findings(self, text: str, labels: Sequence[int], telling: Telling) -> list[int]:
        """Rows to ask about: the most typical of each label, all different, none already in the text."""
        said, out = stems(text), []
        words = [{w for w in stems(clause) if w in telling.words} for clause in self.texts]
        for label in labels:
            rows = [int(i) for i in np.flatnonzero(self.label_index == label)]
            rows.sort(
                key=lambda i: -telling.bits_for(label, words[i]) / math.sqrt(len(self.texts[i].split()))
            )
            chosen: list[int] = []
            for i in rows:
                known = len(words[i] & said) >= len(words[i]) / 2
                alike = any(len(words[i] & words[j]) >= min(len(words[i]), len(words[j])) / 2 for j in chosen)
                if telling.bits_for(label, words[i]) <= 0 or len(chosen) == CANDIDATES:
                    break
                if not known and not alike:
                    chosen.append(i)
            out += chosen
        return out


def missing_finding(
    text: str,
    posterior: Float,
    names: Sequence[str],
    clauses: Clauses,
    telling: Telling,
    answer: Callable[[list[str]], Float],
) -> MissingFinding | None:
    """The finding of least expected entropy; None when none is expected to lower it."""
    labels = [int(k) for k in np.flatnonzero(posterior[: len(names)] >= LEAST_MASS)]
    topics = clauses.open_findings(text, labels, telling) if len(clauses.texts) else []
    if not topics:
        return None
    tried = []
    for t, row in enumerate(topics):
        for k in labels:
            own = np.flatnonzero(clauses.label_index == k)
            nearest = own[np.argsort(-(clauses.vectors[own] @ clauses.vectors[row]), kind="stable")]
            said = [clauses.texts[i] for i in nearest[:PER_LABEL]]
            share = float(posterior[k]) / len(said) if said else 0.0
            tried += [(f"{text} {clause[0].upper()}{clause[1:]}.", share, t) for clause in said]
    bits = entropy_bits(answer([variant for variant, _, _ in tried]))
    w, owner = np.array([share for _, share, _ in tried]), [t for _, _, t in tried]
    total = np.bincount(owner, weights=w, minlength=len(topics))
    expected = np.bincount(owner, weights=w * bits, minlength=len(topics)) / np.maximum(total, 1e-12)
    best = int(expected.argmin())
    now = float(entropy_bits(posterior))
    if expected[best] >= now:
        return None
    row = topics[best]
    return MissingFinding(
        finding=clauses.texts[row], speaks_for=names[int(clauses.label_index[row])],
        entropy_bits=now, expected_bits=float(expected[best]),
    )  # fmt: skip
