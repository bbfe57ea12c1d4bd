"""Notebooks, pictures, data sheets, tables and names of tests are what the scripts, files and records say."""

import ast
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simdx.panels import PACKAGED, load_source
from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_notebooks_are_committed_without_output() -> None:
    import nbformat  # here: every process of the tests collects this file

    assert len(NOTEBOOKS) >= 2
    for path in NOTEBOOKS:
        code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        assert code, path.name
        assert all(cell.outputs == [] and cell.execution_count is None for cell in code), path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_runs(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": tmp_path}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    printed = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert printed
    assert not [out for out in printed if out.output_type == "error"]


PICTURES = ROOT / "docs" / "pictures"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def texts(path: Path) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")]


@pytest.mark.slow
def test_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "docs/tools/pictures.py", "--out", tmp_path], cwd=ROOT, check=True)
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    by_the_paper = {"results.svg"}  # drawn from its records, by paper/report.py
    assert drawn == sorted({path.name for path in PICTURES.glob("*.svg")} - by_the_paper)
    for name in drawn:
        new, old = texts(tmp_path / name), texts(PICTURES / name)
        assert [_NUMBER.sub("#", t) for t in new] == [_NUMBER.sub("#", t) for t in old], name
        numbers = [[float(n) for t in side for n in _NUMBER.findall(t)] for side in (new, old)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02, rel=0.02), name


def test_the_pictures_of_the_code_show_the_code_and_all_are_light() -> None:
    command = [sys.executable, "docs/tools/house.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [path.name for path in PICTURES.rglob("*.svg") if path.stat().st_size >= 100_000]


_ROW = re.compile(r"^\| `(\w+\.jsonl)` \| ([^|]+) \| ([^|]*) \|", re.M)


@pytest.mark.parametrize("panel", PACKAGED)
def test_a_data_sheet_counts_what_is_packaged(panel: str) -> None:
    sheet = (ROOT / f"docs/datasheets/{panel}.md").read_text(encoding="utf-8")
    folder = load_source(panel).folder
    told = {name: (count, words) for name, count, words in _ROW.findall(sheet)}
    packaged = {path.name for path in folder.glob("*.jsonl")}
    assert set() < packaged <= set(told)
    for name in packaged:
        rows = [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        words = [len(row["text"].split()) for row in rows]
        count, lengths = told[name]
        assert int(count.split(":")[0].split(",")[0]) == len(rows)
        assert lengths == f"{min(words)}, {statistics.median(words):g}, {max(words)}"
        said = len(rows) if "as many" in count else int(re.findall(r"\d+", count)[1])
        if name == "background.jsonl":
            assert said == len({row["condition"] for row in rows})
        else:
            assert {said} == set(Counter(row["label"] for row in rows).values())
    assert "o clinician has reviewed" in sheet


def table_rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    lines = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def of_metric(scores: dict, name: str, digits: int = 3) -> str:
    value, low, high = (short(number, digits) for number in (scores[name], *scores["ci"][name]))
    return f"{value} [{low}, {high}]"


def test_the_calibration_page_says_what_its_records_say() -> None:
    page = (ROOT / "docs" / "method" / "calibration.md").read_text("utf-8")
    folder = ROOT / "results" / "transfer"
    methods = json.loads((folder / "airways-differential.json").read_text("utf-8"))["methods"]
    rows = table_rows(page, "Against a reference differential")
    names = ("total_variation", "cross_entropy", "top3_recall", "rank_correlation")
    for row, method in zip(rows, ("auto", "m-smc", "d-smc", "bank-logistic"), strict=True):
        scores = methods[method]["differential"]
        for cell, name in zip(row[1:], names, strict=True):
            assert cell == of_metric(scores, name, 2 if name == "cross_entropy" else 3)
    blind = json.loads((folder / "blind" / "record.json").read_text("utf-8"))["panels"]
    for name, accuracy, ece, auroc, masses in table_rows(page, "Two panels written blind"):
        assert [accuracy, ece] == [of_metric(blind[name], metric) for metric in ("accuracy", "ece")]
        outside = blind[name]["ood"]
        assert auroc == short(outside["auroc"])
        assert masses == f"{short(outside['mean_outside'], 2)} / {short(outside['mean_inside'])}"


def record_of(name: str) -> dict:
    return json.loads((ROOT / "results" / name / "record.json").read_text("utf-8"))


def test_the_first_hour_is_that_of_the_record() -> None:
    page = (ROOT / "docs" / "first-hour.md").read_text("utf-8")
    record = record_of("first_hour")["three_panels"]
    rows = table_rows(page, "Three panels that nobody had tried")[:3]
    asked = [row["cpu_s"] for row in record["rows"] if row["command"].startswith("simdx classify")]
    for row, (name, found), seconds in zip(rows, record["answers"].items(), asked, strict=True):
        assert re.match(r"[\w-]+", row[0])[0] == name
        sure = found["sure_and_wrong"]
        assert row[2:] == [
            str(seconds),
            f"{found['inside_right']} of {found['inside']}",
            f"{found['outside_right']} of {found['outside']}",
            str(len(sure)),
            str(found["accepted"]),
        ]
        said = [f"({x['label']}, {100 * x['probability']:.0f} %, *{x['action']}*)" for x in sure]
        assert all(words in " ".join(page.split()) for words in said)
    outside, caught = (sum(f[k] for f in record["answers"].values()) for k in ("outside", "outside_right"))
    assert f"of the {outside} outside cases above, {caught} were recognised" in page


def test_methods_beside_the_recipe_are_those_of_the_record() -> None:
    page = (ROOT / "docs" / "howto" / "data.md").read_text("utf-8")
    panels = record_of("comparison")["panels"]
    rows = table_rows(page, "Compare methods")
    named = {row[0].strip("`").replace(" --real", ", real cases"): row[1:] for row in rows}
    assert set(named) == set().union(*panels.values())
    for method, cells in named.items():
        for panel, (accuracy, ece) in zip(panels.values(), (cells[:2], cells[2:]), strict=True):
            found = panel[method]
            assert (accuracy.split()[0], ece) == (short(found["accuracy"]), short(found["ece"]))


def test_bayesflow_beside_our_network_is_what_the_record_says() -> None:
    page = (ROOT / "docs" / "relatives.md").read_text("utf-8")
    panels = record_of("bayesflow")["panels"]
    rows = table_rows(page, "Our network beside BayesFlow's")
    assert len(rows) == sum(len(panel["arms"]) for panel in panels.values())
    for panel, arm, *cells in rows:
        found = panels[panel]["arms"][arm]
        assert cells[:3] == [short(found[name]) for name in ("accuracy", "ece", "nll")]
        assert cells[3:] == [f"{found['training_cpu_s']:.0f}", f"{found['inference_us_a_case']:.0f}"]


def test_every_row_of_the_threat_model_names_tests_that_exist() -> None:
    page = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    heads = ("| asset |", "| finding |")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) > 40
    for row in rows:
        cells = row.strip("|").split("|")
        assert len(cells) == 4, row
        assert all(cell.strip() for cell in cells), row
        assert re.findall(r"`tests/[\w/]+\.py::test_\w+`", cells[3]), row
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        assert name in {n.name for n in functions}, f"{path} has no {name}"
