"""The review form as one HTML file: works offline, remembers as you type, saves itself and resumes.

Answers live in the page. Every change goes to the browser's local storage; "Save" downloads this same page
with the answers inside, so that opening the saved file, here or on another machine, goes on where it stopped.
"""

from collections.abc import Sequence

from simdx.report.page import fill
from simdx.review.sheet import HIGHEST, LOWEST, SCALES


def form_page(
    review: str, reviewer: str, items: Sequence[dict[str, str | None]], choices: Sequence[str]
) -> str:
    setup = {
        "review": review, "reviewer": reviewer, "items": list(items), "choices": list(choices),
        "scales": SCALES, "low": LOWEST, "high": HIGHEST,
    }  # fmt: skip
    return fill("form.html", "simdx.review", title=f"Review {review}, {reviewer}", setup=setup)
