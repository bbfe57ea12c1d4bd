"""The page in a real headless Chromium: type, classify, move a slider, upload, see errors, read the log."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from simdx.panels import load_panel
from simdx.service import app as application
from simdx.service.auth import TokenFile
from tests.cli.conftest import Cli, cli  # noqa: F401
from tests.loopback import until
from tests.service.conftest import PANEL, TEXT, Live, create_app, make_config, tickets

pytestmark = pytest.mark.slow

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-dev-shm-usage", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--window-size=1280,1600",
)  # fmt: skip
ULCER = (
    "A 58-year-old smoker has a firm ulcer on the side of his tongue for three months. The margin is raised. "
    "A hard node is felt under the jaw."
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    # As `simdx serve` limits them: here numpy was loaded long before.
    with threadpool_limits(1), Live(create_app(make_config(tmp_path_factory.mktemp("browser")))) as service:
        yield service


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("Chromium is not installed (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path / "down")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


class Page:
    def __init__(self, browser: Any, url: str, fragment: str = "") -> None:
        self.browser = browser
        browser.get(f"{url}/{fragment}")
        until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")

    def __call__(self, name: str) -> Any:
        return self.browser.find_element(By.ID, name)

    def classify(self, text: str) -> None:
        self("text").clear()
        self("text").send_keys(text)
        self("classify").click()
        until(lambda: self("result").is_displayed() and self("classify").is_enabled())

    def value(self, label: str) -> float:
        shown = self.browser.find_element(By.CSS_SELECTOR, f'.label-row[data-label="{label}"] .label-value')
        return float(shown.text.split()[-2])  # "over 99.9 %"

    def set_slider(self, label: str, percent: int) -> None:
        self.browser.execute_script(
            "const s = document.querySelector(`input[data-label='${arguments[0]}']`);"
            "s.value = arguments[1]; s.dispatchEvent(new Event('input', {bubbles: true}));",
            label, percent,
        )  # fmt: skip

    def answered(self, file: Path) -> None:
        """Every row of the file, in the batch view."""
        self("batch-file").send_keys(str(file))
        until(lambda: self("batch-run").is_enabled())
        self("batch-run").click()
        until(lambda: "done" in self("batch-said").text)

    def looks(self, width: int, scheme: str = "light") -> None:
        """The size of its window, and what its reader's system prefers."""
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def count(self) -> int:
        """How often the bars were drawn."""
        return int(self("result").get_attribute("data-count"))

    def settled(self) -> bool:
        """Does everything shown belong to the prior of the sliders?"""
        return "moving" not in self("result").get_attribute("class")

    def errors(self) -> list[str]:
        return [e["message"] for e in self.browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def blank(browser: Any, live: Live) -> Page:
    return Page(browser, live.url)


@pytest.fixture
def page(blank: Page) -> Page:
    """With an answer to the text."""
    blank.classify(TEXT)
    return blank


def test_type_classify_and_move_a_slider(browser: Any, page: Page) -> None:
    assert "oral mucocele" in page("decision-title").text
    assert sum(page.value(label) for label in OUTCOMES) == pytest.approx(100, abs=0.5)
    shares = {value.text for value in browser.find_elements(By.CSS_SELECTOR, ".label-row .label-value")}
    assert "over 99.9 %" in shares
    assert not shares & {"100.0 %", "0.0 %"}  # a certainty that is only rounding
    rows = [
        row.get_attribute("data-label") for row in page("labels").find_elements(By.CLASS_NAME, "label-row")
    ]
    assert rows[0] == "oral mucocele"  # by falling probability, none of these last
    assert [page.value(label) for label in rows[:3]] == sorted(map(page.value, rows[:3]), reverse=True)
    assert rows[-1] == "none of these"
    # D-SMC is a second comparison: under its own name, for whoever asks for it.
    assert not page("simplex").is_displayed()
    assert "D-SMC" in page("second-title").text
    page("second-title").click()
    assert page.browser.find_elements(By.CSS_SELECTOR, "#simplex circle.draw")
    assert "aleatoric" in page("split-words").text
    assert page.browser.find_elements(By.CSS_SELECTOR, "#evidence-list .sheet")
    assert TEXT.split()[1] in page("evidence-case").text
    before, moves = page.value("oral mucocele"), page.count()
    page.set_slider("oral mucocele", 0)  # a prior of zero drops the label, whatever the text says
    until(lambda: page.count() > moves)
    assert before > page.value("oral mucocele") == 0
    until(page.settled)
    assert "oral mucocele" not in page("decision-title").text
    shown = [sheet.text for sheet in page("evidence-list").find_elements(By.TAG_NAME, "h3")]
    assert shown  # the evidence is that of the answer at rest
    assert not any(title.startswith("oral mucocele") for title in shown)
    page("reset-prior").click()
    until(lambda: page.value("oral mucocele") == before)
    until(page.settled)
    assert "oral mucocele" in page("decision-title").text
    assert page.errors() == []


def test_moves_are_not_recorded_and_the_answer_at_rest_is(live: Live, page: Page) -> None:
    audit = live.app.state.simdx.audit
    records, _ = audit.head()
    page.browser.execute_script(
        "const s = document.querySelector('input[data-label=\"oral mucocele\"]');"
        "for (let v = 10; v <= 60; v += 1) {"
        "  s.value = v; s.dispatchEvent(new Event('input', {bubbles: true}));"
        "}"
    )
    until(page.settled)
    answered = audit.page(limit=1)[0]
    assert audit.head()[0] == records + 1
    assert answered.to_json()["prior"]["oral mucocele"] == pytest.approx(0.6)
    assert answered.id in page("origin").text
    said = answered.to_json()["answer"]
    shown = [100 * said["posterior"][outcome] for outcome in OUTCOMES]
    assert [page.value(outcome) for outcome in OUTCOMES] == pytest.approx(shown, abs=0.11)


PANEL_LABELS = ("oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis")
OUTCOMES = (*PANEL_LABELS, "none of these")


def test_a_prior_is_set_for_one_case(live: Live, page: Page) -> None:
    page.set_slider("oral mucocele", 90)
    until(page.settled)
    page.classify(ULCER)
    audit = live.app.state.simdx.audit
    assert audit.page(limit=1)[0].to_json()["prior"]["oral mucocele"] == pytest.approx(1 / 3)
    assert "was reset" in page("prior-note").text
    page("last-prior").click()
    until(page.settled)
    until(lambda: audit.page(limit=1)[0].to_json()["prior"]["oral mucocele"] == pytest.approx(0.9))
    assert not page("prior-note").is_displayed()


def test_an_answer_to_another_text_is_not_shown_as_one_to_this(browser: Any, page: Page) -> None:
    shown = ("result", "evidence-card", "after")

    def inert() -> list[bool]:
        return [
            browser.execute_script("return document.getElementById(arguments[0]).inert", i) for i in shown
        ]

    assert inert() == [False] * 3
    page("text").send_keys(" It bleeds.")
    assert inert() == [True] * 3
    assert "out of date" in page("outdated").text
    assert float(page("result").value_of_css_property("opacity")) < 0.5
    for _ in " It bleeds.":
        page("text").send_keys(Keys.BACKSPACE)
    assert inert() == [False] * 3  # it is the text that was answered again
    assert not page("outdated").is_displayed()
    page("text").send_keys(Keys.CONTROL, "a")
    page("text").send_keys(Keys.DELETE)
    assert not any(page(name).is_displayed() for name in shown)
    assert page("waiting").is_displayed()
    page.classify(ULCER)
    assert inert() == [False] * 3


def test_no_final_diagnosis_is_chosen_for_the_reader(live: Live, page: Page) -> None:
    records, _ = live.app.state.simdx.audit.head()
    assert page("feedback-label").get_attribute("value") == ""
    page.browser.find_element(By.CSS_SELECTOR, "#feedback-form button").click()
    until(lambda: "nothing was recorded" in page("feedback-said").text)
    assert live.app.state.simdx.audit.head()[0] == records
    page("feedback-label").send_keys("none of these")
    page.browser.find_element(By.CSS_SELECTOR, "#feedback-form button").click()
    until(lambda: "differs" in page("feedback-said").text)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_keyboard_is_enough(browser: Any, blank: Page, width: int) -> None:
    """From the top of the page by Tab alone: the text, the button, a prior; the answer is read out."""
    blank.looks(width)
    spoken = "const s = document.getElementById('spoken'); return [s.getClientRects().length, s.textContent]"
    assert browser.execute_script(spoken) == [1, ""]  # there before it has anything to say
    reached = []

    def tab_to(name: str) -> Any:
        for _ in range(60):
            reached.append(browser.execute_script("return document.activeElement.id"))
            if reached[-1] == name:
                return blank(name)
            webdriver.ActionChains(browser).send_keys(Keys.TAB).perform()
        raise AssertionError(f"{name} was not reached: {reached}")

    tab_to("text").send_keys(ULCER)
    tab_to("classify").send_keys(Keys.ENTER)
    until(lambda: blank("result").is_displayed())
    until(lambda: blank("decision-title").text in browser.execute_script(spoken)[1])
    moves, slider = blank.count(), tab_to("prior-0")
    before = int(slider.get_attribute("value"))
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    until(lambda: blank.count() > moves)
    assert int(slider.get_attribute("value")) == before + 3
    tab_to("reset-prior")
    tab_to("feedback-label")
    assert {"theme", "panel", "method"} <= set(reached)
    blank("text").send_keys(Keys.CONTROL, Keys.ENTER)  # and a short way from the text
    until(lambda: blank("classify").is_enabled() and blank.settled())


def test_an_empty_case_is_an_error_at_the_field(blank: Page) -> None:
    blank("text").send_keys("   ")
    blank("classify").click()
    until(lambda: blank("text-error").is_displayed())
    assert "empty" in blank("text-error").text
    assert blank("text").get_attribute("aria-invalid") == "true"
    assert blank.browser.switch_to.active_element.get_attribute("id") == "text"
    assert not blank("result").is_displayed()
    blank.classify(TEXT)
    assert not blank("text-error").is_displayed()


def test_text_is_text(blank: Page) -> None:
    blank.classify(
        "<img src=x onerror=\"document.title='hacked'\"> A bluish lip. <b>Soft</b> swelling of the lip."
    )
    assert "<b>Soft</b>" in blank("evidence-case").text
    assert blank.browser.title != "hacked"
    assert not blank.browser.find_elements(By.CSS_SELECTOR, "#evidence-case img")


def test_a_csv_goes_in_and_a_csv_comes_out(browser: Any, live: Live, tmp_path: Path) -> None:
    (tmp_path / "down").mkdir()
    source = tmp_path / "cases.csv"
    odd = f'{ULCER}\nSecond line, with a comma and a "quote".'
    rows = [["id", "text"], ["1", TEXT], ["2", odd], ["3", "  "],
            *[[str(i), f"{TEXT} Visit {i}."] for i in range(4, 40)], ["=1+1", ULCER]]  # fmt: skip
    with source.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    page = Page(browser, live.url, "#batch")
    page.answered(source)
    assert page("batch-column").find_element(By.CSS_SELECTOR, "option:checked").text == "text"
    assert page("batch-said").text == "39 of 39 rows: done."
    assert "1 empty" in page("batch-tally").text
    assert "null" not in page("batch-tally").text
    assert page.browser.execute_script("return document.getElementById('batch-bar').value") == 38 + 1
    page("batch-download").click()
    saved = tmp_path / "down" / "cases-oral-lesions.csv"
    until(saved.exists)
    results = list(csv.reader(io.StringIO(saved.read_text(encoding="utf-8"))))
    assert len(results) == len(rows)
    header = results[0]
    assert results[1][header.index("simdx_label")] == "oral mucocele"
    probabilities = [float(results[1][header.index(f"p({label})")]) for label in OUTCOMES]
    assert sum(probabilities) == pytest.approx(1)
    assert results[3][header.index("reason")] == "not classified"
    assert results[-1][0] == "'=1+1"  # a formula is not let through
    page("batch-file").send_keys(str(_written(tmp_path / "empty.csv", b"text\n")))
    until(lambda: page("batch-error").is_displayed())
    page("batch-file").send_keys(str(_written(tmp_path / "latin.csv", b"text\n\xe9\xff\n")))
    until(lambda: "UTF-8" in page("batch-error").text)
    assert page("batch-column").find_elements(By.TAG_NAME, "option") == []  # not those of the file before
    page("batch-file").send_keys(str(_written(tmp_path / "ragged.csv", b"text\nA hard, painless node.\n")))
    until(lambda: "more fields than the header" in page("batch-error").text)
    prose = b"A firm ulcer of the tongue for three months with a raised margin " * 2 + b"\nA hard node.\n"
    pages = (b"<!DOCTYPE html>\n<p>a, b</p>\n", b"\n<html><body>\n<p>\n", b'[{"text": "x"},\n{}]\n', prose)
    for n, data in enumerate(pages):
        page("batch-file").send_keys(str(_written(tmp_path / "good.csv", b"id,text\n1,A blue lip.\n")))
        until(lambda: page("batch-run").is_enabled())
        page("batch-file").send_keys(str(_written(tmp_path / f"page{n}.csv", data)))
        until(lambda: "not CSV" in page("batch-error").text)
        assert not page("batch-run").is_enabled()
        assert not page("batch-column").is_enabled()
        assert page("batch-column").find_elements(By.TAG_NAME, "option") == []
    assert page.errors() == []


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_feedback_and_the_audit_view(page: Page) -> None:
    page("feedback-label").send_keys("oral mucocele")
    page.browser.find_element(By.CSS_SELECTOR, "#feedback-form button").click()
    until(lambda: "agrees" in page("feedback-said").text)
    page.browser.find_element(By.CSS_SELECTOR, 'a[data-view="audit"]').click()
    until(lambda: page.browser.find_elements(By.CSS_SELECTOR, "#audit-rows tr"))
    assert "feedback" in page.browser.find_element(By.CSS_SELECTOR, "#audit-rows tr").text
    page("audit-verify").click()
    until(lambda: "The log is intact" in page("audit-said").text)
    assert TEXT not in page.browser.page_source.split("view-audit")[1]


def test_a_token_is_asked_for_and_used(browser: Any, tmp_path: Path) -> None:
    config = make_config(tmp_path, require_token=True)
    token, _ = TokenFile(tmp_path / "tokens.json").new("page", ("classify",))
    with Live(create_app(config)) as service:
        browser.get(service.url)
        field = until(lambda: (f := browser.find_element(By.ID, "token")).is_displayed() and f)
        field.send_keys(token, Keys.ENTER)
        until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")
        browser.find_element(By.ID, "text").send_keys(TEXT)
        browser.find_element(By.ID, "classify").click()
        until(lambda: browser.find_element(By.ID, "result").is_displayed())
        assert browser.execute_script("return localStorage.length") == 0


def test_green_is_for_a_promise(browser: Any, page: Page) -> None:
    title = page("decision-title").text
    assert title in ("Accept: oral mucocele, over 99 %", "Likely: oral mucocele, over 99 %")
    assert ("no error rate guaranteed" in page("decision-notes").text) == title.startswith("Accept")
    accept = browser.execute_script(
        "return getComputedStyle(document.documentElement).getPropertyValue('--accept-ground')"
    ).strip()
    green = tuple(int(accept[i : i + 2], 16) for i in (1, 3, 5))

    def ground() -> tuple[int, ...]:
        shown = page("decision").value_of_css_property("background-color")
        return tuple(int(v) for v in shown.partition("(")[2].rstrip(")").split(",")[:3])

    assert ground() != green
    browser.execute_script("document.getElementById('decision').toggleAttribute('data-promised', true)")
    assert (ground() == green) == title.startswith("Accept")  # nothing else is green, whatever is promised


def test_page_and_html_say_the_same_headline(blank: Page, cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    for text in (TEXT, ULCER, "A throbbing headache on one side since yesterday."):
        blank.classify(text)
        assert cli("classify", text, "--panel", PANEL, "--html", tmp_path / "a.html").code == 0
        assert f"<b>{blank('decision-title').text}</b>" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_no_request_goes_to_another_host(browser: Any, live: Live, page: Page) -> None:
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"])
    assert asked
    assert all(url.startswith((live.url, "data:", "blob:", "chrome:", "about:")) for url in asked), asked


def serious(browser: Any) -> list[str]:
    """What axe-core finds that keeps somebody from using the page; what is switched off is left out."""
    browser.execute_script((resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run({exclude: [['[inert]']]}, {resultTypes: ['violations']}).then((r) => done(r.violations));"
    )
    return [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_overflows(
    browser: Any, blank: Page, width: int, scheme: str
) -> None:
    blank.looks(width, scheme)
    assert serious(browser) == []
    for text in (TEXT, "A throbbing headache on one side since yesterday."):
        blank.classify(text)
        assert serious(browser) == []
    blank("second-title").click()
    assert serious(browser) == []
    blank("text").send_keys(" More.")
    assert serious(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(int(c) for c in ground.strip("rgb()").split(",")[:3]) < 3 * 128) is (scheme == "dark")
    blank("theme").click()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != ground
    for view in ("batch", "new", "dozen", "audit"):
        blank.browser.find_element(By.CSS_SELECTOR, f'a[data-view="{view}"]').click()
        until(lambda view=view: blank(f"view-{view}").is_displayed())
        assert serious(browser) == []


def test_an_example_is_one_click_away(blank: Page) -> None:
    offered = load_panel("oral-lesions").examples
    buttons = blank("example-list").find_elements(By.TAG_NAME, "button")
    assert [b.text for b in buttons] == [e.title for e in offered]
    assert "invented" in blank("examples").text
    for button, example in zip(buttons[:2], offered, strict=False):
        before = int(blank("result").get_attribute("data-answers") or 0)
        button.click()
        until(lambda before=before: int(blank("result").get_attribute("data-answers") or 0) > before)
        assert blank("text").get_attribute("value") == example.text
        doubts = blank("alarm-words").text + blank("decision").text
        assert doubts.count("4 other readings of the text") == 1  # with the decision, or below it
    # Several reasons are a list, and nothing is said twice.
    reasons = [item.text for item in blank("decision-reasons").find_elements(By.TAG_NAME, "li")]
    assert len(reasons) > 1
    assert all(reason not in blank("decision-reason").text for reason in reasons)
    assert "clinician" in blank("disclaimer").text


def of_tickets(folder: Path) -> dict[str, str | None]:
    return {str(panel): str(bank) for panel, bank in [tickets(folder)]}


def test_a_general_panel_speaks_of_no_clinic_and_notes_stand_beside_the_decision(
    browser: Any, tmp_path: Path
) -> None:
    with Live(application.create_app(make_config(tmp_path, panels=of_tickets(tmp_path)))) as service:
        page = Page(browser, service.url)
        assert not page("examples").is_displayed()
        page.classify("My parcel is a week late.")
        assert "default thresholds are used" in page("decision-notes").text
        for view in ("batch", "new", "dozen", "audit", "case"):
            browser.find_element(By.CSS_SELECTOR, f'a[data-view="{view}"]').click()
            seen = browser.find_element(By.TAG_NAME, "body").text.casefold()
            assert "no substitute" in seen
            assert not any(word in seen for word in ("clinic", "medical", "diagnos", "patient", "disease"))
        page.browser.find_element(By.CSS_SELECTOR, 'a[data-view="batch"]').click()
        page.answered(_written(tmp_path / "cases.csv", b"text\n" + b"My parcel is a week late.\n" * 20))
        assert page("batch-notes").text.count("default thresholds are used") == 1
        assert page.errors() == []


def test_the_page_follows_the_panel(browser: Any, tmp_path: Path) -> None:
    panels = {"oral-lesions": None, **of_tickets(tmp_path)}

    def choose(select: str, panel: str) -> None:
        page(select).find_element(By.CSS_SELECTOR, f'option[value="{panel}"]').click()

    with Live(application.create_app(make_config(tmp_path, panels=panels))) as service:
        # The batch view has the panel that was chosen, by the address or in the other view.
        page = Page(browser, service.url, "?panel=tickets#batch")
        assert page("batch-panel").get_attribute("value") == "tickets"
        assert "clinician" not in page("disclaimer").text
        page.answered(_written(tmp_path / "cases.csv", b"text\nMy parcel is late.\n"))
        choose("batch-panel", "oral-lesions")
        assert not page("batch-results").is_displayed()
        page.browser.find_element(By.CSS_SELECTOR, 'a[data-view="case"]').click()
        until(lambda: "clinician" in page("disclaimer").text)
        assert page("panel").get_attribute("value") == "oral-lesions"
        # An example goes with its panel, a text of one's own stays.
        page("example-list").find_element(By.TAG_NAME, "button").click()
        until(lambda: page("result").is_displayed())
        choose("panel", "tickets")
        assert page("text").get_attribute("value") == ""
        assert "clinician" not in page("disclaimer").text
        page("text").send_keys("My parcel is late.")
        choose("panel", "oral-lesions")
        assert page("text").get_attribute("value") == "My parcel is late."
        assert page.errors() == []
