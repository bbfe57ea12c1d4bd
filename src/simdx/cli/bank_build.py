"""`simdx bank build|conditions`: asking a model for a bank. `cli.bank` gives them their names."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from simdx.cli import options
from simdx.cli.output import note, print_json, say, write_line
from simdx.cli.progress import Progress
from simdx.errors import BadInput, SimdxError

if TYPE_CHECKING:
    from simdx.bank.plan import BuildSettings
    from simdx.bank.report import BuildLimits, BuildReport
    from simdx.types import Panel

LEAST_BACKGROUND = 20  # texts, below which none of these has nothing to be told by


@dataclass(frozen=True)
class BuildOptions:
    """What a bank shall hold, and when to stop."""

    per_label: Annotated[int, Option(min=1, help="Usable texts wanted per label.")]
    out: Annotated[Path, Option(help="The bank folder; an interrupted build there goes on.")]
    background: Annotated[int | None, Option(min=0, help="Texts of none of the labels.")] = None
    conditions: Annotated[Path | None, Option(help="What --background describes, one a line.")] = None
    temperature: Annotated[float, Option(min=0, max=2)] = 0.8
    top_p: Annotated[float, Option(min=0, max=1)] = 0.95
    max_new: Annotated[int | None, Option(min=1, help="Tokens per description; default by register.")] = None
    seed: Annotated[int, Option(min=0, help="Starts every request's own seed.")] = 0
    max_requests: Annotated[int | None, Option(min=0, help="Stop this run after so many requests.")] = None
    max_tokens: Annotated[int | None, Option(min=0, help="Stop this run after so many tokens.")] = None

    least_yield: Annotated[float, Option(min=0, max=1, help="Stop below this usable share.")] = 0.1

    def settings(self, panel: Panel, voice: str, **more: Any) -> tuple[BuildSettings, str | None]:
        """The settings, and a note on conditions of the file that are left out."""
        from simdx.bank.plan import BuildSettings

        described, left_out = self._described(panel)
        background = self.background
        if background is None:
            background = max(LEAST_BACKGROUND, self.per_label * len(panel.names) // 5)
        settings = BuildSettings(
            per_label=self.per_label, background=background, temperature=self.temperature,
            top_p=self.top_p, max_tokens=self.max_new, seed=self.seed, voice=voice, conditions=described,
            **more,
        )  # fmt: skip
        names = ", ".join(left_out)[:200]
        return settings, f"left out, since they name a label of the panel: {names}" if names else None

    def limits(self, price_in: float | None = None, price_out: float | None = None) -> BuildLimits:
        from simdx.bank.report import BuildLimits

        return BuildLimits(self.max_requests, self.max_tokens, price_in, price_out, self.least_yield)

    def _described(self, panel: Panel) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The conditions a background shall describe (none: the broad list), and those left out."""
        from simdx.bank.plan import outside, read_conditions

        if self.conditions is None:
            return (), ()
        if self.background == 0:
            raise BadInput("--conditions needs --background above 0")
        listed = read_conditions(self.conditions)
        others = outside(panel, listed)
        if not others:
            raise BadInput(
                f"every condition of {self.conditions.name} names a label of the panel: give others"
            )
        return others, tuple(name for name in listed if name not in others)


@options.spread
def build(
    panel: options.PanelName,
    wanted: BuildOptions,
    simulator: Annotated[str, Option(help="NAME, FILE.gguf, openai:MODEL@URL or hf:NAME.")] = "smollm2",
    facets: Annotated[bool, Option(help="Vary who, how long, how severe, which finding.")] = True,
    voice: Annotated[str | None, Option(help="full or short wording; default by the model's size.")] = None,
    rehearsal: Annotated[int, Option(min=0, max=100, help="Texts a label to rehearse the bank on.")] = 4,
    timeout: Annotated[float | None, Option(help="Seconds a server has for one answer; 300.")] = None,
    price_in: Annotated[float | None, Option(min=0, help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[float | None, Option(min=0, help="Price of a million generated tokens.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be asked, ask nothing.")] = False,
    json: options.AsJson = False,
) -> None:
    """Ask a language model for what is missing; safe to kill and to run again."""
    from simdx.bank.builder import (
        FOLDER,
        REHEARSAL_TRIES,
        build_bank,
        refuse_foreign,
        refuse_lesser,
        second_voice,
        write_rehearsal,
    )
    from simdx.bank.files import read_bank
    from simdx.bank.plan import NEXT, larger_than, voice_for, weak_model_words
    from simdx.bank.proposals import undescribed
    from simdx.bank.report import estimate, failed_line
    from simdx.calibrate import calibrate_panel
    from simdx.disk import refuse_unwritable
    from simdx.panels import load_panel
    from simdx.simulators import get_simulator, identity_of
    from simdx.status import made_by, weaknesses

    chosen, out = load_panel(panel), wanted.out
    settings, left_out = wanted.settings(chosen, voice or voice_for(simulator), facets=facets)
    limits = wanted.limits(price_in, price_out)
    if dry_run:
        refuse_lesser(out, chosen, identity_of(simulator), settings)
        expected = estimate(chosen, identity_of(simulator), settings, out, limits)
        told, also = asdict(expected), ""
        if rehearsal:
            other, asked = second_voice(chosen, settings, rehearsal)
            second = estimate(other, identity_of(simulator), asked, out / FOLDER, limits)
            told["rehearsal"], also = asdict(second), f"\nrehearsal: {second.describe()}"
        say(json, told, expected.describe() + also)
        return
    if timeout is not None and not simulator.startswith("openai:"):
        raise BadInput(f"--timeout is for servers (openai:MODEL@URL), not for '{simulator[:80]}'")
    if left_out:
        note(left_out)
    silent = [label.name for label in undescribed(chosen)] if settings.voice == "short" else []
    if silent:  # a small model repeats a name it is told, and nothing else is known of them
        raise BadInput(
            f"no description of {', '.join(silent)[:200]}: a small model needs one line each. Write them in "
            f"the panel file, or let a larger one propose: simdx panel describe {panel} --simulator {NEXT}"
        )
    refuse_unwritable(out)  # all before a model is loaded for nothing
    refuse_foreign(out, chosen)
    refuse_lesser(out, chosen, identity_of(simulator), settings)
    # Labels alone are sent, to a server that the command line names: naming it is the permission.
    running = get_simulator(simulator, allow_remote=True, **({} if timeout is None else {"timeout": timeout}))
    try:
        note(f"{running.id}: {running.capabilities.describe()}")
        if settings.voice == "short":
            note(f"a very small model: {weak_model_words(chosen, wanted.per_label)}")
        with Progress("usable", every=30) as bar:
            report = build_bank(chosen, running, settings, out, limits, bar.built)
        writer = None
        if report.complete and rehearsal:
            note(f"rehearsing: up to {REHEARSAL_TRIES * rehearsal * len(chosen.names)} further requests")
            with Progress("usable", every=30) as bar:
                writer = write_rehearsal(
                    chosen, running, settings, rehearsal, out, bar.built, limits.after(report)
                )
            if writer is None:
                note("the model wrote too few texts in another voice: the calibration goes on without them")
    finally:
        running.close()
    if not report.complete:
        say(json, _as_json(chosen.name, report), f"{out}: {report.describe()}")
        raise failed_line(report, out)
    try:
        found = calibrate_panel(panel, bank=out, writer=writer)
    except SimdxError as problem:  # such as an embedder on another machine: the bank is there all the same
        note(f"the bank was not calibrated: {problem}")
        found = None
    weak = weaknesses(read_bank(out, chosen), made_by(out), None if found is None else found.calibration)
    said = f"this bank is weak: {'; '.join(weak)}. Next, try any chat model (simdx bank ask --panel {panel})"
    advice = f"{said}, or {larger_than(running.id)}" if weak else None
    rehearsed = None if found is None else found.to_json()
    say(
        json,
        {**_as_json(chosen.name, report), "rehearsal": rehearsed, "weak_because": weak, "advice": advice},
        f"{out}: {report.describe()}",
        *(() if found is None else found.lines()),
        *([advice] if advice else []),
    )


def _as_json(panel: str, report: BuildReport) -> dict[str, Any]:
    """The report under the names that the command line promises."""
    shown = asdict(report)
    shown |= {"labels": shown.pop("usable"), "requests": shown.pop("asked")}
    return {"panel": panel, "usable_share": report.usable_share, **shown}


def conditions(
    panel: options.PanelName,
    simulator: Annotated[str | None, Option(help="The model that names near misses.")] = None,
    per_label: Annotated[int | None, Option(min=1, max=100, help="Near misses per label; 20.")] = None,
    out: Annotated[Path | None, Option(help="Write them to a file for 'bank build --conditions'.")] = None,
    json: options.AsJson = False,
) -> None:
    """Conditions outside the panel for 'none of these': a broad list, or near misses that a model names."""
    from simdx.bank.plan import outside
    from simdx.bank.proposals import near_misses
    from simdx.disk import write_atomically
    from simdx.panels import load_panel
    from simdx.simulators import get_simulator

    chosen = load_panel(panel)
    if simulator is None and per_label is not None:
        raise BadInput("--per-label is for near misses: give the --simulator that shall name them")
    if out is not None:
        options.check_target(out, "--out")
        if out.exists():
            raise BadInput(f"{out} exists: choose another --out, nothing was written")
    found: dict[str, tuple[str, ...]]
    if simulator is None:
        found, heading = {"": outside(chosen)}, "the broad list"
    else:
        running = get_simulator(simulator, allow_remote=True)  # labels alone are sent
        try:
            with Progress("labels asked") as bar:
                found = dict(near_misses(chosen, running, per_label or 20, bar))
            heading = f"named by {running.id}"
        finally:
            running.close()
        if nothing := [label for label, group in found.items() if not group]:
            note(f"nothing new was named for: {', '.join(nothing)[:200]}")
    names = [name for group in found.values() for name in group]
    lines = [f"# Conditions outside the panel {chosen.name}, {heading}: read them before use."]
    for label, group in found.items():
        lines += [f"# taken for {label}"] if label else []
        lines += group
    if out is not None:
        write_atomically(out, ("\n".join(lines) + "\n").encode())
    if json:
        by_label = {"by_label": found} if simulator is not None else {}
        print_json({"panel": chosen.name, "source": heading, "conditions": names, **by_label})
    elif out is not None:
        write_line(f"{out}: {len(names)} conditions")
    else:
        write_line("\n".join(lines))
