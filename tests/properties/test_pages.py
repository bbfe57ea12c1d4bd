"""Pages and filled forms from others: notes of a record system, forms of a reviewer."""

import base64
import json
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.markup import data_blocks, words_of
from simdx.review import ReviewSheet, import_scores, make_review, open_review, summarise
from simdx.service.cds_text import read_chart
from simdx.service.record_servers import below
from tests.properties.strategies import accepted, bounded, few, texts, trees

MARKS = ["<p ", "<", ">", "<!--", "-->", "<![", "]>", "</", "<?", "<script", "</script>", '="', "='", "&#"]
pages = st.lists(st.one_of(st.sampled_from(MARKS), texts), max_size=12).map("".join)


@bounded
@given(pages)
def test_any_page(page: str) -> None:
    words = words_of(page)
    words.encode("utf-8")
    assert all(isinstance(block, str) for block in data_blocks(page).values())


@bounded
@given(texts)
def test_what_was_escaped_is_read_again(text: str) -> None:
    # A page cannot write the others: a reference to a control character stands for another one, or for none.
    text = "".join(c for c in text if c == "\n" or c.isprintable())
    assert words_of(f"<p>{escape(text)}</p>").split() == text.split()


@bounded
@given(pages, st.sampled_from(["text/html", "application/xhtml+xml; charset=utf-16", "text/plain"]))
def test_any_note_of_a_record_system(page: str, kind: str) -> None:
    data = base64.b64encode(page.encode("utf-16" if "16" in kind else "utf-8")).decode()
    content = [{"attachment": {"contentType": kind, "data": data}}]
    note = {"resourceType": "DocumentReference", "status": "current", "content": content}
    chart = read_chart({"note": {**note, "subject": {"reference": "Patient/1"}}}, "1")
    assert all(isinstance(part, str) and part.strip() for s in chart.sources for part in s.parts)
    assert len(chart.sources) + len(chart.unread) == 1


@bounded
@given(trees)
def test_any_prefetch(tree: object) -> None:
    subject = {"reference": "Patient/1"}
    for kind in ("DocumentReference", "QuestionnaireResponse", "Condition", tree):
        held = {"resourceType": kind, "content": tree, "item": tree, "note": tree, "date": tree, "id": tree}
        read_chart({"x": {**held, "status": "current", "subject": subject}}, "1")
        read_chart({"x": {**held, "status": "completed", "subject": subject}}, "1")
        for name in ("status", "docStatus", "subject", "clinicalStatus", "verificationStatus"):
            read_chart({"x": {**held, "status": "current", "subject": subject, name: tree}}, "1")


LINKS = ("..", "/", "%2e", "\\", "Binary", "@", "https:", "#", "?", ";", "a")


@bounded
@given(st.one_of(texts, st.lists(st.sampled_from(LINKS)).map("".join)))
def test_no_link_leads_away_from_its_server(url: str) -> None:
    target = below("https://fhir.example/r4", url)
    assert target is None or target.startswith("https://fhir.example/r4/")


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> ReviewSheet:
    folder = tmp_path_factory.mktemp("review")
    data = folder / "cases.jsonl"
    data.write_text('{"id": "1", "text": "a", "label": "gout"}\n{"id": "2", "text": "b", "label": "flu"}\n')
    return make_review(data, folder / "made", reviewers=["anna"], seed=1)


@bounded
@given(pages)
def test_any_filled_form(sheet: ReviewSheet, page: str) -> None:
    for name, content in (("f.html", f"<html>{page}"), ("f.csv", page)):
        form = sheet.folder / name
        form.write_text(content, encoding="utf-8")
        assert accepted(lambda form=form: import_scores(sheet, form, role="reader")) is None


@bounded
@given(st.dictionaries(st.sampled_from(["001", "1", "2", "9", "²", "x"]), trees, max_size=3), trees)
def test_any_answers_in_a_form(sheet: ReviewSheet, answers: dict[str, object], points: object) -> None:
    answers["001"] = {"completeness": points, "correctness": 4, "feedback": points}
    setup = json.dumps({"review": sheet.review, "reviewer": "anna"})
    blocks = (("setup", setup), ("answers", json.dumps(answers)))
    page = "".join(
        f'<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'
        for name, text in blocks
    )
    form = sheet.folder / "f.html"
    form.write_text(page, encoding="utf-8", errors="backslashreplace")
    done = accepted(lambda: import_scores(sheet, form, role="reader"))
    if done is not None:
        assert done.scored + done.unscored == 2
        summarise(sheet)


@few
@given(trees, st.data())
def test_any_key_of_a_review(sheet: ReviewSheet, tmp_path: Path, tree: object, data: st.DataObject) -> None:
    whole = json.loads((sheet.folder / "review.json").read_text("utf-8"))
    key = data.draw(st.sampled_from(sorted(whole)))
    (tmp_path / "review.json").write_text(json.dumps({**whole, key: tree}))
    found = accepted(lambda: open_review(tmp_path))
    if found is not None and key != "scores_file":  # which says where to write
        accepted(lambda: import_scores(found, sheet.folder / "form-anna.csv", role="reader"))
    (tmp_path / "review.json").write_text(json.dumps(tree))
    accepted(lambda: open_review(tmp_path))
