"""How long a prior slider's move takes in a real browser, from the key press to the frame that shows it.

The service runs as a user would start it, with all packaged panels and an audit log. Debian's Chromium,
headless, opens its page on loopback, takes the panel's doubtful example, and presses the arrow keys on the
first prior slider. Nothing watches while a move is under way: the page's own clock notes, for each move,

    asked     the question was on its way (the browser's own timing of the request)
    answered  its last byte was there
    shown     the new bars were in the document
    painted   the frame with them had been drawn
    answer    the answer under that prior was there too, with its decision, pictures and record: the page
              asks for it once the slider has rested

all in milliseconds since the browser's `input` event. The aim is a median `painted` under 50 ms. The
machine's load at the start is recorded: a figure from a busy machine is none. The sentence in docs/service.md
is written from the record.

    python benchmarks/slider.py
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from simdx import __version__
from simdx.experiments.records import current_commit
from simdx.panels import PACKAGED, load_panel

ROOT = Path(__file__).resolve().parents[1]
MARKS = ("<!-- slider -->", "<!-- /slider -->")
REST_MS = 150  # REST in the page's case.js
MOVES = 30
DOUBTFUL = 1  # of the examples: its posterior moves with the prior
WARM_UP = 5
PAUSE = 0.3  # seconds between two moves: each is measured alone, with its answer out of the way
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--window-size=1280,1600")  # fmt: skip
HOPS = ("asked", "answered", "shown", "painted", "answer")
WATCH = """
const result = document.getElementById("result"), moves = (window.moves = []);
addEventListener("input", (event) => moves.push({ at: event.timeStamp }), true);
new MutationObserver(() => {
  const move = moves.at(-1);
  if (!move || move.shown) return;
  move.shown = performance.now() - move.at;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { move.painted = performance.now() - move.at; };
    channel.port2.postMessage(0);
  });
}).observe(result, { attributes: true, attributeFilter: ["data-count"] });
new MutationObserver(() => { if (moves.length) moves.at(-1).answer = performance.now() - moves.at(-1).at; })
  .observe(result, { attributes: true, attributeFilter: ["data-answers"] });
performance.clearResourceTimings();
"""
DONE = "const move = window.moves.at(-1); return move.painted > 0 && move.answer > 0"
READ = """
const asked = performance.getEntriesByType("resource").filter((e) => e.name.includes("/v1/explore/"));
return window.moves.map((move) => {
  const request = asked.find((e) => e.startTime >= move.at);
  return { asked: request.requestStart - move.at, answered: request.responseEnd - move.at,
           shown: move.shown, painted: move.painted, answer: move.answer };
});
"""


@contextmanager
def service(folder: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """The address of a service with every packaged panel and an audit log of its own."""
    command = [
        sys.executable, "-m", "simdx", "serve", "--port", "0",
        "--audit", f"sqlite:///{folder / 'audit.sqlite3'}", "--audit-key", str(folder / "audit.key"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stderr is not None
        said = next((line for line in process.stderr if "simdx service on" in line), "")
        address = re.search(r"http://\S+", said)
        if address is None:
            raise SystemExit("the service did not start")
        yield address.group()
    finally:
        process.terminate()
        process.wait()


@contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        raise SystemExit("Chromium is not installed (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def measure(chrome: webdriver.Chrome, url: str, panel: str, text: str, moves: int) -> list[dict[str, float]]:
    """Each move's hops in milliseconds, after a few moves that only warm up."""
    chrome.get(f"{url}/?panel={panel}")
    _until(chrome, "return document.documentElement.dataset.ready === 'yes'")
    chrome.execute_script("document.getElementById('text').value = arguments[0]", text)
    chrome.find_element(By.ID, "classify").click()
    _until(chrome, "return !document.getElementById('result').hidden")
    chrome.execute_script("document.getElementById('prior-0').focus()")
    for _ in range(WARM_UP):
        _press(chrome)
    chrome.execute_script(WATCH)
    for _ in range(moves):
        _press(chrome)
        _until(chrome, DONE)
    return [dict(move) for move in chrome.execute_script(READ)]


def _press(chrome: webdriver.Chrome) -> None:
    """One step of the focused slider, by a key press that the browser takes for a real one."""
    key = {"key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
    chrome.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    chrome.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **key})
    time.sleep(PAUSE)


def _until(chrome: webdriver.Chrome, script: str) -> None:
    deadline = time.monotonic() + 60
    while not chrome.execute_script(script):
        if time.monotonic() > deadline:
            raise SystemExit("the page did not get there in a minute")
        time.sleep(0.05)


def summary(moves: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Median and 95th percentile of every hop."""
    out: dict[str, Any] = {"moves": len(moves)}
    for hop in HOPS:
        values = sorted(move[hop] for move in moves)
        rank = min(len(values) - 1, int(0.95 * len(values)))
        out[hop] = {"median_ms": round(statistics.median(values), 1), "p95_ms": round(values[rank], 1)}
    return out


def sentence(record: dict[str, Any]) -> str:
    """What the documentation says of the record."""
    every, panels = record["all"], record["panels"]
    medians = ", ".join(f"{p} {panels[p]['painted']['median_ms']:.0f}" for p in panels)
    said = (
        "A slider's move, from the browser's `input` event to the painted frame with the new bars, in "
        f"headless Chromium on {record['cores']} cores shared with the service "
        f"([record](../benchmarks/results/slider.json)): median {every['painted']['median_ms']:.0f} ms, 95th "
        f"percentile {every['painted']['p95_ms']:.0f} ms over {every['moves']} moves (medians: {medians}); "
        f"the answer at rest, with its record, after {every['answer']['median_ms']:.0f} ms, of which the "
        f"page waits {REST_MS} to see whether the slider goes on."
    )
    return textwrap.fill(said, 112, break_long_words=False, break_on_hyphens=False)


def write_docs(path: Path, record: dict[str, Any]) -> None:
    """Put the sentence between its two marks."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    if not after:
        raise SystemExit(f"{path} has no place for the slider's figures")
    path.write_text(f"{before}{MARKS[0]}\n{sentence(record)}\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="A slider's move in a real browser, measured.")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "slider.json")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "service.md")
    parser.add_argument("--moves", type=int, default=MOVES)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    taken: dict[str, list[dict[str, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="simdx-slider-") as folder,
        service(Path(folder)) as url,
        browser(Path(folder)) as chrome,
    ):
        version = chrome.capabilities["browserVersion"]
        for panel in PACKAGED:
            text = load_panel(panel).examples[DOUBTFUL].text
            taken[panel] = measure(chrome, url, panel, text, arguments.moves)
    record = {
        "command": "python benchmarks/slider.py",
        "commit": current_commit(),
        "versions": {"simdx": __version__, "chromium": version, "python": platform.python_version()},
        "cores": os.cpu_count(),
        "load_before": round(load, 2),
        "all": summary([move for moves in taken.values() for move in moves]),
        "panels": {panel: summary(moves) for panel, moves in taken.items()},
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_docs(arguments.docs, record)
    print(json.dumps(record["all"]))


if __name__ == "__main__":
    main()
