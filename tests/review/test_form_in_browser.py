"""The form in a real browser: scoring, local memory, saving its own file, resuming from that file."""

import pytest

from simdx.review import import_scores, make_review, summarise
from tests.loopback import until
from tests.service.test_browser import browser

__all__ = ["browser"]  # a fixture
pytestmark = pytest.mark.slow


def test_score_save_resume_and_import(browser, tmp_path):
    sheet = make_review("oral-lesions", tmp_path / "review", sample=3)
    form = sheet.folder / "form-reviewer-1.html"
    browser.get(form.as_uri())
    chosen = (("001", "completeness", 5), ("001", "correctness", 2), ("002", "completeness", 4))
    for code, scale, points in chosen:
        browser.find_element("css selector", f'input[name="{code}/{scale}"][value="{points}"]').click()
    browser.find_element("name", "001/feedback").send_keys("no </script> course & <b>site</b>")
    state = browser.find_element("id", "state")
    assert state.text == "1 of 3 texts scored"

    browser.refresh()  # the browser's own memory
    assert browser.find_element("id", "state").text == "1 of 3 texts scored"
    browser.find_element("id", "save").click()
    (saved,) = until(lambda: list((tmp_path / "down").glob("*.html")))
    assert saved.name == "form-reviewer-1.html"

    browser.execute_script("localStorage.clear()")
    browser.get(form.as_uri())
    assert browser.find_element("id", "state").text == "0 of 3 texts scored"
    browser.find_element("id", "load").send_keys(str(saved))
    until(lambda: browser.find_element("id", "state").text == "1 of 3 texts scored")
    browser.get(saved.as_uri())  # the saved page resumes by itself
    assert browser.find_element("id", "state").text == "1 of 3 texts scored"
    assert len(browser.find_elements("tag name", "article")) == 3
    severe = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert severe == []

    done = import_scores(sheet, saved, role="tester")
    assert (done["scored"], done["unscored"]) == (1, 2)
    (row,) = summarise(sheet)["revise"]
    assert (row["completeness"], row["correctness"]) == (5, 2)
    assert row["feedback"] == ["no </script> course & <b>site</b>"]
