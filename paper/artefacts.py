"""Every table and figure of the paper, each once: what is measured, which tables and figures show it; and their run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from pandas import DataFrame

from paper import figures, posteriors, scores, tables
from paper.context import Context, Measured
from paper.world import REFERENCE
from simdx.errors import BadInput
from simdx.methods import RECIPE_VERSION
from simdx.runs import Record, Result, Spec, Store, fail, run


class Artefact(NamedTuple):
    """`edition` is raised when what is measured changes, so that a record made before is not taken for one."""

    name: str
    title: str
    measure: Callable[[Context], Measured]
    tables: Callable[[Mapping[str, Any]], dict[str, DataFrame]]
    figures: Callable[[Mapping[str, Any]], dict[str, Figure]] = lambda _: {}
    edition: int = 1


# An artefact's functions have its name: the measure in `scores` or `posteriors`, its tables, its figures if any.
UNMEASURED = ("settings", "prompts", "doubts")


def _artefact(name: str, title: str, edition: int = 1) -> Artefact:
    function = name.replace("-", "_")
    measure: Any = lambda _: Measured({}, {})  # noqa: E731
    if name not in UNMEASURED:
        measure = getattr(scores, function, None) or getattr(posteriors, function)
    drawn: Any = getattr(figures, function, lambda _: {})
    return Artefact(name, title, measure, getattr(tables, function), drawn, edition)


ARTEFACTS = (
    _artefact("main-results", "Table 1 and S4: asking a model against inference over simulations", 3),
    _artefact("distribution-aware", "Table 2 and S5: distribution-aware methods, with their latency", 2),
    _artefact("error-detection", "Table 3: does the uncertainty identify the errors?", 3),
    _artefact("calibrated-embedding", "Table 4: calibrated and supervised classifiers beside the Bayesian layer", 3),
    _artefact("ternary", "Figure 2a: posteriors on the simplex"),
    _artefact("risk-coverage", "Figure 2b: risk–coverage curves", 2),
    _artefact("uncertainty-decomposition", "Table S1: uncertainty split into ambiguity and doubt"),
    _artefact(
        "paper-settings", "Tables 2, S1 and S10 with the schedule and the training that the paper's figures need", 2
    ),
    _artefact("model-banks", "No table of the paper: the same over banks by the models"),
    _artefact("whole-embedding", "No table of the paper: networks that read the whole embedding, over the same banks"),
    _artefact("significance", "Table S2: differences from M-SMC, with the draw of cases and of banks", 2),
    _artefact("bank-draws", "No table of the paper: how far figures move with the draw of the bank"),
    _artefact("abi-fidelity", "Table S3: fidelity of the amortised network"),
    _artefact("entropy-strata", "Table S6: accuracy by band of entropy", 2),
    _artefact("prior-sensitivity", "Table S7: uniform, right and misleading priors"),
    _artefact("out-of-class", "Table S8: entropy on out-of-class cases", 2),
    _artefact("capabilities", "Table S9: what each variant can do"),
    _artefact("smc-dynamics", "Tables S10 and S11: population by population, and a worked example"),
    _artefact("algorithm-1", "Algorithm 1 with a new text for every proposal", 2),
    _artefact("error-structure", "Appendix F: the structure of the errors"),
    _artefact("cosine-ablation", "Table S12: similarities alone", 2),
    _artefact("settings", "Table S13: settings"),
    _artefact("runtime", "Table S14: run time and calls"),
    _artefact("embedding-ablation", "Table S15: embeddings"),
    _artefact("quantisation-ablation", "Table S16: two weights of one model", 3),
    _artefact("temperature-ablation", "Table S17: sampling temperature", 2),
    _artefact("pool-size", "Table S18: how many simulations?"),
    _artefact("post-hoc-calibration", "Table S19: post-hoc calibration", 3),
    _artefact("ece-size", "No table of the paper: how often the ECE's interval and paired test are wrong"),
    _artefact("prompts", "Table S20: the prompts of the ensemble"),
    _artefact("option-orders", "No table of the paper: what the order of the options does", 2),
    _artefact("doubts", "Where the paper contradicts itself"),
)


def chosen(only: str | None) -> tuple[Artefact, ...]:
    """All artefacts, or those named in a comma-separated list."""
    if only is None:
        return ARTEFACTS
    known, wanted = [one.name for one in ARTEFACTS], [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise BadInput(f"there is no artefact '{name[:60]}': choose among {', '.join(known)}")
    if not wanted:
        raise BadInput("--only names no artefact: give names separated by commas")
    return tuple(one for one in ARTEFACTS if one.name in wanted)


def run_artefacts(
    artefacts: Sequence[Artefact], context: Context, say: Callable[[str], None] = lambda _: None
) -> tuple[Record, ...]:
    """Every artefact's record, in order; one that stands is not measured again."""
    if context.out.exists() and not context.out.is_dir():
        raise BadInput(f"{context.out} is a file: --out needs a folder")
    _keep_fuller(artefacts, context)
    for reason in context.skipped.values():
        say(reason)
    return tuple(_run(artefact, context, say) for artefact in artefacts)


def _keep_fuller(artefacts: Sequence[Artefact], context: Context) -> None:
    """Refuse to replace a record that covers a panel whose cases are missing now."""
    names = {one.name for one in artefacts}
    for record in context.store.records():
        lost = sorted({*record["config"]["panels"]} & {*context.skipped}) if record.name in names else []
        if lost:
            raise BadInput(
                f"{context.out} holds a record of {record.name} with {lost[0]}, which cannot be read now "
                f"({context.skipped[lost[0]]}): set SIMDX_DATA, or give another --out"
            )


def _run(artefact: Artefact, context: Context, say: Callable[[str], None]) -> Record:
    config: dict[str, Any] = {
        "scale": context.scale,
        "recipe": RECIPE_VERSION,
        "seed": context.seed,
        "size": asdict(context.size),
        "panels": list(context.panels),
        "skipped": dict(context.skipped),
        "banks": {panel: [REFERENCE, *context.banks(panel)] for panel in context.panels},
    }
    config |= {"embedder": context.embedder} if context.embedder else {}
    config |= {"edition": artefact.edition} if artefact.edition > 1 else {}

    def measured(own: Context) -> Result:
        finding = artefact.measure(own).to_json()
        left_out = [f"Left out: {reason}." for reason in own.skipped.values()]
        return Result({"finding": {**finding, "notes": [*left_out, *finding["notes"]]}})

    spec: Spec[Context] = Spec("paper", artefact.name, {"config": config}, measured)
    stood = context.store.holds(spec.name, spec.identity(context))
    try:
        record = run(spec, context, context.store)
    except Exception as problem:  # a failed artefact is a result of the run and must not end the others
        record = fail(spec, problem, context.store)
    reason = f": {record.error}" if record.error else ""
    say(f"{artefact.name}: {'on record already' if stood else record.status}{reason}")
    return record


def read_artefacts(folder: Path) -> list[Record]:
    """Every readable record of an artefact's present edition, in the report's order."""
    found = {(r.name, r["config"].get("edition", 1)): r for r in Store(folder, "artefacts").records()}
    return [found[one.name, one.edition] for one in ARTEFACTS if (one.name, one.edition) in found]
