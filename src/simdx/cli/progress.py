"""How far a long command has come, on stderr: bars on a terminal, next to nothing elsewhere.

A bar redraws itself, which only a terminal can show. In a file or a pipe a build of hours says a line every
half minute, and everything shorter is silent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simdx.cli.output import note

if TYPE_CHECKING:
    from simdx.amortised.train import TrainingProgress
    from simdx.bank.fresh import Usage
    from simdx.bank.report import BuildProgress
    from simdx.methods.fitted import Fitted


@contextmanager
def building() -> Iterator[Callable[[BuildProgress], None]]:
    """What `build_bank` reports as a bar with rate, cost and time left; elsewhere as a line now and then."""
    if not sys.stderr.isatty():
        due = NowAndThen(30.0)
        yield lambda p: note(f"{p.usable} of {p.wanted} usable, {facts_of(p)}") if due() else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    bar = Bar(
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        # The one column that may fold: in a narrow terminal the numbers before it would be cut short instead.
        TextColumn("{task.fields[facts]}", table_column=Column()),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("build", total=None, facts="")

        def watch(p: BuildProgress) -> None:
            bar.update(task, total=p.wanted, completed=p.usable, facts=facts_of(p))

        yield watch


class NowAndThen:
    def __init__(self, every: float) -> None:
        self._every, self._last = every, time.monotonic()

    def __call__(self) -> bool:
        due = time.monotonic() - self._last >= self._every
        if due:
            self._last = time.monotonic()
        return due


def facts_of(p: BuildProgress) -> str:
    """Rate, tokens, rejections and why, time left, failures and cost in one short phrase."""
    seconds = max(p.seconds, 1e-9)
    reasons = ", ".join(f"{n} {reason}" for reason, n in p.rejected.most_common(2))
    parts = [
        f"{60 * p.answered / seconds:.0f} texts/min",
        f"{p.completion_tokens / seconds:.0f} tok/s",
        f"{p.prompt_tokens + p.completion_tokens} tokens",
        f"{sum(p.rejected.values())} rejected" + (f" ({reasons})" if reasons else ""),
    ]
    if left := p.seconds_left:
        parts.append(f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left")
    if p.failed:
        parts.append(f"{p.failed} failed")
    if p.cost is not None:
        parts.append(f"cost {p.cost:.4f}")
    if p.stopped:
        parts.append(f"stopping ({p.stopped})")
    return ", ".join(parts)


def prepare(fitted: Fitted) -> None:
    """What the first answer waits for: a bar on a terminal, a line now and then elsewhere. Once the first
    text has been timed, the cost is told in seconds."""
    if not fitted.unprepared():
        return
    due = NowAndThen(30.0)
    with CasesBar(None, "simulated texts") as bar:

        def watch(done: int, total: int) -> None:
            bar(done, total)
            if done == 1 and (cost := fitted.cost()) is not None:
                note(cost)
            elif not sys.stderr.isatty() and due():
                note(f"{done} of {total} simulated texts")

        fitted.prepare(watch)


ASKING = ("logits", "elicited", "ensemble", "fidelity")


def say_model(method: str, engine: str, simulator: str | None, cost: str | None = None) -> None:
    """What answering costs, where a method says it; on a terminal also which model nobody chose is asked."""
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
        note(f"{model} simulates anew for every case; --budget N limits the simulations")
    elif simulator is None:
        note(f"asking {model}")


@contextmanager
def asking(engine: str) -> Iterator[Callable[[Usage], None]]:
    """Calls made so far and their rate, while a language model simulates for one answer."""
    if engine != "live" or not sys.stderr.isatty():
        yield lambda usage: None
        return
    with CasesBar(None, "asking the language model") as bar:
        yield bar.asked


def calls_of(usage: Usage, seconds: float) -> str:
    """Calls, their rate, tokens and rejections."""
    rate = 60 * usage.calls / max(seconds, 1e-9)
    tokens = usage.prompt_tokens + usage.completion_tokens
    return f"{usage.calls} calls, {rate:.0f} a minute, {tokens} tokens, {usage.rejected.total()} rejected"


class CasesBar:
    """Cases (or `what`) answered of those there are, and what a model was asked for them where one is."""

    def __init__(self, total: int | None, what: str = "cases") -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        # Without a terminal there is nothing to redraw, and even the end of a bar prints an empty line.
        self._bar = Bar(console=console, transient=True, disable=not console.is_terminal)
        self._what, self._task = what, self._bar.add_task(what, total=total)
        self._started = time.monotonic()

    def __enter__(self) -> CasesBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def asked(self, usage: Usage) -> None:
        words = calls_of(usage, time.monotonic() - self._started)
        self._bar.update(self._task, description=f"{self._what} ({words})")


def row_lines(every: float = 10.0) -> Callable[[int, int], None]:
    """A line on stderr now and then: rows done of all, how fast, and how long it will take."""
    due = NowAndThen(every)
    first: list[tuple[float, int]] = []

    def watch(done: int, total: int) -> None:
        now = time.monotonic()
        first[:] = first or [(now, done)]
        if not due():
            return
        seconds, rows = now - first[0][0], done - first[0][1]
        line = f"{done} of {total} rows"
        if rows and seconds:
            left = (total - done) * seconds / rows
            line += f", {rows / seconds:,.0f} a second, {left:,.0f} s left"
        note(line)

    return watch


def training(every: float = 5.0) -> Callable[[TrainingProgress], None]:
    """How far a training has come: one line that moves on a terminal, a line now and then elsewhere."""
    moves = sys.stderr.isatty()
    due = NowAndThen(0.2 if moves else every)

    def watch(p: TrainingProgress) -> None:
        finished = p.done >= p.of
        if not (due() or finished):
            return
        line = f"epoch {p.done} of at most {p.of}: loss {p.loss:.4f}, held out {p.held_out:.4f}"
        if p.stage == "targets":
            line = f"D-SMC answers for training: {p.done:,} of {p.of:,}"
        if moves:
            print(f"\r{line:<78}", end="\n" if finished else "", file=sys.stderr, flush=True)
        else:
            note(line)

    return watch
