"""How verbs speak: one JSON object on stdout with --json, words otherwise, notes and progress on stderr.

Words may come from files and cases of others: no control character in them reaches the terminal.
"""

from __future__ import annotations

import json as json_format
import math
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from simdx.errors import CONTROLS, BadInput, plain

if TYPE_CHECKING:
    from simdx.amortised.train import TrainingProgress
    from simdx.bank.builder import Build
    from simdx.bank.plan import Usage
    from simdx.methods.fitted import Fitted

ASKING = ("logits", "elicited", "ensemble", "fidelity")


def say(json: bool, value: Any, *lines: str) -> None:
    """The JSON object where --json was given, the lines otherwise."""
    if not json:
        for line in lines:
            print(plain(line))
        return
    finite = _finite(value)  # a number that is not finite becomes null rather than invalid JSON
    text = json_format.dumps(finite, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a path in no encoding, or a terminal that is not UTF-8: escapes say the same
        text = json_format.dumps(finite, allow_nan=False)
    sys.stdout.write(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def note(message: str, end: str = "\n") -> None:
    """A line of progress or explanation, on stderr."""
    print(plain(message), end=end, file=sys.stderr, flush=True)


def ask(question: str) -> str:
    """A line of standard input; the question goes to stderr, so that answers alone are printed."""
    note(question, end="")
    line = sys.stdin.readline()
    if not line:
        note("")
        raise BadInput("no terminal to ask in: run this in a terminal, or give the labels and --yes")
    return line.strip()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Progress:
    """A bar on a terminal. Elsewhere silent, or with `every` a line every so many seconds."""

    def __init__(self, what: str, every: float | None = None) -> None:
        self._what, self._every, self._facts = what, every, ""
        self._started = self._last = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            # The last column may fold: in a narrow terminal the numbers would be cut short instead.
            facts = TextColumn("{task.fields[facts]}", table_column=Column())
            self._bar = Bar(
                TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TextColumn("ETA"),
                TimeRemainingColumn(), facts, console=Console(stderr=True),
            )  # fmt: skip
            self._task = self._bar.add_task(what, total=None, facts="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int, facts: str = "") -> None:
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, facts=facts or self._facts)
        elif self._every is not None and now - self._last >= self._every:
            self._last, seconds = now, now - self._started
            speed = f"{done / seconds:,.1f} a second, {(total - done) * seconds / max(done, 1):,.0f} s left"
            note(f"{done} of {total} {self._what}, {facts or speed}")

    def built(self, p: Build) -> None:
        """Rate, tokens, rejections and why, time left, failures and cost of a build."""
        seconds = max(p.seconds, 1e-9)
        reasons = ", ".join(f"{n} {reason}" for reason, n in p.rejected.most_common(2))
        facts = [
            f"{60 * p.answered / seconds:.0f} texts/min",
            f"{p.completion_tokens / seconds:.0f} tok/s",
            f"{p.prompt_tokens + p.completion_tokens} tokens",
            f"{p.rejected.total()} rejected" + (f" ({reasons})" if reasons else ""),
        ]
        if left := p.seconds_left:
            facts.append(f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left")
        if p.failed:
            facts.append(f"{p.failed} failed")
        if p.cost is not None:
            facts.append(f"cost {p.cost:.4f}")
        if p.stopped:
            facts.append(f"stopping ({p.stopped})")
        self(p.usable, p.wanted, ", ".join(facts))

    def trained(self, p: TrainingProgress) -> None:
        if p.done >= p.of:
            self._last = -math.inf  # the end of a stage is told at once
        told = f"epochs: loss {p.loss:.4f}, held-out loss {p.held_out:.4f}"
        self(p.done, p.of, "D-SMC answers to learn from" if p.stage == "targets" else told)

    def asked(self, usage: Usage) -> None:
        """Calls of a language model, their rate, tokens and rejections, beside what is counted."""
        rate = 60 * usage.calls / max(time.monotonic() - self._started, 1e-9)
        tokens = usage.prompt_tokens + usage.completion_tokens
        rejected = usage.rejected.total()
        self._facts = f"{usage.calls} calls, {rate:.0f} a minute, {tokens} tokens, {rejected} rejected"
        if self._bar is not None:
            self._bar.update(self._task, facts=self._facts)


def prepare(fitted: Fitted) -> None:
    """What the first answer waits for. Once the first text has been timed, the cost is told in seconds."""
    if not fitted.unprepared():
        return
    with Progress("simulated texts", every=30) as bar:

        def watch(done: int, total: int) -> None:
            bar(done, total)
            if done == 1 and (cost := fitted.cost()) is not None:
                note(cost)

        fitted.prepare(watch)


def say_model(method: str, engine: str, simulator: str | None, cost: str | None = None) -> None:
    """What answering costs, where a method says it; on a terminal also which model is asked by default."""
    if cost is not None:
        note(cost)
    live = engine == "live"
    if not (live or method in ASKING) or not sys.stderr.isatty():
        return
    model = "the language model"
    if simulator is None:
        from simdx.simulators import DEFAULT

        model = f"{DEFAULT} (--simulator NAME takes another model)"
    if live:
        note(f"{model} simulates new texts for every case; --budget N limits the number")
    elif simulator is None:
        note(f"asking {model}")
