"""How a panel reads denied findings: chosen by its own simulated texts.

On chest films "no effusion" must not count for effusion; in a contract "not exclusive" is what the clause is
about, and a cardiologist's note that denies chest pain is a cardiologist's note all the same. The bank
knows: its texts, left out in turn, are told apart by the lexical regression under each way of reading
(`simdx.reading.as_read`). Denied findings, and what is called normal, are left out (`found`), or denials
become words of their own (`denied`), where that makes the log loss smaller by CLEAR standard errors; they
count like any word where that makes it larger by as much. Where the bank cannot tell, only texts that are
mostly denials are cut (`light`). A bank that denies nothing does not say what a denial is worth: only texts
that say much of what is not there are read without it (`heavy`).

The rule was set with the labelled panels of results/reading in view.
"""

import numpy as np

from simdx.methods.features import LexicalSpace, Lexicon
from simdx.methods.logistic import PENALTY, fit_logistic, shuffled_folds
from simdx.reading import DENIED, FOUND, HEAVY, LIGHT, PLAIN, as_read
from simdx.types import Bank, Float, Int

CLEAR = 2.0  # standard errors of the mean difference in log loss
LEAST_DENYING = 0.05  # of the bank's texts deny something, or it denies nothing
MOST = 300  # texts; a larger bank chooses by an even part of it
FOLDS = 5


def choose_reading(bank: Bank) -> str:
    rows = np.arange(len(bank.texts))[:: max(1, -(-len(bank.texts) // MOST))]
    texts, label = [bank.texts[i] for i in rows], bank.label_index[rows]
    denying = sum(bool(as_read(text, DENIED)[1]) for text in texts)
    counts = np.bincount(label, minlength=len(bank.labels))
    if denying < LEAST_DENYING * len(texts):
        return HEAVY
    if counts.min() < 2 or len(bank.labels) < 2:
        return LIGHT
    fold = shuffled_folds(label, FOLDS, seed=0)
    plain = _losses(texts, label, fold, PLAIN)
    gains = {way: plain - _losses(texts, label, fold, way) for way in (FOUND, DENIED)}
    best = max(gains, key=lambda way: float(gains[way].mean()))
    gain, error = gains[best].mean(), gains[best].std() / np.sqrt(len(texts))
    return best if gain > CLEAR * error else PLAIN if gain < -CLEAR * error else LIGHT


def _losses(texts: list[str], label: Int, fold: Int, way: str) -> Float:
    """(n,) of each text under a regression that does not hold it."""
    out = np.zeros(len(texts))
    n_labels = int(label.max()) + 1
    for f in range(FOLDS):
        held, kept = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        if not held.size or len(np.unique(label[kept])) < n_labels:
            continue
        own = [texts[i] for i in kept]
        space = LexicalSpace(Lexicon.of(own, reading=way), own)
        model = fit_logistic(space.bank, label[kept], n_labels, PENALTY)
        seen = space.basis.cosines([texts[i] for i in held]) @ space.project
        out[held] = -model.log_probabilities(seen)[np.arange(len(held)), label[held]]
    return out
