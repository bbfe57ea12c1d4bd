"""How a verb is declared, and the options that several verbs share.

`@verb(app)` makes a command of a function. Strings beside a parameter's type are the help of its option and,
before it, names other than the parameter's. A parameter that is a group of options (a dataclass) is spread:
each field becomes an option with the field's name, help and default. A verb returns what it found: the object
that `--json` prints, then the lines that are printed otherwise, and a failure last where it ends in one. One
that prints by itself takes `json`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import InitVar, asdict, dataclass, is_dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from typer import Option, Typer

from simdx.cli.output import say
from simdx.errors import BadInput, SimdxError

if TYPE_CHECKING:
    from simdx.abc.prior import Prior
    from simdx.classifier import Classifier
    from simdx.datasets import Columns
    from simdx.methods import PanelData

Told = tuple[Any, ...]  # a JSON object, then lines, then perhaps a failure
File = Path | None
Many = list[str] | None
PanelName = Annotated[str, "--panel", "A packaged panel or the path of a panel file."]
PanelNames = Annotated[Many, "--panel", "A packaged panel or a panel file; repeatable."]
AllowRemote = Annotated[bool, "--allow-remote", "Allow case text to leave this machine."]
AsJson = Annotated[bool, "--json", "Print one JSON object."]
NonePrior = Annotated[
    float | None, Option("--none-prior", metavar="P", help="Prior of none of these; default: the panel's.")
]
Fast = Annotated[bool, "--fast", "Use the light embedder alone, even where MiniLM is installed."]
Network = Annotated[str | None, "--network", "For abi: the folder of the trained network."]
Populations = Annotated[int, "--populations", "T: the tolerance keeps 2^-T of the prior mass."]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of all random streams.")]
Register = Annotated[
    str,
    "clinician | patient | case-report | plain | general. Default: general where every label is an everyday "
    "topic of the library, else clinician.",
]
TextColumn = Annotated[str, "--text-column", "Column of the text."]
Resamples = Annotated[int, Option(min=100, max=1_000_000, help="Bootstrap resamples.")]


def verb(app: Typer | None = None, name: str | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Make a command of a function, of this app or, without one, for whoever registers it."""

    def command(call: Callable[..., Any]) -> Any:
        hints = get_type_hints(call, include_extras=True)
        groups: dict[str, list[str]] = {}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(call).parameters.values():
            group = hints[parameter.name]
            if isinstance(group, type) and is_dataclass(group):
                own = get_type_hints(group, include_extras=True)
                fields = inspect.signature(group).parameters.values()
                parameters += [_option(field, own[field.name]) for field in fields]
                groups[parameter.name] = [field.name for field in fields]
            else:
                parameters.append(_option(parameter, group))
        returns = "json" not in hints and hints["return"] is not type(None)
        if returns:
            json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False)
            parameters.append(_option(json, AsJson))

        @wraps(call)
        def run(**given: Any) -> None:
            json = given.pop("json") if returns else False
            for group, fields in groups.items():
                given[group] = hints[group](**{field: given.pop(field) for field in fields})
            found = list(call(**given) or ())
            failure = found.pop() if found and isinstance(found[-1], SimdxError) else None
            if found:
                say(json, *found)
            if failure is not None:
                raise failure

        del run.__wrapped__  # Typer would read the options of the function itself
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run if app is None else app.command(name)(run)

    return command


def _option(parameter: inspect.Parameter, kind: Any) -> inspect.Parameter:
    kind = getattr(kind, "type", kind)  # of an InitVar
    if strings := [one for one in get_args(kind)[1:] if isinstance(one, str)]:
        kind = Annotated[get_args(kind)[0], Option(*strings[:-1], help=strings[-1])]
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind)


def go_fast(fast: bool) -> None:
    """Panels name their embedder when they are read, here and in every worker."""
    if fast:
        os.environ["SIMDX_FAST"] = "1"


# --------------------------------------------------------------------------- what answers


@dataclass(frozen=True)
class PanelDataOptions:
    """A bank, and the embedder that reads it."""

    bank: Annotated[File, "A bank folder or JSONL file; default: the panel's own."] = None
    embedder: Annotated[str | None, "NAME or NAME+NAME; default: the panel's."] = None
    allow_remote: AllowRemote = False
    fast: InitVar[Fast] = False

    def __post_init__(self, fast: bool) -> None:
        go_fast(fast)

    def panel_data(self, panel: str) -> PanelData:
        from simdx.bank.files import bank_for
        from simdx.embedders import get_embedder
        from simdx.methods import PanelData

        chosen, bank, _ = bank_for(panel, self.bank)
        embedder = get_embedder(self.embedder or chosen.embedder, allow_remote=self.allow_remote)
        return PanelData.prepare(chosen, bank, embedder)

    def classifier(self, panel: str, **more: Any) -> Classifier:
        """A classifier with these options; `more` adds to them or takes their place."""
        from simdx.classifier import Classifier

        return Classifier(panel, **(asdict(self) | more))


@dataclass(frozen=True)
class MethodOptions(PanelDataOptions):
    """A method on that bank."""

    method: Annotated[
        str,
        "auto | m-smc | d-smc | abi; baselines: centroid | tfidf | zero-shot | bank-logistic | "
        "setfit | setfit-real | zerogen | nli | gliclass; by a language model: logits | elicited | "
        "ensemble | fidelity | likelihood | voices; by a decision server: systemone.",
    ] = "auto"
    engine: Annotated[str, "exact | particles | live"] = "exact"
    kernel: Annotated[str | None, "soft | hard; default: the method's own."] = None
    populations: Populations = 5
    tolerance: Annotated[float | None, Option(min=0, help="A distance, in place of --populations.")] = None
    particles: Annotated[int | None, Option(min=2, help="S: number of particles or draws.")] = None
    stop_acceptance: Annotated[float | None, Option(min=0, max=1, help="Stop below this acceptance.")] = None
    stay: Annotated[float | None, Option(min=0, max=1, help="m-smc: DiscreteJump's p; default 0.5.")] = None
    reading: Annotated[str | None, "Denied findings: plain | light | cut | denied | found | heavy."] = None
    closed: Annotated[bool, "--closed", "Leave none of these out of the answer."] = False
    seed: Seed = 0


@dataclass(frozen=True)
class AnswerOptions(MethodOptions):
    """All options of `classify` and `evaluate` that affect the answers."""

    none_prior: NonePrior = None
    simulator: Annotated[str | None, "The language model, where the method asks one."] = None
    budget: Annotated[int | None, Option(min=1, help="Most simulations or questions per case.")] = None
    network: Network = None
    real_cases: Annotated[File, "--real", "Your own labelled cases to learn from."] = None
    unlabelled: Annotated[File, "Unlabelled cases to learn from; in a .txt, a text a line."] = None

    def classifier(self, panel: str, **more: Any) -> Classifier:
        more |= {"real_cases": (), "unlabelled": ()}
        if self.real_cases or self.unlabelled:
            from simdx.archive import read_texts
            from simdx.datasets import read_cases

            if self.real_cases:
                more["real_cases"] = read_cases(self.real_cases, labels=outcomes(panel)).cases
            if self.unlabelled:
                more["unlabelled"] = read_texts(self.unlabelled)
        return super().classifier(panel, **more)


def outcomes(panel: str) -> tuple[str, ...]:
    """The labels that a case of this panel may have."""
    from simdx.panels import load_panel
    from simdx.types import NONE_OF_THESE

    return (*load_panel(panel).names, NONE_OF_THESE)


# --------------------------------------------------------------------------- the prior


@dataclass(frozen=True)
class PriorOptions:
    """A prior over the labels; uniform by default."""

    prior: Annotated[Many, Option(metavar="LABEL=P", help="Prior probability of a label; 0 excludes it.")] = (
        None
    )
    prior_counts: Annotated[Many, Option(metavar="LABEL=A", help="Dirichlet pseudo-counts of a label.")] = (
        None
    )
    odds: Annotated[Many, Option(metavar="LABEL=F", help="Factor on the prior odds of a label.")] = None
    only: Annotated[Many, Option(metavar="LABEL", help="Allow only labels named this way.")] = None

    @property
    def given(self) -> bool:
        return bool(self.prior or self.prior_counts or self.odds or self.only)

    def over(self, labels: tuple[str, ...]) -> Prior:
        from simdx.abc.prior import Prior

        if self.prior_counts and (self.prior or self.odds):
            raise BadInput("--prior-counts cannot be combined with --prior or --odds")
        probabilities = parse_assignments(self.prior, "--prior")
        if self.prior_counts:
            whole = Prior.from_counts(labels, parse_assignments(self.prior_counts, "--prior-counts"))
        elif self.odds:
            whole = Prior.from_prevalence(labels, probabilities, odds=parse_assignments(self.odds, "--odds"))
        else:
            whole = Prior.from_probabilities(labels, probabilities)
        return whole.only(labels, self.only) if self.only else whole

    def among(self, panels: Sequence[tuple[str, ...]]) -> list[Prior]:
        """One prior for each panel; the value given for a label counts for every panel that has it."""
        if len(panels) == 1:
            return [self.over(panels[0])]

        def about(item: str, labels: tuple[str, ...]) -> bool:
            return item in labels or item.rpartition("=")[0].strip() in labels

        said = {option: items or [] for option, items in asdict(self).items()}
        for item in chain(*said.values()):
            if not any(about(item, labels) for labels in panels):
                raise BadInput(f"'{item[:80]}' is a label of none of these panels")
        priors = []
        for labels in panels:
            own = {option: [i for i in items if about(i, labels)] for option, items in said.items()}
            priors.append(PriorOptions(**own).over(labels))
        return priors


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


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of a file of labelled texts."""

    text_column: TextColumn = "text"
    label_column: Annotated[str, "Column of the label."] = "label"

    @property
    def columns(self) -> Columns:
        from simdx.datasets import Columns

        return Columns(*asdict(self).values())


@dataclass(frozen=True)
class CaseColumns(ColumnOptions):
    """The columns of a file of cases, which have ids."""

    id_column: Annotated[str, "Column of the id."] = "id"


def check_target(path: Path | None, option: str) -> None:
    """Refuse an output file that could not be written, before any slow work."""
    if path is not None and not path.parent.is_dir():
        raise BadInput(f"the folder for {option} does not exist: {path.parent}")
    if path is not None and path.is_dir():
        raise BadInput(f"{option} names a folder, {path}: give the name of a file in it")


def check_folder(path: Path | None, option: str) -> None:
    """The same for a folder that need not exist yet."""
    if path is not None and path.exists() and not path.is_dir():
        raise BadInput(f"{option} {path} is a file: give a folder")
