"""Expert review of cases and banks: blinded forms out, scores in; means, spread, agreement, what to revise.

Each text is scored blind on two five-point scales; what gets less than 4 on either is revised and reviewed
again. Scores are stored beside the data with a hash of the text they were given for, so that a revised text
counts as unreviewed.
"""

from simdx.review.forms import SCALES, ReviewSheet, import_scores, make_review, open_review, read_scores
from simdx.review.summary import ReviewSummary, summarise
