"""Every table and figure of the paper, each once: what is measured, which tables and figures show it; and their run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from pandas import DataFrame

from paper import figures, tables
from paper.context import Context
from paper.measures import Measured, ablations, errors, outside, sampler, scores, simplex
from paper.tables import by_panel
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


def _nothing(_: Context) -> Measured:
    return Measured({}, {})


ARTEFACTS = (
    Artefact("main-results", "Table 1 and S4: asking a model against inference over simulations", scores.main_results,
             tables.main_results, figures.by_method("main-results", "accuracy", "accuracy", (0, 1)), 3),
    Artefact("distribution-aware", "Table 2 and S5: distribution-aware methods, with their latency",
             scores.distribution_aware, by_panel(tables.distribution_aware), edition=2),
    Artefact("error-detection", "Table 3: does the uncertainty identify the errors?", scores.error_detection,
             tables.error_detection,
             figures.by_method("error-detection", "error_auroc", "error-detection AUROC", (0.2, 1)), 3),
    Artefact("calibrated-embedding", "Table 4: calibrated and supervised classifiers beside the Bayesian layer",
             scores.calibrated_embedding, by_panel(tables.calibrated_embedding), edition=3),
    Artefact("ternary", "Figure 2a: posteriors on the simplex", simplex.ternary, tables.ternary, figures.ternary),
    Artefact("risk-coverage", "Figure 2b: risk–coverage curves", errors.curves, by_panel(tables.risk_coverage),
             figures.risk_coverage, 2),
    Artefact("uncertainty-decomposition", "Table S1: uncertainty split into ambiguity and doubt",
             simplex.uncertainty_decomposition, tables.uncertainty_decomposition),
    Artefact("paper-settings", "Tables 2, S1 and S10 with the schedule and the training that the paper's figures need",
             sampler.paper_settings, tables.paper_settings, edition=2),
    Artefact("model-banks", "No table of the paper: the same over banks by the models", sampler.model_banks,
             by_panel(tables.model_banks)),
    Artefact("significance", "Table S2: differences from M-SMC, with the draw of cases and of banks",
             errors.significance, by_panel(tables.significance), figures.significance, 2),
    Artefact("bank-draws", "No table of the paper: how far figures move with the draw of the bank", errors.bank_draws,
             by_panel(tables.bank_draws)),
    Artefact("abi-fidelity", "Table S3: fidelity of the amortised network", simplex.abi_fidelity, tables.abi_fidelity),
    Artefact("entropy-strata", "Table S6: accuracy by band of entropy", errors.strata,
             by_panel(tables.entropy_strata), edition=2),
    Artefact("prior-sensitivity", "Table S7: uniform, right and misleading priors", outside.prior_sensitivity,
             by_panel(tables.prior_sensitivity), figures.prior_sensitivity),
    Artefact("out-of-class", "Table S8: entropy on out-of-class cases", outside.out_of_class,
             by_panel(tables.out_of_class), figures.out_of_class, 2),
    Artefact("capabilities", "Table S9: what each variant can do", sampler.capabilities, tables.capabilities),
    Artefact("smc-dynamics", "Tables S10 and S11: population by population, and a worked example",
             sampler.smc_dynamics, tables.smc_dynamics, figures.smc_dynamics),
    Artefact("algorithm-1", "Algorithm 1 with a new text for every proposal", sampler.algorithm_1, tables.algorithm_1,
             edition=2),
    Artefact("error-structure", "Appendix F: the structure of the errors", errors.structure, tables.error_structure),
    Artefact("cosine-ablation", "Table S12: similarities alone", ablations.cosine_ablation, tables.cosine_ablation,
             edition=2),
    Artefact("settings", "Table S13: settings", _nothing, tables.settings),
    Artefact("runtime", "Table S14: run time and calls", sampler.runtime, tables.runtime),
    Artefact("embedding-ablation", "Table S15: embeddings", ablations.embedding_ablation, tables.embedding_ablation),
    Artefact("quantisation-ablation", "Table S16: two weights of one model", ablations.quantisation_ablation,
             tables.quantisation_ablation, edition=3),
    Artefact("temperature-ablation", "Table S17: sampling temperature", ablations.temperature_ablation,
             tables.temperature_ablation, figures.temperature_ablation, 2),
    Artefact("pool-size", "Table S18: how many simulations?", ablations.pool_size, tables.pool_size,
             figures.pool_size),
    Artefact("post-hoc-calibration", "Table S19: post-hoc calibration", scores.post_hoc_calibration,
             by_panel(tables.post_hoc_calibration), edition=3),
    Artefact("prompts", "Table S20: the prompts of the ensemble", _nothing, tables.prompts),
    Artefact("option-orders", "No table of the paper: what the order of the options does", ablations.option_orders,
             tables.option_orders, edition=2),
    Artefact("doubts", "Where the paper contradicts itself", _nothing, tables.doubts),
)  # fmt: skip


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
    for reason in context.skipped.values():
        say(reason)
    return tuple(_run(artefact, context, say) for artefact in artefacts)


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
