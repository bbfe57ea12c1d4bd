"""Records to a page: self-contained, ordered, honest about what is missing."""

import re
from dataclasses import replace

import pytest

from paper import report
from paper.report import paper_markdown, render_paper
from paper.runner import read_artefacts
from paper.spec import Artefact, Column, Drawing, Measured, Table
from simdx.runs import Record
from tests.conftest import ROOT

SPEC = Artefact(
    title="",
    order=1,
    measure=lambda context: Measured({}, {}),
    tables=(
        Table("T", lambda b: [b.d], (Column("a", lambda d: d["x"]), Column("b", lambda d: "0.5 [0.4, 0.6]"))),
    ),
    drawings=(Drawing(lambda b: "<svg></svg>", "c"),),
    claims=lambda b: ["It <holds>."],
)


def _record(name: str, status: str = "done") -> Record:
    config = {"scale": "smoke", "seed": 0, "banks": {"oral": ["reference"]}, "skipped": {"sd": "not at hand"}}
    found = {"n": {"oral": 3}, "models": ["m"], "notes": ["Left out."], "data": {"oral": {"x": "x|y"}}}
    done = status == "done"
    versions = {"simdx": "0.1.0", "commit": "abc"}
    return Record(
        name, status, {"config": config} | ({"finding": found} if done else {}), "paper",
        None if done else "no pair of weights", versions=versions, cost={"seconds": 1.0},
    )  # fmt: skip


RECORDS = [_record("second"), _record("first"), _record("third", "not run")]


@pytest.fixture(autouse=True)
def _toy_specs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "committed" not in request.node.name:
        names = ("first", "second", "third")
        toys = {n: replace(SPEC, title=f"Title {n}", order=i, name=n) for i, n in enumerate(names)}
        monkeypatch.setattr(report, "artefact_list", lambda: toys)


def test_the_page_shows_every_artefact_in_order_escaped_and_asks_nothing_of_anyone() -> None:
    page = render_paper(RECORDS)
    assert "<script" not in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:)?//", page)
    assert "@import" not in page
    assert "url(" not in page
    places = [page.index(f"<h2>Title {name}</h2>") for name in ("first", "second", "third")]
    assert places == sorted(places)
    assert "It &lt;holds&gt;." in page
    assert "<svg></svg>" in page
    assert "Not run: no pair of weights" in page
    assert "0.5 [0.4,\u00a00.6]" in page
    assert "left out: not at hand" in page


def test_markdown_has_tables_and_says_where_it_comes_from() -> None:
    text = paper_markdown(RECORDS, "results/paper", "python -m paper report results/paper")
    assert "Written by `python -m paper report results/paper` from the records in `results/paper`" in text
    assert "| x\\|y | 0.5 [0.4, 0.6] |" in text
    assert text.index("## Title first") < text.index("## Title second")
    assert "2 of 3 artefacts done; not: third (not run)" in text


def test_a_report_does_not_depend_on_the_order_of_records() -> None:
    assert paper_markdown(RECORDS, "a", "b") == paper_markdown(RECORDS[::-1], "a", "b")
    assert render_paper(RECORDS) == render_paper(RECORDS[::-1])


def test_results_md_is_what_the_committed_records_say() -> None:
    command = "python -m paper report results/paper --markdown docs/results.md"
    wanted = paper_markdown(read_artefacts(ROOT / "results" / "paper"), "results/paper", command)
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == wanted, f"out of date: run '{command}'"


def test_the_readme_has_the_recipe_s_figures_of_the_same_record() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    (record,) = [r for r in read_artefacts(ROOT / "results" / "paper") if r.name == "main-results"]
    found = {panel: rows["recipe, reference"] for panel, rows in record["finding"]["data"].items()}
    order = ("symptom-to-diagnosis", "oral-lesions", "case-reports")
    said = "the recipe's ECE is {:.3f} (symptoms), {:.3f} (oral lesions) and {:.3f} (case reports)"
    assert said.format(*(found[panel]["ece"] for panel in order)) in readme
    for panel in order:
        assert f"| {panel} ({found[panel]['n']}) | {found[panel]['accuracy']:.3f} [" in readme


def test_the_readme_has_the_asked_models_figures_of_the_same_records() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    data = {r.name: r["finding"]["data"] for r in read_artefacts(ROOT / "results" / "paper") if r.done}
    rows = {p: data["error-detection"][p] for p in ("symptom-to-diagnosis", "case-reports")}
    qwen = "qwen2.5-coder-1.5b"
    share = {p: rows[p][f"ML, all orders (hf:{qwen})"]["accuracy"] for p in rows}
    recipe = {p: rows[p]["recipe"]["over_banks"]["accuracy"][0] for p in rows}  # over Qwen's bank
    symptoms, reports = rows
    best = max(row["accuracy"] for row in rows[symptoms].values() if row.get("simulator") == "smollm2")
    own = rows[symptoms]["M-SMC, smollm2"]["accuracy"]
    for said in (
        f"SmolLM2-135M is right in {100 * best:.0f} % of the symptom cases at best",
        f"right in {100 * own:.0f} % (M-SMC)",
        f"reaches {100 * share[symptoms]:.0f} % there, and the recipe over its simulations "
        f"{100 * recipe[symptoms]:.0f} %; on case reports asking it is better, {100 * share[reports]:.0f} % "
        f"against {100 * recipe[reports]:.0f} %",
    ):
        assert said in readme, said
