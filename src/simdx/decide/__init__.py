"""From posterior to decision: alarm, guarantees, subgroups, reasons.

`alarm` (do independent views contradict a confident answer?), `evidence` (what labelled cases showed of
accepting), `policy` and `decision` (thresholds, review rules and utilities into accept, likely, test or
review), `tune` and `thresholds` (where the thresholds come from, and where they are kept), `explain` (why,
and what would change the answer). `desk` puts them together for a classifier.
"""
