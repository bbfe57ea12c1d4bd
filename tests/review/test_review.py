"""The review protocol from form to list of revisions, with forms filled the way people fill them."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from simdx.errors import BadInput
from simdx.review import icc, import_scores, make_review, open_review, read_scores, summarise, weighted_kappa

LABELS = ["gout", "flu"]
TEXT = "text number {} <b>&amp;</script>"


@pytest.fixture
def data(tmp_path):
    rows = [
        {"id": f"secret-id-{i}", "text": TEXT.format(i), "label": LABELS[i % 2], "hard": 1} for i in range(6)
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@pytest.fixture
def sheet(data, tmp_path):
    return make_review(data, tmp_path / "review", reviewers=["anna", "ben"], seed=1)


def items_of(sheet, reviewer):
    page = (sheet.folder / f"form-{reviewer}.html").read_text("utf-8")
    (setup,) = re.findall(r'<script type="application/json" id="setup">(.*?)</script>', page, re.DOTALL)
    return page, json.loads(setup)


def fill_html(sheet, answer, target, reviewer="anna"):
    """What the page's Save button downloads: the same page with the answers inside."""
    page, setup = items_of(sheet, reviewer)
    answers = {item["code"]: answer(item) for item in setup["items"]}
    text = json.dumps(answers).replace("<", "\\u003c")
    filled = page.replace('id="answers">{}<', f'id="answers">{text}<')
    assert filled != page
    target.write_text(filled, "utf-8")
    return target


def both(points, correctness=None):
    return lambda _: {"completeness": points, "correctness": correctness or points}


def fill_csv(sheet, reviewer, answer, target, delimiter=","):
    with (sheet.folder / f"form-{reviewer}.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[1:]:
        row |= answer(row)
        row["code"] = str(int(row["code"]))  # as a spreadsheet would
    with target.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return target


def test_forms_are_blinded_shuffled_and_self_contained(sheet, data, tmp_path):
    orders = []
    for reviewer in ("anna", "ben"):
        page, setup = items_of(sheet, reviewer)
        assert not any(word in page for word in ("secret-id", "hard", "http://", "https://"))
        orders.append([item["text"] for item in setup["items"]])
        assert sorted(orders[-1]) == [TEXT.format(i) for i in range(6)]
        assert all(item["label"] is None for item in setup["items"])
        twin = (sheet.folder / f"form-{reviewer}.csv").read_text("utf-8")
        assert not any(word in twin for word in ("secret-id", *LABELS))
    assert orders[0] != orders[1]
    shown = make_review(data, tmp_path / "open", show_label=True)  # only where that is asked for
    _, setup = items_of(shown, "reviewer-1")
    assert {item["label"] for item in setup["items"]} == set(LABELS)
    assert setup["choices"] == []


def test_two_reviewers_from_form_to_summary(sheet, data, tmp_path):
    number = {TEXT.format(i): i for i in range(6)}

    def anna(item):
        i = number[item["text"]]
        points = {"completeness": 5 if i else 3, "correctness": 4}
        return {**points, "diagnosis": LABELS[i % 2], "feedback": "site?"}

    def ben(row):
        i = number[row["text"]]
        return {"completeness": "4.0" if i else "2", "correctness": "" if i == 5 else "5", "feedback": ""}

    done = import_scores(sheet, fill_html(sheet, anna, tmp_path / "a.html"), role="oral pathologist")
    scores = str(data.with_name("cases.jsonl.review.jsonl"))
    assert done == {"reviewer": "anna", "scored": 6, "unscored": 0, "scores": scores}
    done = import_scores(sheet, fill_csv(sheet, "ben", ben, tmp_path / "b.csv"), role="dentist")
    assert (done["scored"], done["unscored"]) == (5, 1)

    stored = read_scores(scores)
    assert {(s.reviewer, s.role) for s in stored} == {("anna", "oral pathologist"), ("ben", "dentist")}
    found = summarise(open_review(sheet.folder))
    completeness = found["scales"]["completeness"]
    values = [3, 5, 5, 5, 5, 5, 2, 4, 4, 4, 4]
    assert completeness["mean"] == pytest.approx(np.mean(values))
    assert completeness["sd"] == pytest.approx(np.std(values, ddof=1))
    assert completeness["exact_agreement"] == 0
    assert completeness["within_one"] == 1
    assert completeness["weighted_kappa"] == pytest.approx(
        cohen_kappa_score([3, 5, 5, 5, 5], [2, 4, 4, 4, 4], weights="quadratic", labels=[1, 2, 3, 4, 5])
    )
    assert found["n_scored"] == 6
    (low,) = found["revise"]
    assert (low["id"], low["completeness"], low["feedback"]) == ("secret-id-0", 2, ["site?"])
    assert found["label_agreement"] == {"n": 6, "agreement": 1.0, "differing": []}
    json.dumps(found, allow_nan=False)


def test_a_revised_text_counts_as_unreviewed_and_gets_a_second_round(sheet, data, tmp_path):
    low = fill_html(sheet, both(3, 5), tmp_path / "a.html")
    import_scores(sheet, low, role="pathologist")
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    rows[2]["text"] = "a better text"
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    second = make_review(data, tmp_path / "second", reviewers=["anna"], only=["secret-id-2"])
    assert summarise(second)["n_scored"] == 0
    high = fill_html(second, both(5), tmp_path / "b.html")
    import_scores(second, high, role="pathologist")
    found = summarise(second)
    assert (found["scales"]["completeness"]["mean"], found["revise"]) == (5, [])
    assert len(read_scores(second.scores_file)) == 7  # the earlier round is kept beside the later


def test_importing_again_replaces(sheet, tmp_path):
    for points in (3, 5):
        path = fill_csv(sheet, "ben", both(points), tmp_path / "b.csv", ";")
        import_scores(sheet, path, role="dentist")
    found = summarise(sheet)
    scale = found["scales"]["correctness"]
    assert (scale["mean"], scale["counts"]["5"], scale["icc"]) == (5, 6, None)
    assert "two reviewers" in found["undefined"]["correctness.icc"]


@pytest.mark.parametrize("points", [0, 6, 4.5, "good", True])
def test_a_score_off_the_scale_is_refused_by_case(sheet, tmp_path, points):
    path = fill_html(sheet, both(points, 5), tmp_path / "a.html")
    with pytest.raises(BadInput, match=r"case 001: completeness must be a whole number from 1 to 5"):
        import_scores(sheet, path, role="pathologist")
    assert read_scores(sheet.scores_file) == []


@pytest.mark.parametrize("wrong", [{"completeness": "five"}, {"correctness": 6}, {"role": None}, {"more": 1}])
def test_a_stored_score_that_is_none_is_refused_by_its_line(sheet, tmp_path, wrong):
    path = fill_html(sheet, both(5), tmp_path / "a.html")
    stored = Path(import_scores(sheet, path, role="pathologist")["scores"])
    first, second, *rest = stored.read_text("utf-8").splitlines()
    lines = [first, json.dumps({**json.loads(second), **wrong}), *rest]
    stored.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    with pytest.raises(BadInput, match="line 2: not a stored score"):
        summarise(sheet)


def test_foreign_and_broken_forms_are_refused(sheet, data, tmp_path):
    other = make_review(data, tmp_path / "other", reviewers=["anna"], seed=9)
    path = fill_html(other, both(5), tmp_path / "o.html")
    (tmp_path / "x.html").write_text("<html></html>")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for refused, said in (
        (lambda: import_scores(sheet, path, role="pathologist"), "another review"),
        (lambda: import_scores(sheet, tmp_path / "x.html", role="pathologist"), "not a saved review form"),
        (lambda: import_scores(sheet, tmp_path / "x.csv", role="pathologist"), "neither"),
        (lambda: import_scores(sheet, sheet.folder / "form-anna.html", role=" "), "role"),
        (lambda: make_review(data, sheet.folder), "not empty"),
        (lambda: make_review(data, tmp_path / "bad", reviewers=["../evil"]), "cannot name a reviewer"),
        (lambda: open_review(tmp_path / "nowhere"), "holds no review"),
    ):
        with pytest.raises(BadInput, match=said):
            refused()


def test_a_packaged_set_a_sample_and_a_bank_folder(tmp_path):
    sheet = make_review("oral-lesions", tmp_path / "r", sample=25)
    assert len(sheet.cases) == 25
    found = summarise(sheet)
    assert found["scales"]["correctness"]["mean"] is None
    assert found["undefined"]["correctness.mean"] == "no scores yet"
    bank = tmp_path / "bank"
    bank.mkdir()
    (bank / "bank.jsonl").write_text('{"label": "gout", "text": "my toe"}\n{"label": "flu", "text": "hot"}\n')
    made = make_review(bank, tmp_path / "s")
    assert set(made.cases) == {"line-1", "line-2"}
    assert made.scores_file == str(bank.resolve() / "review.jsonl")


def test_kappa_and_icc_against_independent_forms():
    assert weighted_kappa([5, 5], [5, 5]).value is None
    # Shrout and Fleiss (1979), table 2: six targets, four judges, ICC(2,1) = .29
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert icc(np.array(table)).value == pytest.approx(0.29, abs=0.005)
    # pingouin 0.7.0, ICC(A,1)
    rows = "345 444 214 213 424 545 112 344 511 214 352 222"
    table = [[int(score) for score in row] for row in rows.split()]
    assert icc(np.array(table)).value == pytest.approx(0.30379746835443044, abs=1e-12)
    assert icc(np.full((3, 2), 5)).value is None
