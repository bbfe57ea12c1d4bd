"""The four asking baselines against real weights: small, weak, and still read strictly."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.baselines.interview import Asking
from simdx.classifier import Classifier

pytestmark = pytest.mark.slow

CASES = (
    "A painless, bluish, fluctuant swelling of the lower lip that came after biting it and fills again.",
    "The tongue has been smooth, red and sore for weeks; iron is low and the papillae are gone.",
)


@pytest.mark.parametrize(
    ("method", "calls"), [("logits", 3), ("elicited", 1), ("ensemble", 8), ("fidelity", 4)]
)
def test_smollm2_is_asked_and_read(method: str, calls: int) -> None:
    budget = 4 if method == "fidelity" else None
    door = Classifier("oral-lesions", method=method, simulator="smollm2", budget=budget)
    infer = door.fitted
    assert isinstance(infer, Asking)
    seen = door.observe(CASES)
    posterior, _, report, _ = infer.infer(seen, Prior.uniform(3))
    assert report["replies"] == calls * len(CASES)
    assert report["prompt_tokens"] > 0
    # Grammars hold every reply to the form asked for, and letters are among its likeliest tokens.
    assert report["readable"] == report["replies"], report["failures"]
    np.testing.assert_allclose(posterior.probabilities.sum(axis=1), 1)
