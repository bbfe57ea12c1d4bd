"""From posterior to decision: alarm, guarantees, reasons.

`alarm` (do independent views contradict a confident answer?), `policy` and `decision` (thresholds, review
rules, utilities and evidence for accepting into accept, likely, test or review), `tune` and `thresholds`
(where the thresholds come from, and where they are kept), `explain` (why, and what would change the answer).
`desk` puts them together for a classifier.
"""
