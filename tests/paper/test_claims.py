"""Verdicts: every rule passes on the paper's own figures, and each of the four words can be reached."""

import pytest

from paper.artefacts import read_artefacts
from paper.claims import AGREES, CLAIMS, DISAGREES, OPEN, UNTESTED, Claim, Gap, on_their_figures, verdicts
from paper.claims import _widened as widened
from tests.conftest import ROOT

PRINTED = [claim for claim in CLAIMS if list(claim.theirs())]


@pytest.mark.parametrize("claim", PRINTED, ids=lambda claim: f"{claim.place}: {claim.says}")
def test_the_paper_s_own_figures_agree(claim: Claim) -> None:
    assert on_their_figures(claim) == AGREES


def test_all_but_two_claims_rest_on_printed_figures() -> None:
    assert {claim.place for claim in CLAIMS} - {claim.place for claim in PRINTED} == {"Algorithm 1", "§5"}


def _decided(monkeypatch: pytest.MonkeyPatch, *claims: Claim) -> list[str]:
    monkeypatch.setattr("paper.claims.CLAIMS", claims)
    return [one.verdict for one in verdicts({})]


def _claim(*gaps: Gap, need: str = "every", place: str = "T", **more: str) -> Claim:
    return Claim(place, "", "", need, lambda _: gaps, lambda: gaps, **more)  # type: ignore[arg-type]


def test_a_verdict_needs_sure_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    yes, no, open_ = Gap("a", 0.1, 0.05, 0.15), Gap("b", -0.1, -0.15, -0.05), Gap("c", 0.1, -0.1, 0.3)
    every = (), (yes,), (yes, open_), (yes, no)
    found = _decided(monkeypatch, *(_claim(*gaps, place=f"{i}") for i, gaps in enumerate(every)))
    assert found == [UNTESTED, AGREES, OPEN, DISAGREES]
    most = [_claim(yes, yes, no, need="most", place="1"), _claim(yes, no, open_, need="most", place="2")]
    assert _decided(monkeypatch, *most) == [AGREES, OPEN]
    assert _decided(monkeypatch, _claim(yes, flaw="No sample.")) == [OPEN]


def test_the_draw_of_a_bank_widens_in_quadrature() -> None:
    wide = widened(Gap("a", 0.1, 0.07, 0.13), 0.04 / 1.96)
    assert wide.low == pytest.approx(0.05)
    assert wide.high == pytest.approx(0.15)
    assert widened(Gap("a", 0.1), 1.0) == Gap("a", 0.1)


def test_holm_is_counted_within_a_table_and_not_across(monkeypatch: pytest.MonkeyPatch) -> None:
    barely = [Gap(f"{i}", 0.1, 0.005, 0.195) for i in range(5)]  # each p is .04
    assert _decided(monkeypatch, _claim(*barely, place="one table")) == [OPEN]
    assert set(_decided(monkeypatch, *(_claim(gap, place=gap.what) for gap in barely))) == {AGREES}


def test_a_record_that_lacks_something_decides_nothing() -> None:
    assert {one.verdict for one in verdicts({})} == {UNTESTED}
    assert {one.verdict for one in verdicts({"main-results": {"oral-lesions": {}}})} == {UNTESTED}


def test_the_committed_records_decide_every_claim_that_has_no_flaw() -> None:
    data = {r.name: r["finding"]["data"] for r in read_artefacts(ROOT / "results" / "paper") if r.done}
    undecided = {v.claim.place for v in verdicts(data) if v.verdict == UNTESTED}
    assert undecided == {v.claim.place for v in verdicts(data) if v.claim.flaw and not v.gaps}
    found = {v.claim.says: v.verdict for v in verdicts(data)}
    # What the audit of the earlier rules found.
    assert found["M-SMC is more stable over models than ML"] == OPEN
    assert found["ABI is about twice as concentrated as D-SMC"] == DISAGREES
    assert found["rounding the weights to four bits does not hurt M-SMC"] == OPEN
    assert found["ABI answers four orders of magnitude faster than D-SMC with its language model"] == AGREES
