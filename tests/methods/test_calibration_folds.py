"""Cross-fitting of labelled cases: no case is answered by a fit to itself."""

import numpy as np
import pytest

from simdx.methods import calibration
from simdx.methods.calibration import Calibration, HeldOutScores, crossfitted
from simdx.types import Float


def scores(likelihood: Float, texts: tuple[str, ...]) -> HeldOutScores:
    n = len(texts)
    return HeldOutScores(likelihood, np.arange(n) % 2, np.zeros((n, 1)), texts=texts)


def test_equal_cases_share_a_fold_and_a_single_outside_case_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    texts = tuple(f"text {i // 2}" for i in range(20))  # each twice
    seen: list[tuple[set[str], int]] = []
    fit = calibration.fit_on

    def recorded(cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None = None) -> Calibration:
        seen.append((set(cases.texts), 0 if beyond is None else len(beyond.texts)))
        return fit(cases, base, beyond)

    monkeypatch.setattr(calibration, "fit_on", recorded)
    cases = scores(rng.normal(size=(20, 2)), texts)
    crossfitted(cases, Calibration(), scores(rng.normal(size=(1, 2)), ("other",)), rng)
    assert len(seen) == calibration.FOLDS
    for kept, _ in seen:
        assert sum(text in kept for text in texts) == 2 * len(kept)
        assert len(kept) == 8
    assert sorted(others for _, others in seen) == [0, 1, 1, 1, 1]
