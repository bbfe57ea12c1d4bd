"""From posterior to decision: alarm, guarantees, subgroups, reasons.

`alarm` (do independent views contradict a confident answer?), `conformal` and `risk` (guarantees from
labelled cases), `policy` and `rule` (thresholds, review rules and utilities into accept, test or review),
`tune` (where the thresholds come from), `sentences`, `evidence`, `flip` and `missing` (why, and what would
change the answer), `audit` (subgroups). `desk` puts them together for a classifier.
"""
