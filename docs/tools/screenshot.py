"""The picture of the page in the README: `python docs/tools/screenshot.py` writes docs/pictures/page.png.

It starts `simdx serve`, types the README's case into headless Chromium and photographs the answer. Needs
Chromium with its driver and the extra `dev`.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs/pictures/page.png"
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
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.get(url)
        _until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")
        metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.find_element(By.ID, "text").send_keys(CASE)
        for count in ("1", "2"):  # the second answer: the first one also waited for the panel's files
            browser.find_element(By.ID, "classify").click()
            shown = f"#result[data-count='{count}']"
            _until(partial(browser.find_elements, By.CSS_SELECTOR, shown))
        time.sleep(1)  # drawn, and nothing moves any more
        browser.execute_script("window.scrollTo(0, 0)")
        return browser.get_screenshot_as_png()
    finally:
        browser.quit()


def _until(holds: Callable[[], object], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError("the page did not answer")
        time.sleep(0.1)


def main() -> None:
    command = [
        sys.executable,
        "-m",
        "simdx",
        "serve",
        "--port",
        "0",
        "--panel",
        "oral-lesions",
        "--audit",
        "none",
    ]
    with (
        tempfile.TemporaryDirectory() as profile,
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service,
    ):
        try:
            assert service.stderr is not None
            url = next(m[0] for line in service.stderr if (m := re.search(r"http://127[\d.]+:\d+", line)))
            picture = Image.open(io.BytesIO(photograph(url, profile)))
        finally:
            service.terminate()
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
