"""Building a bank: nothing lost, nothing asked twice, every ending a clean one."""

import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simdx.bank import builder
from simdx.bank.builder import REJECTED_FILE, build_bank
from simdx.bank.files import problems_of, read_bank, read_manifest
from simdx.bank.plan import BuildSettings
from simdx.bank.store import (
    GIVE_UP_AFTER,
    STORE_FILE,
    BuildLimits,
    BuildReport,
    estimate,
    open_store,
    read_answers,
)
from simdx.disk import sealed
from simdx.errors import BadInput
from simdx.panels import load_panel
from simdx.simulators.base import Completion, Request
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Panel

SETTINGS = BuildSettings(per_label=6, background=5)
NEVER = BuildLimits(least_yield=0.0)  # no yield is too low


def build(panel: Panel, out: Path, simulator: ScriptedSimulator | None = None, **limits: int) -> BuildReport:
    return build_bank(panel, simulator or ScriptedSimulator(), SETTINGS, out, BuildLimits(**limits))


def answered_keys(out: Path) -> list[str]:
    return [a.key for a in read_answers(out / STORE_FILE) if a.error is None]


def test_a_build_is_complete_verified_and_readable(toy_panel: Panel, tmp_path: Path) -> None:
    prices = BuildLimits(price_in=2.0, price_out=4.0)
    report = build_bank(toy_panel, ScriptedSimulator(), SETTINGS, tmp_path / "bank", prices)
    assert report.complete
    assert report.cost == pytest.approx((2 * report.prompt_tokens + 4 * report.completion_tokens) / 1e6)
    with ThreadPoolExecutor(1) as pool:  # away from the main thread, where signals come in
        assert pool.submit(build, toy_panel, tmp_path / "unpriced").result().cost is None
    assert list(problems_of(tmp_path / "bank")) == []
    bank = read_bank(tmp_path / "bank", toy_panel)
    assert bank.counts == {"apple": 6, "river": 6, "engine": 6}
    assert len(bank.background) == 5
    assert bank.hash == report.hash
    manifest = read_manifest(tmp_path / "bank")
    assert manifest["simulator"] == "scripted"
    assert manifest["settings"]["temperature"] == SETTINGS.temperature
    row = json.loads((tmp_path / "bank" / "bank.jsonl").read_text().splitlines()[0])
    assert row["facets"]["who"]


def test_poor_texts_are_rejected_with_reasons_kept_and_replaced(toy_panel: Panel, tmp_path: Path) -> None:
    simulator = ScriptedSimulator(refusal=0.2, empty=0.1, loop=0.1, leak=0.1)
    report = build(toy_panel, tmp_path / "bank", simulator)
    assert report.complete
    assert report.answers == simulator.calls == sum(report.usable.values()) + sum(report.rejected.values())
    kept = [json.loads(line) for line in (tmp_path / "bank" / REJECTED_FILE).read_text().splitlines()]
    told = read_manifest(tmp_path / "bank")["rejected"]
    assert Counter(row["reason"] for row in kept) == report.rejected == told
    assert {"refusal", "empty", "repeats itself"} <= set(report.rejected)


def test_limits_stop_a_run_and_the_next_goes_on(toy_panel: Panel, tmp_path: Path) -> None:
    out, asked = tmp_path / "bank", 0
    for _ in range(20):
        simulator = ScriptedSimulator()
        report = build(toy_panel, out, simulator, max_requests=4)
        assert simulator.calls <= 4
        asked += simulator.calls
        if report.complete:
            break
        assert report.stopped == "--max-requests 4 reached"
        assert not (out / "manifest.json").exists()
    assert report.complete
    assert asked == len(answered_keys(out)) == len(set(answered_keys(out)))
    whole = build(toy_panel, tmp_path / "at-once")
    assert report.hash == whole.hash
    report = build(toy_panel, tmp_path / "tokens", ScriptedSimulator(concurrency=1), max_tokens=300)
    assert not report.complete
    # The request that crosses the line is kept.
    assert 300 <= report.prompt_tokens + report.completion_tokens < 600


def test_failed_requests_are_asked_again_and_give_way_in_the_end(toy_panel: Panel, tmp_path: Path) -> None:
    out = tmp_path / "bank"
    report = build(toy_panel, out, ScriptedSimulator(error=0.4))
    failed = [a for a in read_answers(out / STORE_FILE) if a.error]
    assert len(failed) == report.failed > 0
    again = ScriptedSimulator()
    assert build(toy_panel, out, again).complete
    assert again.calls == len(failed)
    for _ in range(GIVE_UP_AFTER):
        build(toy_panel, tmp_path / "other", ScriptedSimulator(error=0.3, error_attempts=99))
    assert build(toy_panel, tmp_path / "other", ScriptedSimulator()).complete


LEAKS = {"which you must not name": ["An apple, a river and an engine were all there was on that day."]}
LARGER, DESCRIBE = "take a larger model", "describe the label in the panel file without its name"


@pytest.mark.parametrize(
    ("poor", "per_label", "limits", "said", "most"),
    [
        (ScriptedSimulator(error=1.0, error_attempts=9), 100, NEVER, "in a row", 40),
        (ScriptedSimulator(refusal=1.0), 1, NEVER, f"0 are usable (60 rejected: refusal): {LARGER}", 181),
        # After forty texts of a label, not after forty for every one that is wanted.
        (ScriptedSimulator(refusal=0.95), 50, None, f"rejected: refusal): {LARGER}", 150),
        (ScriptedSimulator(LEAKS), 50, None, f"rejected: names its label): {DESCRIBE}", 150),
    ],
    ids=["dead", "unable", "refusing", "leaking"],
)
def test_a_simulator_that_is_no_use_is_given_up(
    toy_panel: Panel, tmp_path: Path, poor: ScriptedSimulator, per_label: int, limits: BuildLimits | None,
    said: str, most: int,
) -> None:  # fmt: skip
    settings, out, again = BuildSettings(per_label=per_label), tmp_path / "bank", ScriptedSimulator()
    report = build_bank(toy_panel, poor, settings, out, limits)
    assert not report.complete
    assert said in str(report.stopped)
    assert poor.calls < most
    if limits is None:
        assert said in str(build_bank(toy_panel, again, settings, out).stopped)
        assert again.calls == 0
        assert build_bank(toy_panel, again, settings, out, NEVER).complete


class Batches(ScriptedSimulator):
    """Answers a whole batch before it takes the next, as a model on a GPU does."""

    def __init__(self, *, lockstep: bool) -> None:
        super().__init__(refusal=0.6)
        self.lockstep, self.batches = lockstep, 0

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        source = enumerate(requests)
        while taken := list(itertools.islice(source, 64)):
            self.batches += 1
            yield from [(position, self.answer(request)) for position, request in taken]


def test_asking_ahead_takes_fewer_rounds_and_gives_the_same_bank(toy_panel: Panel, tmp_path: Path) -> None:
    settings = BuildSettings(per_label=40)
    plain, ahead = Batches(lockstep=False), Batches(lockstep=True)
    wanted = build_bank(toy_panel, plain, settings, tmp_path / "plain")
    got = build_bank(toy_panel, ahead, settings, tmp_path / "ahead")
    assert got.complete
    assert (got.hash, got.answers, got.rejected) == (wanted.hash, wanted.answers, wanted.rejected)
    assert ahead.batches < plain.batches
    assert plain.calls <= ahead.calls < 2 * plain.calls
    keys = answered_keys(tmp_path / "ahead")
    assert len(keys) == len(set(keys)) == ahead.calls


def test_folders_of_something_or_somebody_else_are_left_alone(toy_panel: Panel, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    with pytest.raises(BadInput, match="not empty"):
        build(toy_panel, tmp_path / "letters")
    build(toy_panel, tmp_path / "bank")
    with open_store(tmp_path / "bank"), pytest.raises(BadInput, match="another build is running"):
        build(toy_panel, tmp_path / "bank")
    other = Panel("other", toy_panel.labels[:2], register="plain")
    with pytest.raises(BadInput, match="another panel"):
        build(other, tmp_path / "bank")


@pytest.mark.parametrize("cut", [1, 2, 200])
def test_a_torn_last_line_is_repaired(cut: int, toy_panel: Panel, tmp_path: Path) -> None:
    out = tmp_path / "bank"
    build(toy_panel, out, ScriptedSimulator(concurrency=1), max_requests=8)
    path = out / STORE_FILE
    path.write_bytes(path.read_bytes()[:-cut])
    simulator = ScriptedSimulator()
    report = build(toy_panel, out, simulator)
    assert report.complete
    # Without its line break the last row is still whole; with more missing it is asked for again.
    assert simulator.calls == 23 - (8 if cut == 1 else 7)
    assert len(answered_keys(out)) == len(set(answered_keys(out))) == 23


def test_a_dry_run_estimates_and_writes_nothing(toy_panel: Panel, tmp_path: Path) -> None:
    out = tmp_path / "bank"
    before = estimate(toy_panel, "scripted", SETTINGS, out, BuildLimits(price_in=1.0))
    assert not out.exists()
    assert (before.wanted, before.usable, before.requests_at_least, before.measured) == (23, 0, 23, False)
    assert before.cost is not None
    build(toy_panel, out, max_requests=10)
    midway = estimate(toy_panel, "scripted", SETTINGS, out, BuildLimits())
    assert midway.usable == 10
    assert midway.measured
    assert midway.requests_expected == 13
    build(toy_panel, out)
    assert estimate(toy_panel, "scripted", SETTINGS, out, BuildLimits()).requests_at_least == 0
    warm = replace(SETTINGS, temperature=0.3)  # answers under other settings are not used again
    assert estimate(toy_panel, "scripted", warm, out, BuildLimits()).requests_at_least == 23


def start(out: Path, delay: float) -> subprocess.Popen[str]:
    command = ["bank", "build", "--panel", "oral-lesions", "--per-label", "12", "--background", "10"]
    command += ["--out", str(out), "--simulator", f"scripted:delay={delay},refusal=.15,concurrency=4"]
    return subprocess.Popen([sys.executable, "-m", "simdx", *command], stderr=subprocess.PIPE, text=True)


def rows_in(out: Path) -> int:
    return (out / STORE_FILE).read_bytes().count(b"\n") if (out / STORE_FILE).exists() else 0


def test_a_second_interrupt_leaves_at_once_with_one_line(tmp_path: Path) -> None:
    process = start(tmp_path / "bank", 2.0)
    while process.poll() is None and not (tmp_path / "bank" / STORE_FILE).exists():
        time.sleep(0.01)
    for _ in range(2):
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said.splitlines()[-1]) == (130, "simdx: interrupted")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_build_that_is_stopped_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    """With several requests under way; tests/faults kills a build as it puts its files in place."""
    out = tmp_path / "bank"
    process = start(out, 0.3)  # so slow that it cannot end before the signal
    while process.poll() is None and rows_in(out) < 11:
        time.sleep(0.002)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    if number == signal.SIGINT:
        assert process.returncode == 1
        assert re.search("interrupted.* run the same command again", said.splitlines()[-1])
        assert "stopping when the texts under way are written" in said  # heard, though it takes a while
        assert "Traceback" not in said
    with open_store(out):
        pass  # opening repairs a torn line
    kept = set(answered_keys(out))
    process = start(out, 0.0)
    process.communicate(timeout=120)
    assert process.returncode == 0
    settings, panel = BuildSettings(per_label=12, background=10), load_panel("oral-lesions")
    undisturbed = build_bank(panel, ScriptedSimulator(refusal=0.15), settings, tmp_path / "undisturbed")
    keys = answered_keys(out)
    assert kept <= set(keys) == set(answered_keys(tmp_path / "undisturbed"))  # nothing else was asked
    assert len(keys) == len(set(keys))
    assert list(problems_of(out)) == []
    assert read_manifest(out)["hash"] == undisturbed.hash


# --------------------------------------------------------------------------- a finished bank

FINISHED = BuildSettings(per_label=4, background=3)


@pytest.fixture
def finished(toy_panel: Panel, tmp_path: Path) -> Path:
    assert build_bank(toy_panel, ScriptedSimulator(), FINISHED, tmp_path / "bank").complete
    return tmp_path / "bank"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0.3}, "--temperature 0.8, not 0.3: choose another --out"),
        ({"max_tokens": 50}, "--max-new 120, not 50"),
        ({"seed": 1, "top_p": 0.5}, "--top-p 0.95, not 0.5; --seed 0, not 1"),
        ({"simulator": "another"}, "simulator scripted, not the one given: choose another --out"),
        ({"per_label": 3}, "give at least --per-label 4, or another --out"),
        ({"per_label": 9, "background": 2}, "give at least --background 3, or"),
        ({"per_label": 1, "background": 0}, "--per-label 4 and --background 3"),
    ],
)
def test_another_or_a_smaller_bank_is_refused(
    change: dict[str, Any], said: str, finished: Path, toy_panel: Panel
) -> None:
    before, simulator = contents(finished), ScriptedSimulator()
    simulator.id = change.get("simulator", simulator.id)
    settings = replace(FINISHED, **{name: value for name, value in change.items() if name != "simulator"})
    with pytest.raises(BadInput) as refused:
        build_bank(toy_panel, simulator, settings, finished)
    assert said in str(refused.value)
    assert "nothing was changed" in str(refused.value)
    assert simulator.calls == 0
    assert contents(finished) == before


@pytest.mark.parametrize("change", [{"per_label": 6}, {"background": 5}, {"max_tokens": 120}, {}])
def test_growing_keeps_every_text(change: dict[str, Any], finished: Path, toy_panel: Panel) -> None:
    old, before, simulator = read_bank(finished, toy_panel), contents(finished), ScriptedSimulator()
    assert build_bank(toy_panel, simulator, replace(FINISHED, **change), finished).complete
    new = read_bank(finished, toy_panel)
    assert set(old.texts) <= set(new.texts)
    assert set(old.background) <= set(new.background)
    assert simulator.calls == len(new.texts) + len(new.background) - len(old.texts) - len(old.background)
    assert list(problems_of(finished)) == []
    assert bool(change) or contents(finished) == before  # the same again changes no byte


def test_a_bank_that_finished_while_the_lock_was_awaited_is_kept(
    finished: Path, toy_panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look found no manifest; the look under the lock does."""
    looks = iter([lambda *_: None, builder.refuse_lesser])
    monkeypatch.setattr(builder, "refuse_lesser", lambda *given: next(looks)(*given))
    before = contents(finished)
    with pytest.raises(BadInput, match="larger finished bank"):
        build_bank(toy_panel, ScriptedSimulator(), replace(FINISHED, per_label=1), finished)
    assert contents(finished) == before


def test_a_manifest_that_does_not_say_how_is_not_replaced(finished: Path, toy_panel: Panel) -> None:
    kept = {k: v for k, v in read_manifest(finished).items() if k not in ("settings", "seal")}
    (finished / "manifest.json").write_text(json.dumps(sealed(kept)), encoding="utf-8")
    with pytest.raises(BadInput, match="does not say how it was built"):
        build_bank(toy_panel, ScriptedSimulator(), FINISHED, finished)


def test_a_background_without_a_manifest_does_not_stay(toy_panel: Panel, tmp_path: Path) -> None:
    """As a kill leaves it between the background's file and the manifest."""
    out = tmp_path / "bank"
    build_bank(toy_panel, ScriptedSimulator(), FINISHED, out, BuildLimits(max_requests=3))
    (out / "background.jsonl").write_text('{"condition": "x", "text": "a stone"}\n')
    assert build_bank(toy_panel, ScriptedSimulator(), replace(FINISHED, background=0), out).complete
    assert not (out / "background.jsonl").exists()
    assert read_bank(out, toy_panel).background == ()
