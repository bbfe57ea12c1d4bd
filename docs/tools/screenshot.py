"""The picture of the page in the README: `python docs/tools/screenshot.py` writes docs/pictures/page.png.

It starts `simdx serve`, types the README's case into headless Chromium and photographs the answer. Needs
Chromium with its driver and the extra `dev`.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from simdx.bench.service import running_service

TARGET = Path(__file__).resolve().parents[2] / "docs/pictures/page.png"
CASE = (
    "For three months a hard ulcer with raised edges on the side of the tongue. "
    "It bleeds when touched. Smoker, 61."
)
WIDTH, HEIGHT = 1200, 860
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", f"--window-size={WIDTH},{HEIGHT}",
)  # fmt: skip


def photograph(url: str, profile: str) -> bytes:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))) as browser:
        wait = WebDriverWait(browser, 60)
        browser.get(url)
        wait.until(lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes")
        metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.find_element(By.ID, "text").send_keys(CASE)
        for count in (1, 2):  # the second answer: the first one also waited for the panel's files
            browser.find_element(By.ID, "classify").click()
            wait.until(lambda b, n=count: b.find_elements(By.CSS_SELECTOR, f"#result[data-count='{n}']"))
        time.sleep(1)  # drawn, and nothing moves any more
        browser.execute_script("window.scrollTo(0, 0)")
        return browser.get_screenshot_as_png()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), "oral-lesions") as service:
        picture = Image.open(
            io.BytesIO(photograph(f"http://{service.host}:{service.port}", f"{folder}/profile"))
        )
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
