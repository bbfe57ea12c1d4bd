"""The page in Chromium, part two: marks in the text, late answers, history, files, own panels."""
# ruff: noqa: F811

import json
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from tests.loopback import until
from tests.service.conftest import TEXT, Live
from tests.service.test_browser import (  # noqa: F401
    OUTCOMES,
    ULCER,
    Page,
    blank,
    browser,
    live,
    of_tickets,
    page,
    serious,
)

pytestmark = pytest.mark.slow

EMBOLISM = "Coughed up blood after a flight 😀. No fever or chills. My mother had asthma. A swollen calf."
# `window.change` changes answers on their way to the page; those that `window.hold` names wait in `held`.
TAP = """
const real = window.fetch.bind(window);
window.held = [];
window.fetch = async (path, options) => {
  const body = options?.body ? JSON.parse(options.body) : {};
  const reply = await real(path, options);
  if (window.hold?.(path, body)) await new Promise((go) => window.held.push(go));
  if (!window.change || path !== "/v1/classify" || body.preview) return reply;
  const data = window.change(await reply.json(), body);
  return new Response(JSON.stringify(data), { status: reply.status, headers: reply.headers });
};
"""


def tapped(page: Page, script: str) -> None:
    page.browser.execute_script(TAP + script)


def shown_words(page: Page) -> str:
    return str(page("result").text + page("evidence-card").text)


def css(page: Page, selector: str) -> list[Any]:
    return page.browser.find_elements(By.CSS_SELECTOR, selector)


def downloaded(folder: Path, ending: str) -> Path:
    return until(lambda: next((f for f in (folder / "down").glob(f"*{ending}")), None))


def test_denied_and_others_findings_are_marked_and_explained(blank: Page) -> None:
    spans = [
        {"start": EMBOLISM.index(part), "end": EMBOLISM.index(part) + len(part), "assertion": how}
        for part, how in (("No fever or chills", "negated"), ("My mother had asthma", "family"))
    ]
    tapped(
        blank,
        f"""window.change = (data) => {{ data.answer.spans = {json.dumps(spans)};
        data.answer.unexplained = ["Coughed up blood after a flight 😀."];
        data.answer.red_flags = [{{ sentence: "Coughed up blood after a flight 😀.", finding: "blood",
          condition: "an embolism" }}]; return data; }};""",
    )
    assert blank("text").get_attribute("value") == ""
    blank.browser.execute_script("document.getElementById('text').value = arguments[0]", EMBOLISM)
    blank("classify").click()
    until(lambda: blank("result").is_displayed())
    # Python counts characters, the browser counts UTF-16 units: the emoji must not shift a mark.
    assert [s.text for s in css(blank, "#evidence-case s.negated")] == ["No fever or chills"]
    assert [s.text for s in css(blank, "#evidence-case .family")] == ["My mother had asthma"]
    struck = css(blank, "#evidence-case s.negated")[0].value_of_css_property("text-decoration-line")
    assert struck == "line-through"
    (mark,) = css(blank, "#evidence-case .unexplained")
    assert mark.text.startswith("not explained by ")
    assert mark.text.endswith(" (blood, a red flag of an embolism)")
    assert "One sentence is not explained by" in blank("unexplained-words").text
    legend = blank("reading-legend").text
    assert all(word in legend for word in ("denied", "another person", "not explained"))
    assert "possible" not in legend  # there is none
    seen = blank.browser.execute_script("return document.getElementById('evidence-case').textContent")
    assert "No fever or chills. My mother had asthma." in seen
    # A denied finding is no support: its sentence has no partner in the evidence.
    assert not css(blank, "#evidence-case mark s.negated")
    blank.browser.execute_script(
        "const before = window.change; window.change = (data) => { data = before(data);"
        "data.answer.decision.reasons = ['1 sentence not explained by a label', 'b']; return data; };"
    )
    blank("classify").click()
    until(lambda: not blank("unexplained-words").is_displayed())  # nothing is said twice
    assert serious(blank.browser) == []
    assert blank.errors() == []


def test_the_nearest_condition_is_named_and_likely_is_an_action(blank: Page) -> None:
    tapped(
        blank,
        """window.change = (data) => {
        const near = {condition: "pulmonary embolism", probability: .9, emergency: true};
        data.answer.outside = {nearest: [near]};
        data.words.outside = "none of these; nearest: pulmonary embolism (emergency)";
        data.words.headline = "Likely: oral mucocele, 97 %";
        data.answer.decision.action = "likely";
        return data; };""",
    )
    blank.classify(TEXT)
    assert blank("decision-outside").text == "None of these; nearest: pulmonary embolism (emergency)."
    assert "emergency" in blank("decision-outside").get_attribute("class")
    assert "pulmonary embolism" in blank.browser.execute_script(
        "return document.getElementById('spoken').textContent"
    )
    assert blank("decision-title").text == "Likely: oral mucocele, 97 %"
    assert serious(blank.browser) == []
    blank.browser.execute_script("window.change = null")
    blank.classify(ULCER)
    assert not blank("decision-outside").is_displayed()


def test_evidence_is_that_of_the_answer_shown_at_every_move(page: Page) -> None:
    def labels() -> list[str]:
        return [h.text.split("\n")[0] for h in css(page, "#evidence-list .sheet:not(.other) h3")]

    assert labels()
    assert all(label.startswith("oral mucocele") for label in labels())
    for label, percent in (("oral mucocele", 0), ("atrophic glossitis", 0), ("oral mucocele", 60)):
        page.set_slider(label, percent)
        until(page.settled)
        lead = css(page, "#labels .label-row")[0].get_attribute("data-label")  # by falling probability
        assert labels()
        assert all(label.startswith(lead) for label in labels())
    assert page.errors() == []


def test_a_late_answer_never_replaces_a_newer_one(page: Page) -> None:
    """The answer under an early prior is held back until the one under a later prior is shown."""
    tapped(page, "window.hold = (path, body) => !body.preview && body.prior['oral mucocele'] === 0;")
    page.set_slider("oral mucocele", 0)
    until(lambda: page.browser.execute_script("return window.held.length") == 1)
    answers = page("result").get_attribute("data-answers")
    page("reset-prior").click()
    until(lambda: page("result").get_attribute("data-answers") != answers)
    until(page.settled)
    before = shown_words(page)
    assert "oral mucocele" in page("decision-title").text
    page.browser.execute_script("window.held.forEach((go) => go())")
    page.browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert shown_words(page) == before
    assert page.settled()


def test_a_late_answer_to_another_text_is_dropped(page: Page) -> None:
    tapped(page, f"window.hold = (path, body) => body.text === {json.dumps(ULCER)};")
    page("text").clear()
    page("text").send_keys(ULCER)
    page("classify").click()
    until(lambda: page.browser.execute_script("return window.held.length") == 1)
    other = "A smooth, red, burning tongue without papillae."
    page("text").clear()
    page("text").send_keys(other)
    page.browser.execute_script(  # the button waits for the first answer, the keyboard does not
        "const enter = new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true});"
        "document.getElementById('text').dispatchEvent(enter);"
    )
    until(lambda: other[:20] in page("evidence-case").text)
    page.browser.execute_script("window.held.forEach((go) => go())")
    until(lambda: page("classify").is_enabled())
    assert other[:20] in page("evidence-case").text
    assert not page("outdated").is_displayed()


def test_a_changed_prior_is_said_until_it_is_reset(page: Page) -> None:
    assert not page("prior-banner").is_displayed()
    page.set_slider("oral mucocele", 60)
    assert "You changed the prior: oral mucocele has 60 % instead of 33 %" in page("prior-banner").text
    until(page.settled)
    page("reset-prior").click()
    until(page.settled)
    assert not page("prior-banner").is_displayed()


def test_one_posterior_and_why_the_second_differs(page: Page) -> None:
    assert not page("split-words").is_displayed()
    page("second-title").click()
    assert "differ from the answer" in page("second-why").text
    page("method").find_element(By.CSS_SELECTOR, 'option[value="d-smc"]').click()
    page("classify").click()
    until(lambda: "Spread" in page("second-title").text)
    assert "these probabilities" in page("second-title").text
    assert page("simplex").is_displayed()
    assert not page("second-why").is_displayed()


def test_the_history_is_of_this_page_alone(page: Page) -> None:
    first = shown_words(page)
    page.set_slider("oral mucocele", 60)
    until(page.settled)
    page.classify(ULCER)
    page("history").find_element(By.TAG_NAME, "summary").click()
    entries = css(page, "#history-list button")
    assert [e.text[:20] for e in entries] == [ULCER[:20], TEXT[:20]]
    assert all(len(e.text) <= 60 for e in entries)
    records = page.browser.execute_script("return performance.getEntriesByType('resource').length")
    entries[1].click()
    assert page("text").get_attribute("value") == TEXT
    assert "oral mucocele has 60 %" in page("prior-banner").text  # with its prior
    assert page.browser.execute_script("return performance.getEntriesByType('resource').length") == records
    page("reset-prior").click()
    until(page.settled)
    assert page("decision-title").text in first
    stored = "return JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)])"
    assert TEXT[:20] not in page.browser.execute_script(stored)
    page("history-clear").click()
    assert not page("history").is_displayed()
    page.browser.refresh()
    until(lambda: page.browser.execute_script("return document.documentElement.dataset.ready") == "yes")
    assert not page("history").is_displayed()


def test_a_case_is_saved_as_it_is_shown(browser: Any, live: Live, tmp_path: Path) -> None:
    page = Page(browser, live.url)
    hostile = f"{TEXT} <img src=x onerror=alert(1)> & more."
    page.classify(hostile)
    page("save-json").click()
    saved = json.loads(downloaded(tmp_path, ".json").read_text(encoding="utf-8"))
    assert saved["text"] == hostile
    assert saved["answer_id"] in page("origin").text
    assert saved["answer"]["decision"]["action"] == page("decision").get_attribute("data-action")
    page("save-html").click()
    file = downloaded(tmp_path, ".html")
    assert page.errors() == []  # the page's own policy is kept
    title, shown = page("decision-title").text, {label: page.value(label) for label in OUTCOMES}
    assert TEXT[:12] not in file.name
    browser.get(file.as_uri())
    body = browser.find_element(By.TAG_NAME, "body").text
    assert title in body
    assert "<img src=x onerror=alert(1)> & more." in body
    assert browser.find_elements(By.CSS_SELECTOR, "img, script, button, input, form, [src], link") == []
    for label, value in shown.items():
        row = browser.find_element(By.CSS_SELECTOR, f'.label-row[data-label="{label}"]')
        assert float(row.find_element(By.CLASS_NAME, "label-value").text.split()[-2]) == value
    assert "no substitute" in body


def test_the_batch_list_is_filtered_by_decision_and_label(browser: Any, live: Live, tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    headache = "A throbbing headache on one side since yesterday."
    rows = f'"{TEXT}"\n' * 18 + f'"{ULCER}"\n' * 3 + f"{headache}\n" * 2
    source.write_text(f"text\n{rows}", encoding="utf-8")
    page = Page(browser, live.url, "#batch")
    page.answered(source)
    assert page("batch-shown").text == "23 of 23 rows"
    choices = [o.text for o in page("batch-label").find_elements(By.TAG_NAME, "option")]
    assert {"all", "oral mucocele", "none of these"} <= set(choices)
    page("batch-label").find_element(By.CSS_SELECTOR, 'option[value="is none of these"]').click()
    assert page("batch-shown").text == "2 of 23 rows"
    assert [cell.text for cell in css(page, "#batch-rows td:first-child")] == ["23", "24"]
    page("batch-label").find_element(By.CSS_SELECTOR, 'option[value=""]').click()
    page("batch-action").find_element(By.CSS_SELECTOR, 'option[value="is review"]').click()
    assert {cell.text for cell in css(page, "#batch-rows td:last-child")} == {"review"}
    assert page.errors() == []


def test_a_panel_of_the_library_is_found_used_and_saved(browser: Any, live: Live, tmp_path: Path) -> None:
    page = Page(browser, live.url, "#new")
    for query, name in (("gout", "gout"), ("J45", "bronchial asthma")):
        page("library-query").clear()
        page("library-query").send_keys(query)
        until(lambda name=name: css(page, f'#library-found button[aria-label="Add {name}"]'))
        css(page, f'#library-found button[aria-label="Add {name}"]')[0].click()
    assert [b.text for b in css(page, "#library-chosen b")] == ["gout", "bronchial asthma"]
    assert serious(browser) == []
    page("library-download").click()
    assert "gout" in downloaded(tmp_path, ".yaml").read_text(encoding="utf-8")
    page("library-use").click()
    until(lambda: page("text").is_displayed())
    assert browser.switch_to.active_element.get_attribute("id") == "text"
    page("text").send_keys("My big toe has been red, hot and so sore since last night.")
    page("classify").click()
    until(lambda: page("result").is_displayed(), 180)
    assert "gout" in page("evidence-list").text
    before = page.value("gout")
    page.set_slider("gout", 0)
    until(page.settled)
    assert before > page.value("gout") == 0
    assert not page("feedback-form").is_displayed()
    # A busy machine may need longer for the panel than a request may take: the page asks again.
    assert [e for e in page.errors() if "503" not in e] == []


def test_a_dozen_is_labelled_by_clicks(browser: Any, live: Live, tmp_path: Path) -> None:
    page = Page(browser, live.url, "#dozen")
    page("dozen-texts").send_keys("Only one text.")
    page("dozen-start").click()
    until(lambda: page("dozen-error").is_displayed())
    assert "at least 8" in page("dozen-error").text
    texts = [f"{words} Visit {i}." for i in range(10) for words in (TEXT, "A smooth, red tongue.")]
    browser.execute_script("document.getElementById('dozen-texts').value = arguments[0]", "\n".join(texts))
    page("dozen-start").click()
    until(lambda: page("dozen-asking").is_displayed())
    assert not page("dozen-error").is_displayed()
    given = []
    for n in range(9):
        given.append((page("dozen-text").text, ("oral mucocele", "none of these")[n % 2]))
        next(b for b in css(page, "#dozen-labels button") if b.text == given[-1][1]).click()
    assert page("dozen-next").is_displayed()
    assert "simdx panel calibrate oral-lesions --data labelled.jsonl" in page("dozen-command").text
    page("dozen-undo").click()
    assert page("dozen-text").text == given.pop()[0]
    page("dozen-skip").click()
    assert "8 labelled, you can stop at any time" in page("dozen-said").text
    assert serious(browser) == []
    page("dozen-save").click()
    saved = downloaded(tmp_path, ".jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in saved.splitlines()]
    assert [(row["text"], row["label"]) for row in rows] == given
    assert {row["text"] for row in rows} <= set(texts)
    assert page.errors() == []
