"""`simdx bank build|conditions`: asking a model for a bank. `cli.bank` gives them their names."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from simdx import simulators
from simdx.bank import builder, plan
from simdx.bank.plan import outside, read_conditions
from simdx.bank.proposals import near_misses, undescribed
from simdx.bank.store import BuildLimits, BuildReport, estimate, failed_line
from simdx.cli import options
from simdx.cli.options import File
from simdx.cli.output import Progress, note, say
from simdx.disk import refuse_unwritable, write_atomically
from simdx.errors import BadInput, SimdxError
from simdx.panels import load_panel
from simdx.types import Panel

LEAST_BACKGROUND = 20  # texts, below which none of these has nothing to be told by


@dataclass(frozen=True)
class BuildOptions:
    """What a bank shall hold, and when to stop."""

    per_label: Annotated[int, Option(min=1, help="Usable texts wanted per label.")]
    out: Annotated[Path, Option(help="The bank folder; an interrupted build there continues.")]
    background: Annotated[int | None, Option(min=0, help="Texts of none of the labels.")] = None
    conditions: Annotated[File, Option(help="What --background describes, one per line.")] = None
    temperature: Annotated[float, Option(min=0, max=2, help="Sampling temperature.")] = 0.8
    top_p: Annotated[float, Option(min=0, max=1, help="Nucleus sampling: kept mass.")] = 0.95
    max_new: Annotated[int | None, Option(min=1, help="Tokens per text; default: by register.")] = None
    seed: Annotated[int, Option(min=0, help="Starts the seed of every request.")] = 0
    max_requests: Annotated[int | None, Option(min=0, help="Stop after this number of requests.")] = None
    max_tokens: Annotated[int | None, Option(min=0, help="Stop after this number of tokens.")] = None
    least_yield: Annotated[float, Option(min=0, max=1, help="Stop below this usable share.")] = 0.1

    def settings(self, panel: Panel, voice: str, **more: Any) -> tuple[plan.BuildSettings, str | None]:
        """The settings, and a note on conditions of the file that are left out."""
        listed: tuple[str, ...] = ()
        if self.conditions is not None:
            if self.background == 0:
                raise BadInput("--conditions needs --background above 0")
            listed = read_conditions(self.conditions)
        described = outside(panel, listed) if listed else ()  # none: the broad list
        if listed and not described:
            name = self.conditions.name if self.conditions else ""
            raise BadInput(f"every condition of {name} names a label of the panel: give others")
        background = self.background
        if background is None:
            background = max(LEAST_BACKGROUND, self.per_label * len(panel.names) // 5)
        settings = plan.BuildSettings(
            per_label=self.per_label, background=background, temperature=self.temperature,
            top_p=self.top_p, max_tokens=self.max_new, seed=self.seed, voice=voice, conditions=described,
            **more,
        )  # fmt: skip
        names = ", ".join(name for name in listed if name not in described)[:200]
        return settings, f"left out, because they name a label of the panel: {names}" if names else None

    def limits(self, price_in: float | None = None, price_out: float | None = None) -> BuildLimits:
        return BuildLimits(self.max_requests, self.max_tokens, price_in, price_out, self.least_yield)


@options.spread
def build(
    panel: options.PanelName,
    wanted: BuildOptions,
    simulator: Annotated[str, Option(help="NAME, FILE.gguf, openai:MODEL@URL or hf:NAME.")] = "smollm2",
    facets: Annotated[bool, Option(help="Vary person, duration, severity and findings.")] = True,
    voice: Annotated[str | None, Option(help="Wording: full or short; default: by model size.")] = None,
    rehearsal: Annotated[int, Option(min=0, max=100, help="Texts per label to calibrate the bank on.")] = 4,
    timeout: Annotated[float | None, Option(help="Seconds a server has for one answer; default 300.")] = None,
    price_in: Annotated[float | None, Option(min=0, help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[float | None, Option(min=0, help="Price of a million generated tokens.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Estimate the requests; send none.")] = False,
    json: options.AsJson = False,
) -> None:
    """Build a bank: ask a language model for the missing texts. It is safe to kill and to run again."""
    from simdx.bank.files import read_bank
    from simdx.upkeep import calibrate_panel, made_by, weaknesses

    chosen, out = load_panel(panel), wanted.out
    settings, left_out = wanted.settings(chosen, voice or plan.voice_for(simulator), facets=facets)
    limits = wanted.limits(price_in, price_out)
    if dry_run:
        identity = simulators.identity_of(simulator)
        builder.refuse_lesser(out, chosen, identity, settings)
        expected = estimate(chosen, identity, settings, out, limits)
        told, also = asdict(expected), ""
        if rehearsal:
            other, asked = builder.second_voice(chosen, settings, rehearsal)
            second = estimate(other, identity, asked, out / builder.FOLDER, limits)
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
            f"the panel file, or let a larger model propose: "
            f"simdx panel describe {panel} --simulator {plan.NEXT}"
        )
    refuse_unwritable(out)  # all before a model is loaded for nothing
    builder.refuse_foreign(out, chosen)
    builder.refuse_lesser(out, chosen, simulators.identity_of(simulator), settings)
    # Labels alone are sent, to a server that the command line names: naming it is the permission.
    given = {} if timeout is None else {"timeout": timeout}
    with closing(simulators.get_simulator(simulator, allow_remote=True, **given)) as running:
        note(f"{running.id}: {running.capabilities.describe()}")
        if settings.voice == "short":
            note(f"a very small model: {plan.weak_model_words(chosen, wanted.per_label)}")
        with Progress("usable", every=30) as bar:
            report = builder.build_bank(chosen, running, settings, out, limits, bar.built)
        writer = None
        if report.complete and rehearsal:
            most = builder.REHEARSAL_TRIES * rehearsal * len(chosen.names)
            note(f"texts to calibrate on: up to {most} further requests")
            with Progress("usable", every=30) as bar:
                writer = builder.write_rehearsal(
                    chosen, running, settings, rehearsal, out, bar.built, limits.after(report)
                )
            if writer is None:
                note("the model wrote too few texts in another voice: they are left out of the calibration")
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
    advice = f"{said}, or {plan.larger_than(running.id)}" if weak else None
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
    out: Annotated[File, Option(help="Write them to a file for 'bank build --conditions'.")] = None,
    json: options.AsJson = False,
) -> None:
    """List conditions outside the panel for none of these: a broad list, or near misses named by a model."""
    chosen = load_panel(panel)
    if simulator is None and per_label is not None:
        raise BadInput("--per-label is for near misses: give the --simulator that shall name them")
    options.check_target(out, "--out")
    if out is not None and out.exists():
        raise BadInput(f"{out} exists already: nothing was written; choose another --out")
    found: dict[str, tuple[str, ...]]
    if simulator is None:
        found, heading = {"": outside(chosen)}, "the broad list"
    else:
        with (
            closing(simulators.get_simulator(simulator, allow_remote=True)) as running,  # labels are sent
            Progress("labels asked") as bar,
        ):
            found, heading = (
                dict(near_misses(chosen, running, per_label or 20, bar)),
                f"named by {running.id}",
            )
        if nothing := [label for label, group in found.items() if not group]:
            note(f"nothing new was named for: {', '.join(nothing)[:200]}")
    names = [name for group in found.values() for name in group]
    kind = "conditions" if chosen.is_clinical else "subjects"
    lines = [f"# {kind.capitalize()} outside the panel {chosen.name}, {heading}: read them before use."]
    for label, group in found.items():
        lines += [f"# taken for {label}"] if label else []
        lines += group
    told = "\n".join(lines)
    if out is not None:
        write_atomically(out, told + "\n")
        told = f"{out}: {len(names)} {kind}"
    by_label = {} if simulator is None else {"by_label": found}
    say(json, {"panel": chosen.name, "source": heading, "conditions": names, **by_label}, told)
