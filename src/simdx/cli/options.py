"""Options that several verbs share, and how they become a classifier and a prior."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.abc.prior import Prior

PanelName = Annotated[str, typer.Option("--panel", help="A packaged panel or the path of a panel file.")]
BankPath = Annotated[
    Path | None, typer.Option("--bank", help="A bank folder or JSONL file; default: the panel's own.")
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="auto | m-smc | d-smc | abi; baselines: centroid | tfidf | zero-shot | bank-logistic; asking "
        "a model: logits | elicited | ensemble | fidelity.",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="exact | particles | live | hybrid | two-stage")]
Kernel = Annotated[str | None, typer.Option("--kernel", help="soft | hard; default: the method's own.")]
Populations = Annotated[int, typer.Option("--populations", help="T: the tolerance keeps 2^-T of prior mass.")]
Embedder = Annotated[str | None, typer.Option("--embedder", help="NAME or NAME+NAME; default: the panel's.")]
Simulator = Annotated[
    str | None, typer.Option("--simulator", help="For live, hybrid and asking: which model.")
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        help="Most simulations a case (live, hybrid; a rejected one is tried again) or questions (asking).",
    ),
]
Network = Annotated[str | None, typer.Option("--network", help="For abi: the trained network's folder.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="A decision policy (YAML); default: the panel's own.")
]
RealFile = Annotated[
    Path | None,
    typer.Option("--real", help="Labelled cases of your own (JSONL, CSV, Parquet) to learn from."),
]
UnlabelledFile = Annotated[
    Path | None, typer.Option("--unlabelled", help="Unlabelled cases of your own to learn from: an archive.")
]
AllowRemote = Annotated[bool, typer.Option("--allow-remote", help="Case text may leave this machine.")]
Device = Annotated[str, typer.Option("--device", help="cpu | cuda: where m-smc, d-smc (exact) and abi run.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random streams.")]
PriorOption = Annotated[
    list[str] | None,
    typer.Option("--prior", metavar="LABEL=P", help="Prior probability of a label; repeatable. 0 drops it."),
]
PriorCounts = Annotated[
    list[str] | None,
    typer.Option("--prior-counts", metavar="LABEL=A", help="Dirichlet pseudo-counts instead; repeatable."),
]
Odds = Annotated[
    list[str] | None,
    typer.Option("--odds", metavar="LABEL=F", help="Multiply the prior odds of a label; repeatable."),
]
NonePrior = Annotated[
    float | None,
    typer.Option("--none-prior", metavar="P", help="Prior probability of none of these; the panel's own."),
]
# Files of cases
TextColumn = Annotated[str, typer.Option("--text-column", help="Column of the text.")]
LabelColumn = Annotated[str, typer.Option("--label-column", help="Column of the label.")]
IdColumn = Annotated[str, typer.Option("--id-column", help="Column of the id.")]
# Building a bank
PerLabel = Annotated[int, typer.Option("--per-label", min=1, help="Usable descriptions wanted per label.")]
BankFolder = Annotated[
    Path, typer.Option("--out", help="The bank folder; an interrupted build there goes on.")
]
Background = Annotated[
    int, typer.Option("--background", min=0, help="Descriptions of other conditions, for 'none of these'.")
]
Conditions = Annotated[
    Path | None,
    typer.Option(
        "--conditions",
        help="What --background describes, one condition a line; default: a broad list. "
        "See 'simdx bank conditions'.",
    ),
]
Temperature = Annotated[float, typer.Option("--temperature", min=0, max=2)]
TopP = Annotated[float, typer.Option("--top-p", min=0, max=1)]
MaxNew = Annotated[
    int | None, typer.Option("--max-new", min=1, help="Tokens per description; default by register.")
]
BuildSeed = Annotated[int, typer.Option("--seed", min=0, help="Starts every request's own seed.")]
MaxRequests = Annotated[
    int | None, typer.Option("--max-requests", min=0, help="Stop this run after so many requests.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=0, help="Stop this run after so many tokens.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def parse_assignments(items: list[str] | None, option: str) -> dict[str, float]:
    """`LABEL=NUMBER` strings as a mapping; the last '=' separates, since a label may contain one."""
    out: dict[str, float] = {}
    for item in items or []:
        label, separator, number = item.rpartition("=")
        label = label.strip()
        if not separator or not label:
            raise BadInput(f"{option} '{item[:80]}' is not LABEL=NUMBER")
        try:
            value = float(number)
        except ValueError:
            raise BadInput(f"{option} '{item[:80]}': '{number.strip()[:40]}' is not a number") from None
        if label in out:
            raise BadInput(f"{option} names '{label[:80]}' twice")
        out[label] = value
    return out


def check_target(path: Path, option: str) -> None:
    """Refuse, before anything slow is done, a file that could not be written where the option says."""
    if not path.parent.is_dir():
        raise BadInput(f"the folder of {option} does not exist: {path.parent}")
    if path.is_dir():
        raise BadInput(f"{option} names a folder, {path}: give the name of a file in it")


def read_real(labels: tuple[str, ...], real: Path | None, unlabelled: Path | None) -> dict[str, Any]:
    """The classifier's arguments that real cases make; none where no file is given."""
    if real is None and unlabelled is None:
        return {}
    from simdx.datasets import read_cases
    from simdx.methods.real import NONE_OF_THESE

    out: dict[str, Any] = {}
    if real is not None:
        out["real_cases"] = read_cases(real, labels=(*labels, NONE_OF_THESE)).cases
    if unlabelled is not None:
        out["unlabelled"] = read_cases(unlabelled, labelled=False).texts
    return out


def make_prior(
    labels: tuple[str, ...], prior: list[str] | None, counts: list[str] | None, odds: list[str] | None
) -> Prior:
    """The prior the options describe; uniform when they say nothing."""
    from simdx.abc.prior import Prior

    if counts and (prior or odds):
        raise BadInput("--prior-counts stands alone: leave out --prior and --odds")
    if counts:
        return Prior.from_counts(labels, parse_assignments(counts, "--prior-counts"))
    probabilities = parse_assignments(prior, "--prior")
    if odds:
        return Prior.from_prevalence(labels, probabilities, odds=parse_assignments(odds, "--odds"))
    return Prior.from_probabilities(labels, probabilities)
