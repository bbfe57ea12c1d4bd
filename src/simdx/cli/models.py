"""`simdx models list|pull|verify`: weights; `simdx library search|show`: conditions that need no model;
`simdx abi train|report`: an amortised network, and how faithful it is to D-SMC."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option, Typer

from simdx.abc.prior import Prior
from simdx.cli import options
from simdx.cli.options import File, Told, verb
from simdx.cli.output import Progress, note
from simdx.datasets import read_cases
from simdx.embedders import embed_texts
from simdx.errors import BadInput, RunFailed
from simdx.library import find, meant_by, suggestions, texts
from simdx.models import REGISTRY, describe, verify_or_explain
from simdx.models.registry import folder_of, home
from simdx.types import Float, Int

if TYPE_CHECKING:
    from simdx.methods import PanelData

app = Typer()


@verb(app, "list")
def list_() -> Told:
    """List the named models with size, licence and sources, and whether each is on this machine."""
    rows, lines = [], []
    for m in REGISTRY.values():
        here = False
        with suppress(Exception):
            here = folder_of(m).exists()
        wheel = m.wheels.requirements[0] if m.wheels else None
        places = {"hub": m.hub, "package": m.package, "index": wheel}
        kept = ("name", "kind", "megabytes", "licence", "description", "extra")
        row: dict[str, Any] = {key: getattr(m, key) for key in kept}
        sources = [f"{kind}:{place}" for kind, place in places.items() if place]
        rows.append(row | {"here": here, "sources": sources, "sha256": dict(m.files)})
        state = f"{'here' if here else 'not pulled':10}  {m.description}"
        lines.append(f"{m.name:20} {m.kind:9} {m.megabytes:>5} MB  {m.licence:11} {state}")
    return {"home": str(home()), "models": rows}, *lines, f"\nfolder: {home()}"


@verb(app)
def pull(name: Annotated[str, Argument(help="A name from 'models list'.")]) -> Told:
    """Download a model, check its SHA-256 and put it into the cache folder."""
    from simdx.models.fetch import pull as pull_model

    path = str(pull_model(name, report=note))
    return {"name": name, "path": path}, path


@verb(app)
def verify(
    name: Annotated[str | None, Argument(help="A model; default: all on this machine.")] = None,
) -> Told:
    """Check the SHA-256 of every pinned file (exit 1 if one differs)."""
    chosen = [describe(name)] if name else [m for m in REGISTRY.values() if folder_of(m).exists()]
    problems = {m.name: verify_or_explain(m, folder_of(m)) for m in chosen}
    bad = [f"{name}: {problem}" for name, problem in problems.items() if problem]
    found = {name: problem or "ok" for name, problem in problems.items()}
    lines = (f"{name:20} {said}" for name, said in found.items())
    return {"ok": not bad, "models": found}, *lines, *([RunFailed("; ".join(bad))] if bad else [])


# --------------------------------------------------------------------------- simdx library

library = Typer()


@verb(library)
def search(
    query: Annotated[str, Argument(help="A name, an ICD-10 code, or what it is about.")],
    most: Annotated[int, Option(min=1, max=100, help="Highest number of rows.")] = 10,
) -> Told:
    """Find conditions and everyday topics by name, alias, code or meaning."""
    if not query.strip():
        raise BadInput("the query is empty: give a name, an ICD-10 code or some words")
    found = find(query, most)
    rows = [{**asdict(m.condition), "how": m.how, "score": round(m.score, 3)} for m in found]
    lines = [
        f"{m.condition.name:42} {m.condition.icd10:6} {m.condition.system:26} "
        f"{'emergency' if m.condition.emergency else '':10}{m.how}"
        for m in found
    ]
    return {"query": query, "conditions": rows}, *lines


@verb(library)
def show(
    name: Annotated[str, Argument(help="A condition: its name, an alias or its ICD-10 code.")],
) -> Told:
    """Show a condition and its texts."""
    match = meant_by(name)
    if match is None:
        near = ", ".join(m.condition.name for m in suggestions(name, 3))
        raise BadInput(f"the library has no condition '{name[:80]}': the nearest by meaning are {near}")
    c = match.condition
    own = [text for text in texts() if text.condition == c.name]
    lines = [f"{c.name}  (ICD-10 {c.icd10})" if c.icd10 else c.name]
    lines.append(f"  {c.system}{'; emergency' if c.emergency else ''}; {len(own)} texts")
    also = (("also", c.aliases), ("kind of", c.broader))
    lines += [f"  {title}: {', '.join(names)}" for title, names in also if names]
    lines += [f"\n  [{text.register}] {text.text}" for text in own]
    rows = [{"register": t.register, "text": t.text} for t in own]
    return {**asdict(c), "texts": rows}, *lines


# --------------------------------------------------------------------------- simdx abi

abi = Typer()


@verb(abi)
def train(
    *,
    panel: options.PanelName = "oral-lesions",
    chosen: options.PanelDataOptions,
    observations: Annotated[str, "bank, or a file of unlabelled cases."] = "bank",
    objective: Annotated[str, "kl | particles | mean (the paper's)"] = "kl",
    inputs: Annotated[str, "coordinates (against the labels' means) | embedding (whole)"] = "coordinates",
    prior_conditioned: Annotated[bool, "--prior-conditioned", "Allow any prior."] = False,
    populations: options.Populations = 5,
    out: Annotated[File, "The network's folder; default: the panel's own."] = None,
    count: Annotated[int | None, "Training observations; default 40,000 or 240,000."] = None,
    epochs: Annotated[int | None, "Highest number of epochs; default 60 or 30."] = None,
    learning_rate: Annotated[float | None, "Adam's learning rate; default .003 or .005."] = None,
    seed: options.Seed = 0,
) -> Told:
    """Train a network on simulated text (or on unlabelled cases) to answer as D-SMC does."""
    from simdx.amortised.network import default_folder, save
    from simdx.amortised.train import TrainSettings
    from simdx.amortised.train import train as run

    panel_data = chosen.panel_data(panel)
    options.check_folder(out, "--out")
    vectors = None if observations == "bank" else _cases(panel_data, observations)[0]
    settings = TrainSettings(
        objective=objective,  # type: ignore[arg-type]  # `train` refuses an unknown one
        inputs=inputs,  # type: ignore[arg-type]
        prior_conditioned=prior_conditioned, populations=populations, count=count, epochs=epochs,
        learning_rate=learning_rate, seed=seed,
    )  # fmt: skip
    source = "bank" if vectors is None else Path(observations).name
    with Progress("training", every=5) as bar:
        network = run(panel_data, settings, vectors=vectors, source=source, on_progress=bar.trained)
    folder, metrics = out or default_folder(panel_data), network.card.metrics
    save(network, folder)
    return (
        {"network": str(folder), **network.card.model_dump(mode="json")},
        f"{folder}: trained on {metrics['observations']:,} observations in {metrics['seconds']:.0f} s, "
        f"{metrics['epochs']} epochs, held-out loss {metrics['held_out_loss']:.4f}",
    )


@verb(abi)
def report(
    data: Annotated[Path, "Cases the network never saw: JSONL, CSV, Parquet."],
    network: Annotated[File, "The network's folder; default: the last."] = None,
    panel: Annotated[str | None, "Panel name or file; default: the network's."] = None,
    *,
    chosen: options.PanelDataOptions,
    ood: Annotated[File, "Cases of none of the labels."] = None,
    prior: options.PriorOptions,
    draws: Annotated[int, "Accepted draws of the D-SMC reference."] = 2000,
    seed: options.Seed = 0,
) -> Told:
    """Compare a network with D-SMC case by case: agreement, spread, disagreements, out of class."""
    from simdx.abc.space import Space
    from simdx.amortised import fidelity
    from simdx.amortised.network import default_folder, load

    if network is None:
        panel_data = chosen.panel_data(panel or "oral-lesions")
        found = load(default_folder(panel_data))
    else:
        found = load(network)
        if chosen.embedder is None:
            # From its id to the name to ask for it by: 'wordllama/…+minilm/…' -> 'wordllama+minilm'.
            parts = (part.partition("/") for part in found.card.embedder.split("+"))
            names = (rest.split("@")[0] if kind == "sentence" else kind for kind, _, rest in parts)
            chosen = replace(chosen, embedder="+".join(names))
        panel_data = chosen.panel_data(panel or found.card.panel)
    found.check(panel_data)
    if draws < 2:
        raise BadInput("--draws needs at least 2; 2000 or more are recommended")
    if prior.given or found.card.prior_conditioned:
        own_prior = prior.over(panel_data.panel.names)
    else:
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
    return {**record, "cases": cases}, *fidelity.in_words(record)


def _cases(panel_data: PanelData, path: str) -> tuple[Float, list[str], Int]:
    """(raw embeddings, ids, positions of the gold labels or -1). Embeddings of cases are not cached."""
    dataset, names = read_cases(path, labelled=False), panel_data.panel.names
    gold = [case.fields.get("label") for case in dataset.cases]
    index = np.array([names.index(label) if label in names else -1 for label in gold])
    return embed_texts(panel_data.embedder, dataset.texts), [case.id for case in dataset.cases], index
