"""Records to files: self-contained, escaped, honest about what is missing, as committed."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from paper import posteriors, report
from paper.artefacts import Artefact, read_artefacts
from paper.context import Measured
from paper.figures import dots
from paper.theirs import quotes
from simdx.runs import Record
from tests.conftest import ROOT

COMMITTED = ROOT / "results" / "paper"
HOSTILE = "<img src=x onerror=alert(1)>"
TOY = Artefact(
    "toy", f"Title {HOSTILE}", lambda _: Measured({}, {}), lambda d: {"T": pd.DataFrame([{"a": d["x"]}])},
    lambda d: {"c": dots(d["x"], [(d["x"], 0.5, (0.4, 0.6), quotes("main-results")[0])])},
)  # fmt: skip


def _record(name: str, status: str = "done") -> Record:
    config = {"scale": "smoke", "seed": 0, "skipped": {"sd": "not at hand"}}
    found = {"n": {"oral": 3}, "models": ["m"], "notes": [HOSTILE], "data": {"x": HOSTILE}}
    done = status == "done"
    return Record(
        name, status, {"config": config} | ({"finding": found} if done else {}), "paper",
        None if done else "no pair of weights", versions={"commit": "abc"}, cost={"seconds": 1.0},
    )  # fmt: skip


def test_the_page_is_escaped_and_asks_nothing_of_anyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_BY_NAME", {"toy": TOY, "missing": TOY._replace(name="missing")})
    records = [_record("toy"), _record("missing", "not run")]
    report.write(records, tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:)?//", page)
    assert "not run: no pair of weights" in page
    assert "left out: not at hand" in page
    assert page.count("<svg") == 1
    assert (tmp_path / "tables" / "toy-1.csv").read_text("utf-8").startswith("# T\na\n")
    assert '"verdict": "not testable here"' in (tmp_path / "claims.json").read_text("utf-8")


def test_a_panel_of_its_own_stands_beside_the_grid_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        "primary": {"significance": {"oral-lesions": 1}},
        "case-reports/primary": {"significance": {"case-reports": 2}, "error-detection": {"case-reports": 3}},
    }
    for name in found:
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(report, "read_artefacts", lambda folder: folder.relative_to(tmp_path).as_posix())
    monkeypatch.setattr(report, "figures_of", lambda name: found.get(name, {}))
    monkeypatch.setattr(report, "on_the_grid", lambda data: data)
    assert report.grid(tmp_path) == {
        "primary": found["primary"],
        "primary, with case reports": {
            "significance": {"oral-lesions": 1, "case-reports": 2}, "error-detection": {"case-reports": 3},
        },
    }  # fmt: skip


def test_least_and_most_over_banks_are_counted_by_hand() -> None:
    def network(alpha0: float, gap: float, arm: float) -> dict[str, Any]:
        one = {"alpha0": alpha0, "agreement": 0.5, "agreement_outside": 1.0}
        less = {"difference": gap, "ci": [gap - arm, gap + arm]}
        return one | {"minus_coordinates": {"accuracy": less, "brier": less}}

    def bank(*whole: Any) -> dict[str, Any]:
        names = (posteriors.PAPERS_NETWORK, posteriors.ON_THE_BANK)
        return {name: network(2000, 0, 0) for name in names} | {
            f"{name}, whole embedding": network(*whole) for name in names
        }

    found = {"a": {"x": bank(10, -0.02, 0.01), "y": bank(30, 0.1, 0.01)}, "b": {"x": bank(20, 0.1, 0.2)}}
    said = report.least_and_most(found)
    assert said["banks"] == 3
    assert said["papers"]["alpha0"] == "10 to 30"
    assert said["papers"]["beside"]["alpha0"] == "2,000 to 2,000"
    assert said["on_the_bank"]["accuracy"] == {"gap": "−.020 to +.100", "up": 1, "down": 1}
    assert said["papers"]["agreement_outside"] == "1.00 to 1.00"


def test_results_md_is_what_the_committed_records_say() -> None:
    records = read_artefacts(COMMITTED)
    grids = report.grid(ROOT / "results" / "grid")
    whole = report.whole_embeddings(ROOT / "results" / "grid")
    wanted = report.markdown(records, "pictures/results.svg", Path("results/paper"), grids, whole)
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == wanted, (
        "out of date: run 'python -m paper report results/paper --markdown docs/results.md'"
    )
    assert len(written.split()) <= 4000
    table = (ROOT / "results" / "grid" / "whole-embedding.csv").read_text("utf-8")
    assert table == report.whole_embeddings_csv(whole)
    assert (ROOT / "results" / "grid" / "verdicts.md").read_text("utf-8") == report.grid_markdown(grids)
    comparisons = (ROOT / "results" / "grid" / "comparisons.csv").read_text("utf-8")
    assert comparisons == report.comparisons_csv(ROOT / "results" / "grid")
    assert (COMMITTED / "claims.csv").read_text("utf-8") == report.claims_csv(records)
