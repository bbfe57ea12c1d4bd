"""From posterior to decision: alarm, guarantees, subgroups, reasons.

`alarm` (do independent views contradict a confident answer?), `guarantees` (what labelled cases promise),
`policy` and `decision` (thresholds, review rules and utilities into accept, test or review), `tune` and
`thresholds` (where the thresholds come from, and where they are kept), `explain` (why, and what would change
the answer). `desk` puts them together for a classifier.
"""
