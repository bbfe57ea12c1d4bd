"""`simdx policy tune|show`: where the thresholds of a decision come from, and what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, say
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.decide.policy import Policy

app = Typer(help="Decision policies: accept, likely, test further, or send to review.", no_args_is_help=True)


@app.command()
@options.spread
def tune(
    panel: options.PanelName,
    out: Annotated[Path, Option(help="The policy file to write (YAML).")],
    data: Annotated[Path | None, Option(help="Labelled cases; default: simulated text.")] = None,
    *,
    ood: Annotated[Path | None, Option(help="With --data: 60 outside cases or more, for accepting.")] = None,
    layout: options.ColumnOptions,
    risk: Annotated[float, Option(help="Most errors among accepted answers.")] = 0.05,
    confidence: Annotated[float, Option(help="With --data: how sure that holds.")] = 0.9,
    coverage: Annotated[float, Option(help="With --data: coverage of conformal sets.")] = 0.9,
    sets: Annotated[
        Literal["split", "class-conditional"], Option(help="With --data: kind of conformal sets.")
    ] = "class-conditional",
    chosen: options.MethodOptions,
    none_prior: options.NonePrior = None,
    json: options.AsJson = False,
) -> None:
    """Choose thresholds from simulated text, or from labelled cases with a stated risk."""
    if not 0 < risk < 1:
        raise BadInput(f"--risk is {risk:g}: give a number between 0 and 1, such as .05")
    if ood is not None and data is None:
        raise BadInput("--ood is for what --data tunes: give cases of the labels as well")
    options.check_target(out, "--out")
    from simdx.decide.policy import policy_text
    from simdx.disk import write_atomically

    classifier = chosen.classifier(panel, none_prior=none_prior)
    if data is None:
        found = classifier.desk.tuned(risk)
    else:
        import numpy as np

        from simdx.datasets import read_cases
        from simdx.types import NONE_OF_THESE

        names = classifier.panel.names
        cases = read_cases(data, columns=layout.columns, labels=(*names, NONE_OF_THESE)).cases
        inside = [case for case in cases if case.label != NONE_OF_THESE]
        outside = [case.text for case in cases if case.label == NONE_OF_THESE]
        if ood is not None:
            outside += read_cases(ood, columns=layout.columns, labelled=False).texts
        index = np.array([names.index(str(case.label)) for case in inside], dtype=np.int64)
        found = classifier.tune_policy(
            [case.text for case in inside], index, risk=risk, confidence=confidence, coverage=coverage,
            kind=sets, outside=outside,
        )  # fmt: skip
    write_atomically(out, policy_text(found))
    note(f"wrote {out}")
    _print(found, json)


@app.command()
def show(
    policy: Annotated[Path | None, Argument(metavar="[FILE]", help="A policy file.")] = None,
    panel: Annotated[str | None, Option(help="Show the policy of this panel.")] = None,
    bank: Annotated[Path | None, Option(help="A bank folder or JSONL file; the panel's own.")] = None,
    allow_remote: options.AllowRemote = False,
    json: options.AsJson = False,
) -> None:
    """What a policy says, in words; without a file, the one a panel's answers use."""
    from simdx.decide.policy import read_policy
    from simdx.panels import load_panel

    if policy is not None:
        if bank is not None:
            raise BadInput("--bank goes with --panel: a policy file needs none to be shown")
        _print(read_policy(policy, None if panel is None else load_panel(panel)), json)
        return
    if panel is None:
        raise BadInput("give a policy file or --panel")
    from simdx.classifier import Classifier

    desk = Classifier(panel, bank, allow_remote=allow_remote).desk
    _print(replace(desk.policy, evidence=desk.evidence), json)


def _print(policy: Policy, json: bool) -> None:
    from simdx.decide.policy import policy_data, policy_words

    say(json, policy_data(policy), *policy_words(policy))
