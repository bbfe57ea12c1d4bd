"""Baselines to compare with: each has the same interface as a method.

Over a bank: `centroid`, `tfidf`, `zero-shot`, `bank-logistic`. Asking a language model about the case
itself: `logits`, `elicited`, `ensemble`, `fidelity`. With labelled cases: `supervised` (a ceiling, not a
method, because a method never sees a label).
"""
