"""One runner, one record, one store: `evaluate` and the paper go through them.

    run(spec, data) ──► the standing record, or a new one ──► store

Two results are the same when the content of their inputs, their settings and `RECIPE_VERSION` are. Nothing
else counts: no version, no commit, no source text.
"""

from simdx.runs.record import Record, identity
from simdx.runs.runner import NotRun, Result, Spec, fail, run
from simdx.runs.store import Arrays, Progress, Store
