"""Building a bank: request the missing texts, keep every answer, finish or stop cleanly.

The loop has no state that needs saving. Each answer is appended to the store before it is used, and the
state of the build is derived from the store (see `store`). After an interruption the same command therefore
requests only what is missing; at most the requests then running are repeated. The manifest, written last,
marks a bank as complete.

A finished bank may have been cited, scored or shipped by its hash. More texts of the same kind extend it.
Another simulator, other settings or smaller numbers would replace it by another bank; that is refused, and
needs another folder.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from simdx.bank import files
from simdx.bank.plan import BACKGROUND, BankPlan, BuildSettings, Planned, larger_than
from simdx.bank.prompts import WORDING, wording_of
from simdx.bank.store import (
    KNOWN_AFTER,
    STORE_FILE,
    AnswerStore,
    BuildLimits,
    BuildReport,
    StoredAnswer,
    Stratum,
    open_store,
)
from simdx.errors import BadInput
from simdx.simulators.base import Request, Simulator
from simdx.types import Bank, Panel

REJECTED_FILE = "rejected.jsonl"
# So many failures in a row mean that the server is gone, not that requests are bad.
HOPELESS = 24
REMEDY = {
    "names its label": "describe the label in the panel file without its name ('simdx panel describe'), or ",
    "names another label": "say in its description what tells it from the others, or ",
    "near-duplicate": "raise --temperature, say more in its description, or ",
}


def build_bank(
    panel: Panel,
    simulator: Simulator,
    settings: BuildSettings,
    out: Path,
    limits: BuildLimits | None = None,
    watch: Watch = lambda _: None,
) -> BuildReport:
    """Build the bank at `out` up to the settings' numbers, as far as the limits allow."""
    refuse_foreign(out, panel)
    refuse_lesser(out, panel, simulator.id, settings)
    with open_store(out) as store:
        refuse_lesser(out, panel, simulator.id, settings)  # another build may just have finished here
        build = Build(BankPlan(panel, simulator.id, settings), simulator, store, limits or BuildLimits())
        with _stop_on_signal(build):
            build.ask_what_is_missing(watch)
        return build.finish()


class Build:
    """One run, with its progress for display."""

    def __init__(self, plan: BankPlan, simulator: Simulator, store: AnswerStore, limits: BuildLimits) -> None:
        self._plan, self._simulator, self._store, self._limits = plan, simulator, store, limits
        self._strata = {name: Stratum(plan, store, name, simulator.lockstep) for name in plan.targets}
        self._started = time.monotonic()
        self._asked: set[str] = set()  # keys
        self.usable = self._found = self._usable()  # of earlier runs
        self._last_error: str | None = None
        self.wanted = sum(plan.targets.values())
        self.asked = self.answered = self.failed = self.prompt_tokens = self.completion_tokens = 0
        self.rejected = Counter[str]()
        self.stopped: str | None = None

    @property
    def cost(self) -> float | None:
        return self._limits.cost(self.prompt_tokens, self.completion_tokens)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far of usable texts; None before there is one."""
        made = self.usable - self._found
        return self.seconds * (self.wanted - self.usable) / made if made > 0 else None

    # ----------------------------------------------------------------- asking

    def ask_what_is_missing(self, watch: Watch) -> None:
        """Ask in rounds: texts rejected in one round are requested again, by other prompts, in the next."""
        self.stopped = self._why_hopeless()  # of an earlier run's answers
        while self.stopped is None and (due := self._due()):
            self._one_round(due, watch)
            for stratum in self._strata.values():
                stratum.settle()
            self.usable = self._usable()
            self.stopped = self.stopped or self._why_hopeless()

    def _usable(self) -> int:
        return sum(min(s.usable, s.target) for s in self._strata.values())

    def _due(self) -> list[Planned]:
        """Requests in turn over the strata, so that labels grow evenly. A label without judged texts gets
        only a few requests at first; a failed request is left to a later run."""
        parts = [
            [p for p in s.due if p.key not in self._asked][: None if s.is_known else 2 * KNOWN_AFTER]
            for s in self._strata.values()
        ]
        return [planned for turn in zip_longest(*parts) for planned in turn if planned is not None]

    def _one_round(self, due: Sequence[Planned], watch: Watch) -> None:
        failures_in_a_row = 0
        for position, completion in self._simulator.complete(self._requests(due)):
            planned = due[position]
            answer = StoredAnswer.of(planned, self._plan.model, completion)
            self._store.append(answer)
            self.prompt_tokens += completion.prompt_tokens
            self.completion_tokens += completion.completion_tokens
            if answer.error is not None:
                self.failed += 1
                failures_in_a_row += 1
                self._last_error = answer.error
                if failures_in_a_row >= HOPELESS:
                    self.stopped = f"the simulator failed {HOPELESS} times in a row ({answer.error})"
            else:
                self.answered += 1
                failures_in_a_row = 0
                _, reason = self._strata[planned.stratum].judge(planned, answer)
                self.usable += reason is None
                self.rejected.update([] if reason is None else [reason])
            watch(self)

    def _requests(self, due: Sequence[Planned]) -> Iterator[Request]:
        for planned in due:
            self.stopped = self.stopped or self._limit_reached()
            if self.stopped is not None:
                return
            self._asked.add(planned.key)
            self.asked += 1
            yield planned.request

    def _limit_reached(self) -> str | None:
        limits = self._limits
        if limits.max_requests is not None and self.asked >= limits.max_requests:
            return f"--max-requests {limits.max_requests} reached"
        if limits.max_tokens is not None and self.prompt_tokens + self.completion_tokens >= limits.max_tokens:
            return f"--max-tokens {limits.max_tokens} reached"
        return None

    def _why_hopeless(self) -> str | None:
        """Why this simulator cannot write a label, with a remedy; None if there is no such label."""
        for stratum in self._strata.values():
            if stratum.is_hopeless(self._limits.least_yield):
                (reason, n), *_ = stratum.rejected.most_common(1)
                remedy = f"{REMEDY.get(reason, '')}take {larger_than(self._simulator.id)}"
                of = f"of {len(stratum.verdicts)} texts of '{_shown(stratum.name)}'"
                return f"{of} {stratum.usable} are usable ({n} rejected: {reason}): {remedy}"
        return None

    # ----------------------------------------------------------------- finishing

    def finish(self) -> BuildReport:
        """Write why texts were rejected, and the bank if it is complete."""
        strata = self._strata.values()
        verdicts = [v for s in strata for v in s.verdicts]
        poor = [v for v in verdicts if v.reason is not None]
        rejected = {str(reason): n for reason, n in Counter(v.reason for v in poor).most_common()}
        refused = [
            {
                "condition" if v.planned.stratum == BACKGROUND else "label": v.planned.topic,
                "index": v.planned.index,
                "reason": v.reason,
                "text": v.answer.text,
                "key": v.planned.key,
            }
            for v in poor
        ]
        files.write_jsonl(self._store.folder / REJECTED_FILE, refused)
        complete, digest = all(s.missing <= 0 for s in strata), None
        if complete:
            digest = self._write_bank(rejected, len(verdicts))
            self.stopped = None
        elif self.stopped is None:
            self.stopped = f"{self.failed} requests failed, the last with: {self._last_error}"
        return BuildReport(
            complete=complete,
            usable={_shown(s.name): s.usable for s in strata},
            wanted={_shown(s.name): s.target for s in strata},
            rejected=rejected,
            answers=len(verdicts),
            asked=self.asked,
            failed=self.failed,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            seconds=round(self.seconds, 2),
            cost=self.cost,
            stopped=self.stopped,
            hash=digest,
        )

    def _write_bank(self, rejected: dict[str, int], answers: int) -> str:
        panel, settings, model = self._plan.panel, self._plan.settings, self._plan.model
        rows = [
            {"label": name, "text": v.text, "facets": dict(v.planned.facets), "key": v.planned.key}
            for name in panel.names
            for v in self._strata[name].chosen
        ]
        background = self._strata[BACKGROUND].chosen if BACKGROUND in self._strata else []
        others = [{"condition": v.planned.topic, "text": v.text, "key": v.planned.key} for v in background]
        wording = wording_of(settings.voice, panel)
        made = {"simulator": model, "settings": asdict(settings), "wording": wording, "answers": answers}
        return str(files.write_rows(self._store.folder, panel, rows, others, rejected, made)["hash"])


Watch = Callable[[Build], None]


def _shown(stratum: str) -> str:
    return "(background)" if stratum == BACKGROUND else stratum


@contextmanager
def _stop_on_signal(build: Build) -> Iterator[None]:
    """First Ctrl-C: send no further requests and keep the running ones. Second: exit at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: Any) -> None:
        if build.stopped is not None:
            raise KeyboardInterrupt
        build.stopped = "interrupted"
        # Running requests of a large model take minutes, so the signal is acknowledged.
        os.write(2, b"\nstopping when the texts under way are written; press Ctrl-C again to stop at once\n")

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _manifest_at(out: Path) -> dict[str, Any] | None:
    """The manifest of a finished bank. Another build may be replacing the bank at this moment."""
    try:
        return files.read_manifest(out)
    except BadInput:
        if (out / files.MANIFEST_FILE).exists():
            raise
        return None


def refuse_foreign(out: Path, panel: Panel) -> None:
    """Refuses a folder that holds anything else."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"'{out}' is a file: give a folder")
    if (manifest := _manifest_at(out)) is not None:
        if manifest["panel_hash"] != panel.hash:
            raise BadInput(f"'{out}' holds a bank of another panel: choose a new folder")
        if not (out / STORE_FILE).exists():
            raise BadInput(f"'{out}' holds a bank that was not built here: choose a new folder")
    elif out.is_dir() and not (out / STORE_FILE).exists() and any(p.name[0] != "." for p in out.iterdir()):
        raise BadInput(f"'{out}' is not empty and holds no build: choose a new folder")


# What a setting is called where it is given.
_NUMBERS = {"per_label": "--per-label", "background": "--background"}
_OPTIONS = {"max_tokens": "--max-new", "top_p": "--top-p"}


def refuse_lesser(out: Path, panel: Panel, model: str, settings: BuildSettings) -> None:
    """Refuses to replace a finished bank at `out`, unless the new bank contains it."""
    if (manifest := _manifest_at(out)) is None:
        return
    before, simulator = manifest.get("settings"), manifest.get("simulator")
    if not isinstance(before, Mapping) or not isinstance(simulator, str):
        raise BadInput(f"'{out}' holds a bank that does not say how it was built: choose another --out")
    old, new = _effective(before, panel), _effective(asdict(settings), panel)
    if not old.get("background"):
        old["conditions"] = new["conditions"]  # of a background that is not there yet
    # Only the old name is shown: the name just typed may have a key in its address.
    changed = [f"simulator {_short(simulator)}, not the one given"] if simulator != model else []
    if manifest.get("wording", 1) != wording_of(settings.voice, panel):
        changed.append("requests worded by another version of simdx")
    changed += [
        f"{_OPTIONS.get(name, f'--{name}')} {_short(old.get(name))}, not {_short(value)}"
        for name, value in new.items()
        if name not in _NUMBERS and old.get(name) != value
    ]
    if changed:
        raise BadInput(
            f"'{out}' holds a finished bank built with {'; '.join(changed)}: choose another --out, "
            "nothing was changed"
        )
    fewer = [
        f"{option} {old[name]}"
        for name, option in _NUMBERS.items()
        if isinstance(old.get(name), int) and new[name] < old[name]
    ]
    if fewer:
        raise BadInput(
            f"'{out}' holds a larger finished bank: give at least {' and '.join(fewer)}, or another --out; "
            "nothing was changed"
        )


def _effective(settings: Mapping[str, Any], panel: Panel) -> dict[str, Any]:
    """Settings as the manifest's JSON has them, the register's token limit in place of none."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    plain.setdefault("conditions", [])  # banks from before a list could be given
    return {**plain, "max_tokens": plain.get("max_tokens") or WORDING[panel.register]["max_tokens"]}


def _short(value: object) -> str:
    return str(value)[:80]


# --------------------------------------------------------------------------- rehearsal texts
#
# Texts for a rehearsal in another style: the same model, another register, a higher temperature.
#
# They are stored in a separate folder inside the bank's, are never part of the bank, and resume like one.

FOLDER = "rehearsal"
REHEARSAL_TRIES = 6  # requests for every text wanted; then the calibration does without them
WARMER = 0.3  # added to the bank's temperature
HOTTEST = 1.2
OTHER_REGISTER = {"clinician": "patient", "case-report": "patient", "patient": "plain", "plain": "patient"}


def second_voice(panel: Panel, settings: BuildSettings, per_label: int) -> tuple[Panel, BuildSettings]:
    """The panel in another register, with other settings."""
    other = replace(panel, register=OTHER_REGISTER.get(panel.register, panel.register), facets={})
    warmer, seed = min(HOTTEST, settings.temperature + WARMER), settings.seed + 1
    return other, replace(
        settings, per_label=per_label, background=0, temperature=warmer, seed=seed, conditions=()
    )


def write_rehearsal(
    panel: Panel,
    simulator: Simulator,
    settings: BuildSettings,
    per_label: int,
    out: Path,
    watch: Watch,
    left: BuildLimits,
) -> Bank | None:
    """The texts, or None if the model does not finish them within the tries and the remaining limits."""
    other, asked = second_voice(panel, settings, per_label)
    tries = REHEARSAL_TRIES * per_label * len(panel.names)
    limits = replace(left, max_requests=tries if left.max_requests is None else min(tries, left.max_requests))
    report = build_bank(other, simulator, asked, out / FOLDER, limits, watch)
    return files.read_bank(out / FOLDER, panel) if report.complete else None
