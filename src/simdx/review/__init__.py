"""Expert review of cases and banks: blinded forms out, scores in; means, spread, agreement, what to revise.

The protocol: each text is scored blind on two five-point scales, completeness and correctness; whatever gets
less than 4 on either is revised and reviewed again. Scores are stored beside the data with the reviewer's
role and a hash of the text they were given for, so that a revised text counts as unreviewed.
"""

from simdx.review.forms import make_review
from simdx.review.scores import import_scores, read_scores
from simdx.review.sheet import SCALES, ReviewSheet, open_review
from simdx.review.summary import ReviewSummary, summarise
