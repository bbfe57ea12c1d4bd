"""The review protocol from form to list of revisions, with forms filled the way people fill them."""

import csv
import json
import re

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from simdx.errors import BadInput
from simdx.review import import_scores, make_review, open_review, read_scores, summarise
from simdx.review.summary import icc, weighted_kappa

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


def blocks(page):
    found = re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', page, re.DOTALL)
    return {name: json.loads(content) for name, content in found}


def fill_html(sheet, reviewer, answer, target):
    """What the page's Save button downloads: the same page with the answers inside."""
    page = (sheet.folder / f"form-{reviewer}.html").read_text("utf-8")
    answers = {item["code"]: answer(item) for item in blocks(page)["setup"]["items"]}
    text = json.dumps(answers).replace("<", "\\u003c")
    filled = page.replace('id="answers">{}<', f'id="answers">{text}<')
    assert filled != page
    target.write_text(filled, "utf-8")
    return target


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


def test_forms_are_blinded_shuffled_and_self_contained(sheet):
    orders = []
    for reviewer in ("anna", "ben"):
        page = (sheet.folder / f"form-{reviewer}.html").read_text("utf-8")
        assert not any(word in page for word in ("secret-id", "hard", "http://", "https://"))
        items = blocks(page)["setup"]["items"]
        orders.append([item["text"] for item in items])
        assert sorted(orders[-1]) == [TEXT.format(i) for i in range(6)]
        assert all(item["label"] is None for item in items)
        twin = (sheet.folder / f"form-{reviewer}.csv").read_text("utf-8")
        assert not any(word in twin for word in ("secret-id", *LABELS))
    assert orders[0] != orders[1]


def test_the_label_is_shown_only_when_asked_for(data, tmp_path):
    sheet = make_review(data, tmp_path / "open", show_label=True)
    page = (sheet.folder / "form-reviewer-1.html").read_text("utf-8")
    setup = blocks(page)["setup"]
    assert {i["label"] for i in setup["items"]} == set(LABELS)
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

    done = import_scores(sheet, fill_html(sheet, "anna", anna, tmp_path / "a.html"), role="oral pathologist")
    assert (done.reviewer, done.scored, done.unscored) == ("anna", 6, 0)
    assert done.scores_file == data.with_name("cases.jsonl.review.jsonl")
    done = import_scores(sheet, fill_csv(sheet, "ben", ben, tmp_path / "b.csv"), role="dentist")
    assert (done.scored, done.unscored) == (5, 1)

    stored = read_scores(done.scores_file)
    assert {(s.reviewer, s.role) for s in stored} == {("anna", "oral pathologist"), ("ben", "dentist")}
    found = summarise(open_review(sheet.folder)).to_json()
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
    low = fill_html(sheet, "anna", lambda _: {"completeness": 3, "correctness": 5}, tmp_path / "a.html")
    import_scores(sheet, low, role="pathologist")
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    rows[2]["text"] = "a better text"
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    second = make_review(data, tmp_path / "second", reviewers=["anna"], only=["secret-id-2"])
    assert summarise(second).n_scored == 0
    high = fill_html(second, "anna", lambda _: {"completeness": 5, "correctness": 5}, tmp_path / "b.html")
    import_scores(second, high, role="pathologist")
    assert summarise(second).scales["completeness"]["mean"] == 5
    assert summarise(second).revise == []
    assert len(read_scores(second.scores_file)) == 7  # the earlier round is kept beside the later


def test_importing_again_replaces(sheet, tmp_path):
    for points in (3, 5):
        both = dict.fromkeys(("completeness", "correctness"), points)
        path = fill_csv(sheet, "ben", lambda _, both=both: both, tmp_path / "b.csv", ";")
        import_scores(sheet, path, role="dentist")
    found = summarise(sheet)
    assert found.scales["correctness"]["mean"] == 5
    assert found.scales["correctness"]["counts"]["5"] == 6
    assert found.scales["correctness"]["icc"] is None
    assert "two reviewers" in found.undefined["correctness.icc"]


@pytest.mark.parametrize("points", [0, 6, 4.5, "good", True])
def test_a_score_off_the_scale_is_refused_by_case(sheet, tmp_path, points):
    path = fill_html(sheet, "anna", lambda _: {"completeness": points, "correctness": 5}, tmp_path / "a.html")
    with pytest.raises(BadInput, match=r"case 001: completeness must be a whole number from 1 to 5"):
        import_scores(sheet, path, role="pathologist")
    assert read_scores(sheet.scores_file) == []


@pytest.mark.parametrize("wrong", [{"completeness": "five"}, {"correctness": 6}, {"role": None}, {"more": 1}])
def test_a_stored_score_that_is_none_is_refused_by_its_line(sheet, tmp_path, wrong):
    path = fill_html(sheet, "anna", lambda _: {"completeness": 5, "correctness": 5}, tmp_path / "a.html")
    stored = import_scores(sheet, path, role="pathologist").scores_file
    first, second, *rest = stored.read_text("utf-8").splitlines()
    lines = [first, json.dumps({**json.loads(second), **wrong}), *rest]
    stored.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    with pytest.raises(BadInput, match="line 2: not a stored score"):
        summarise(sheet)


def test_foreign_and_broken_forms_are_refused(sheet, data, tmp_path):
    other = make_review(data, tmp_path / "other", reviewers=["anna"], seed=9)
    path = fill_html(other, "anna", lambda _: {"completeness": 5, "correctness": 5}, tmp_path / "o.html")
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
    assert len(sheet.hashes) == 25
    assert summarise(sheet).scales["correctness"]["mean"] is None
    assert summarise(sheet).undefined["correctness.mean"] == "no scores yet"
    bank = tmp_path / "bank"
    bank.mkdir()
    (bank / "bank.jsonl").write_text('{"label": "gout", "text": "my toe"}\n{"label": "flu", "text": "hot"}\n')
    made = make_review(bank, tmp_path / "s")
    assert set(made.hashes) == {"line-1", "line-2"}
    assert made.scores_file == str(bank.resolve() / "review.jsonl")


def test_kappa_and_icc_against_independent_forms():
    rng = np.random.default_rng(4)
    a = rng.integers(1, 6, 60)
    b = np.clip(a + rng.integers(-1, 2, 60), 1, 5)
    assert weighted_kappa(a, b).value == pytest.approx(cohen_kappa_score(a, b, weights="quadratic"))
    assert weighted_kappa([5, 5], [5, 5]).value is None
    # Shrout and Fleiss (1979), table 2: six targets, four judges, ICC(2,1) = .29
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert icc(np.array(table)).value == pytest.approx(0.29, abs=0.005)
    # pingouin 0.7.0, ICC(A,1)
    rows = "345 444 214 213 424 545 112 344 511 214 352 222"
    table = np.array([[int(score) for score in row] for row in rows.split()])
    assert icc(table).value == pytest.approx(0.30379746835443044, abs=1e-12)
    assert icc(np.full((3, 2), 5)).value is None
