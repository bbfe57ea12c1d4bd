"""`simdx abi train|report`: make an amortised network, and see how faithful it is to D-SMC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from simdx.cli import options
from simdx.cli.output import say
from simdx.cli.progress import Progress
from simdx.errors import BadInput

if TYPE_CHECKING:
    from simdx.methods import PanelData
    from simdx.types import Float, Int

app = Typer(help="Amortised inference: D-SMC's answers in one forward pass.", no_args_is_help=True)


@app.command()
@options.spread
def train(
    *,
    panel: options.PanelName = "oral-lesions",
    chosen: options.PanelDataOptions,
    observations: Annotated[str, Option(help="bank, or a file of unlabelled cases.")] = "bank",
    objective: Annotated[str, Option(help="kl | particles | mean (the paper's)")] = "kl",
    prior_conditioned: Annotated[bool, Option("--prior-conditioned", help="Take any prior.")] = False,
    populations: options.Populations = 5,
    out: Annotated[Path | None, Option(help="The network's folder; default: the panel's own.")] = None,
    count: Annotated[int | None, Option(help="Training observations; default 40,000 or 240,000.")] = None,
    epochs: Annotated[int | None, Option(help="At most so many; default 60 or 30.")] = None,
    learning_rate: Annotated[float | None, Option(help="Adam's learning rate; default .003 or .005.")] = None,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Train a network on simulated text (or on unlabelled cases) to answer as D-SMC does."""
    panel_data = chosen.panel_data(panel)
    options.check_folder(out, "--out")
    vectors = None if observations == "bank" else _cases(panel_data, observations)[0]

    from simdx.amortised.network import default_folder, save
    from simdx.amortised.train import TrainSettings
    from simdx.amortised.train import train as run

    settings = TrainSettings(
        objective=objective,  # type: ignore[arg-type]  # `train` refuses an unknown one
        prior_conditioned=prior_conditioned, populations=populations, count=count, epochs=epochs,
        learning_rate=learning_rate, seed=seed,
    )  # fmt: skip
    source = "bank" if vectors is None else Path(observations).name
    with Progress("training", every=5) as bar:
        network = run(panel_data, settings, vectors=vectors, source=source, on_progress=bar.trained)
    folder = out or default_folder(panel_data)
    save(network, folder)
    metrics = network.card.metrics
    say(
        json,
        {"network": str(folder), **network.card.model_dump(mode="json")},
        f"{folder}: trained on {metrics['observations']:,} observations in {metrics['seconds']:.0f} s, "
        f"{metrics['epochs']} epochs, held-out loss {metrics['held_out_loss']:.4f}",
    )


@app.command()
@options.spread
def report(
    data: Annotated[Path, Option(help="Cases the network never saw: JSONL, CSV, Parquet.")],
    network: Annotated[Path | None, Option(help="The network's folder; default: the last.")] = None,
    panel: Annotated[str | None, Option(help="Panel name or file; default: the network's.")] = None,
    *,
    chosen: options.PanelDataOptions,
    ood: Annotated[Path | None, Option(help="Cases of none of the labels.")] = None,
    prior: options.PriorOptions,
    draws: Annotated[int, Option(help="Accepted draws of the D-SMC reference.")] = 2000,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Compare a network with D-SMC case by case: agreement, spread, disagreements, out of class."""
    from simdx.amortised import fidelity
    from simdx.amortised.network import default_folder, load

    found = load(network) if network is not None else None
    if found is not None and chosen.embedder is None:
        chosen = replace(chosen, embedder=_embedder_name(found.card.embedder))
    panel_data = chosen.panel_data(panel or (found.card.panel if found is not None else "oral-lesions"))
    if found is None:
        found = load(default_folder(panel_data))
    found.check(panel_data)
    if draws < 2:
        raise BadInput("--draws needs at least 2; the figures to reach are meant for 2000 or more")
    from simdx.abc.space import Space

    own_prior = prior.over(panel_data.panel.names)
    if not prior.given and not found.card.prior_conditioned:
        import numpy as np

        from simdx.abc.prior import Prior

        own_prior = Prior(np.array(found.card.prior.probabilities), found.card.prior.alpha0)
    vectors, ids, gold = _cases(panel_data, str(data))
    space = Space.fit(panel_data.embedded, centre=False)
    comparison = fidelity.compare(found, space, vectors, own_prior, draws=draws, seed=seed)
    record: dict[str, Any] = {
        "panel": panel_data.panel.name,
        "embedder": panel_data.embedder.id,
        "objective": found.card.objective,
        "prior_conditioned": found.card.prior_conditioned,
        "prior": dict(zip(panel_data.panel.names, own_prior.probabilities.tolist(), strict=True)),
        "alpha0": own_prior.alpha0,
        "populations": found.card.populations,
        **fidelity.summary(comparison, gold),
        "out_of_class": None,
    }
    if ood is not None:
        outside, _, _ = _cases(panel_data, str(ood))
        other = fidelity.compare(found, space, outside, own_prior, draws=draws, seed=seed)
        record["out_of_class"] = fidelity.out_of_class(comparison, other)
    cases = fidelity.rows(comparison, ids, panel_data.panel.names)
    say(json, {**record, "cases": cases}, *fidelity.in_words(record))


def _cases(panel_data: PanelData, path: str) -> tuple[Float, list[str], Int]:
    """(raw embeddings, ids, positions of the gold labels or -1). Embeddings of cases are not cached."""
    import numpy as np

    from simdx.datasets import read_cases
    from simdx.embedders import embed_texts

    dataset = read_cases(path, labelled=False)
    names = panel_data.panel.names
    gold = [case.fields.get("label") for case in dataset.cases]
    return (
        embed_texts(panel_data.embedder, [case.text for case in dataset.cases]),
        [case.id for case in dataset.cases],
        np.array([names.index(label) if label in names else -1 for label in gold]),
    )


def _embedder_name(identity: str) -> str:
    """The name to ask for an embedder by, from its id: 'wordllama/…+minilm/…' -> 'wordllama+minilm'."""
    names = []
    for part in identity.split("+"):
        kind, _, rest = part.partition("/")
        names.append(rest.split("@")[0] if kind == "sentence" else kind)
    return "+".join(names)
