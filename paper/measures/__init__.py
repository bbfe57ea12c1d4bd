"""The calculations behind the artefacts, by theme: a context in, figures out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from paper.answers import Spec
from paper.context import Context
from paper.spec import Measured
from paper.world import REFERENCE


def models_used(context: Context) -> list[str]:
    """Embedders, banks and asked models of the run, in words."""
    found: dict[str, None] = {}
    for panel in context.panels:
        found[f"embedder {context.cases(panel).source.panel.embedder}"] = None
        found |= dict.fromkeys(f"bank {bank}" for bank in (REFERENCE, *context.banks(panel)))
        found |= dict.fromkeys(f"asked {asked.simulator}" for asked in context.asked(panel))
    return list(found)


def packaged_used(context: Context, panels: Iterable[str] = ()) -> list[str]:
    """The packaged bank and its embedders alone."""
    embedders = (context.embedder_name(Spec(panel, "")) for panel in panels or context.panels)
    return ["reference bank", *dict.fromkeys(embedders)]


def each_panel(
    context: Context, measure: Callable[[Context, str], Any], models: Callable[[Context], Sequence[str]] = models_used
) -> Measured:
    """The same measured on every panel."""
    return Measured({panel: measure(context, panel) for panel in context.panels}, context.n, models(context))
