"""What all artefacts share: cases, banks, fitted methods, and answers that are computed once.

context.panels                      the panels whose cases are at hand; context.skipped says what is not
context.banks(panel)                names of banks that stand for different simulators
context.answers(Spec(...))          posteriors on all cases of a panel, cached in memory and on disk
context.scores(Spec(...))           their headline metrics with bootstrap intervals
context.fitted(Spec(...))           the fitted method itself, for anything that needs traces or own priors
context.asked(panel)                what language models answered when asked, from records
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from paper import engine, world
from paper.answers import SECOND_ORDER, SIZES, TIMES, Scale, Size, Spec
from paper.asked import Asked, Orders, asked_directly, read_asked, read_orders
from paper.replies import Replies, read_replies
from paper.vectors import embedder_with, read_vectors
from paper.world import REFERENCE
from simdx.abc.prior import Prior
from simdx.embedders.base import Embedder
from simdx.errors import BadInput, SimdxError
from simdx.metrics.resampling import evaluate_probabilities
from simdx.panels.load import PACKAGED
from simdx.runs import Arrays, Store, identity
from simdx.types import Bank, Float, Int, content_hash


def _hash(folder: Path, places: Iterable[Path]) -> str:
    parts = ((p.relative_to(folder).as_posix(), sha256(p.read_bytes()).hexdigest()) for p in sorted(places))
    return content_hash(*(word for part in parts for word in part))


class Context:
    """Shared, cached computation for one run of the paper's artefacts."""

    def __init__(
        self,
        scale: Scale,
        out: Path,
        *,
        panels: tuple[str, ...] = PACKAGED,
        size: Size | None = None,
        data: Path | None = None,
        banks: Path | None = None,
        asking: Path | None = None,
        seed: int = 0,
        embedder: str | None = None,
    ) -> None:
        self.scale: Scale = scale
        self.embedder = embedder  # in place of each panel's own
        self.size = size or SIZES[scale]
        self.out, self.store, self.seed = out, Store(out, "artefacts"), seed
        self.banks_folder = banks or world.folder_named("SIMDX_BANKS", "results/banks")
        self.asking_folder = asking or world.folder_named("SIMDX_ASKING", "results/baselines")
        self.live_folder = world.folder_named("SIMDX_LIVE", "results/live")
        self._memory: dict[Any, Any] = {}
        self._cases: dict[str, world.Cases] = {}
        self.skipped: dict[str, str] = {}
        for panel in panels:
            try:
                self._cases[panel] = world.read_panel(panel, self.size.cases, self.size.outside, data)
            except SimdxError as problem:
                self.skipped[panel] = str(problem)

    # ----------------------------------------------------------------------- what is at hand

    @property
    def panels(self) -> tuple[str, ...]:
        return tuple(self._cases)

    @property
    def smoke(self) -> bool:
        return self.scale == "smoke"

    @property
    def n(self) -> dict[str, int]:
        return {panel: cases.n for panel, cases in self._cases.items()}

    def cases(self, panel: str) -> world.Cases:
        if panel not in self._cases:
            raise BadInput(self.skipped.get(panel, f"'{panel}' is no panel of this run"))
        return self._cases[panel]

    def names(self, panel: str) -> tuple[str, ...]:
        return self.cases(panel).names

    def labels(self, panel: str) -> Int:
        """(N,) gold label positions."""
        return self.cases(panel).label_index

    def banks(self, panel: str) -> tuple[str, ...]:
        """Banks that stand for different simulators: the two packaged files, then each model's own."""
        return (*world.PARTS, *self.models(panel))

    def models(self, panel: str) -> tuple[str, ...]:
        """The language models among them."""
        return world.written_by_models(panel, self.banks_folder)

    def variants(self, panel: str) -> dict[str, world.Variant]:
        """Banks by a model at another temperature, with other weights or with a larger pool."""
        return world.written_by_variants(panel, self.banks_folder)

    def draws(self, panel: str, bank: str) -> tuple[str, ...]:
        """A bank and the other draws by the same model with the same settings."""
        own = (name for name, one in self.variants(panel).items() if (one.kind, one.model) == ("draw", bank))
        return (bank, *own)

    def embedder_name(self, spec: Spec) -> str:
        return spec.embedder or self.embedder or self.cases(spec.panel).source.panel.embedder

    def _embedder(self, name: str) -> Embedder:
        """With the vectors that came with the banks."""
        vectors = self._once("vectors", lambda: read_vectors(self.banks_folder.parent))
        return self._once(("embedder", name), lambda: embedder_with(name, vectors))

    def packaged(self, *names: str) -> tuple[str, ...]:
        """Methods to show over the packaged bank: none with another embedder than the one that the bank ships with,
        where models' own banks are the question (the main grid)."""
        return () if self.embedder else names

    def own_bank(self, panel: str, asked: Asked) -> str:
        """The bank the asked model wrote itself, else the packaged one."""
        return asked.model if asked.model in self.models(panel) else REFERENCE

    # ----------------------------------------------------------------------- panel_data

    def bank(self, spec: Spec) -> Bank:
        def make() -> Bank:
            whole = world.open_bank(self.cases(spec.panel), spec.bank, self.banks_folder)
            return whole if spec.per_label is None else world.pool(whole, spec.per_label, spec.pool_seed)

        return self._once(("bank", spec.panel, spec.bank, spec.per_label, spec.pool_seed), make)

    def panel_data(self, spec: Spec) -> engine.PanelData:
        name = self.embedder_name(spec)

        def make() -> engine.PanelData:
            panel = self.cases(spec.panel).source.panel
            return engine.PanelData.prepare(panel, self.bank(spec), self._embedder(name), reading="plain")

        return self._once(("panel_data", spec.panel, spec.bank, spec.per_label, spec.pool_seed, name), make)

    def observations(self, panel: str, embedder: str | None = None) -> engine.Observations:
        """The labelled cases, embedded."""
        return self._observed(panel, embedder, outside=False)[0]

    def outside_observations(self, panel: str, embedder: str | None = None) -> engine.Observations:
        """The out-of-class cases of a panel that has some, embedded."""
        return self._observed(panel, embedder, outside=True)[0]

    def prior(self, spec: Spec) -> Prior:
        return Prior.from_probabilities(self.names(spec.panel), dict(spec.prior), spec.alpha0)

    def fitted(self, spec: Spec) -> engine.Fitted:
        """The method fitted to its bank; kept for the rest of the run."""
        return self._fitted(spec)[0]

    def network(self, spec: Spec) -> Path:
        """The folder of the amortised network for a spec, trained on its bank when it is not there."""
        panel_data = self.panel_data(spec)
        settings: dict[str, Any] = {
            "objective": spec.objective, "prior_conditioned": spec.prior_conditioned, "seed": spec.seed,
            "populations": spec.populations, "count": self.size.network_observations,
            "epochs": self.size.network_epochs,
        }  # fmt: skip
        vectors = None
        if spec.trained_as == "the paper":  # on its cases, 500 epochs, batches of 64, rate .001
            vectors = np.asarray(self.observations(spec.panel).vectors)
            few = {"epochs": self.size.network_epochs} if self.smoke else {"epochs": 500}
            settings |= {"count": max(len(vectors), 128), "batch": 64, "learning_rate": 1e-3, "patience": 50, **few}
        key = identity(
            settings,
            {"trained_as": spec.trained_as, "bank": panel_data.bank.identity, "embedder": panel_data.embedder.id},
        )
        folder = self.out / "networks" / key[:24]
        engine.train_network(panel_data, self.prior(spec), folder, settings, vectors)
        return folder

    # ----------------------------------------------------------------------- answers

    def answers(self, spec: Spec) -> Arrays:
        """On all of a panel's labelled cases, from the store where they are: `probabilities`, what they cost
        (`TIMES`) and, of a posterior on the simplex, `SECOND_ORDER`. No text, no embedding of a case."""
        return self._once(("answers", spec), lambda: self._answered(spec, outside=False))

    def answers_outside(self, spec: Spec) -> Arrays | None:
        """The same on its out-of-class cases; None where it has none."""
        if self.cases(spec.panel).outside is None:
            return None
        return self._once(("answers outside", spec), lambda: self._answered(spec, outside=True))

    def probabilities(self, spec: Spec) -> Float:
        return self.answers(spec)["probabilities"]

    def seconds(self, spec: Spec) -> dict[str, float]:
        return {name: float(self.answers(spec)[name][0]) for name in TIMES}

    def scores(self, spec: Spec) -> dict[str, Any]:
        """`evaluate_probabilities` of a spec's answers: metrics under their names, `ci`, `n`, `undefined`."""
        y = self.labels(spec.panel)
        return self._once(("scores", spec), lambda: self.evaluate(self.probabilities(spec), y, spec.key))

    def asked_scores(self, panel: str, asked: Asked) -> dict[str, Any]:
        """The same of a model that was asked, on the cases it was asked about."""
        what = f"asked {panel} {asked.name}"
        y = self.labels(panel)[asked.positions]
        return self._once(("scores", what), lambda: self.evaluate(asked.probabilities, y, what))

    def evaluate(self, probabilities: Float, label_index: Int, what: str) -> dict[str, Any]:
        """Headline metrics of any probabilities, with intervals from a stream keyed by `what` they are."""
        rng = self.rng("interval", what)
        return evaluate_probabilities(probabilities, label_index, resamples=self.size.resamples, rng=rng)

    def rng(self, *what: str) -> np.random.Generator:
        """A stream of its own for whatever is named: artefacts do not disturb each other's draws."""
        return np.random.default_rng([self.seed, int(content_hash(*what)[:12], 16)])

    def asked(self, panel: str) -> tuple[Asked, ...]:
        """What language models answered when asked about this panel's cases, matched to them by id.

        From the records of the asking experiments; in a smoke run without records a small model is asked a
        couple of cases. Empty where neither is at hand.
        """

        def make() -> tuple[Asked, ...]:
            found = read_asked(self.asking_folder, panel, self.cases(panel))
            if not found and self.size.asked_cases and panel == self.panels[0]:
                spec = Spec(panel, "")
                about = self.panel_data(spec), self.prior(spec), self.cases(panel)
                found = asked_directly(*about, self.size.asked_cases, self.out / "asking")
            return found

        return self._once(("asked", panel), make)

    def orders(self, panel: str) -> tuple[Orders, ...]:
        """The same for every order of the options, where that is on record."""
        return self._once(("orders", panel), lambda: read_orders(self.asking_folder, panel, self.cases(panel)))

    def replies(self, panel: str) -> tuple[Replies, ...]:
        """Every file of raw replies, whatever the temperature and the weights."""
        return self._once(("replies", panel), lambda: tuple(read_replies(self.asking_folder, panel, self.cases(panel))))

    def asked_outside(self, panel: str) -> tuple[Asked, ...]:
        """What models answered about the out-of-class cases, from records; `positions` are theirs."""
        cases = self.cases(panel)
        if cases.outside is None:
            return ()
        beyond = replace(cases, dataset=cases.outside)
        return self._once(("asked outside", panel), lambda: read_asked(self.asking_folder, panel, beyond))

    @cached_property
    def hashes(self) -> dict[str, Any]:
        """Of everything that a record's numbers rest on."""
        folder, live = self.asking_folder, self.live_folder
        return {
            "asking": _hash(folder, (*folder.glob("asking-*/cells/*.json"), *folder.glob("replies-*/*.gz"))),
            "live": _hash(live, live.glob("algorithm1/*")),
        } | {
            panel: {
                "data": cases.dataset.hash,
                "outside": None if cases.outside is None else cases.outside.hash,
                "panel": cases.source.panel.hash,
                "banks": {
                    name: self.bank(Spec(panel, "", name)).identity
                    for name in (REFERENCE, *self.models(panel), *self.variants(panel))
                },
            }
            for panel, cases in self._cases.items()
        }

    # ----------------------------------------------------------------------- inside

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def _observed(self, panel: str, embedder: str | None, *, outside: bool) -> tuple[engine.Observations, float]:
        """The cases embedded, and what one of them takes."""
        bank = (*self.packaged(REFERENCE), *self.models(panel), REFERENCE)[0]  # any: a case is read alike over all
        spec = Spec(panel, "", bank, embedder=embedder)
        dataset = self.cases(panel).outside if outside else self.cases(panel).dataset
        assert dataset is not None

        def make() -> tuple[engine.Observations, float]:
            panel_data = self.panel_data(spec)
            panel_data.observe(dataset.texts[:1])  # what an embedder loads on first use is no cost of a case
            began = time.perf_counter()
            observed = panel_data.observe(dataset.texts)
            return observed, (time.perf_counter() - began) / max(len(dataset.texts), 1)

        return self._once(("observed", panel, self.embedder_name(spec), outside), make)

    def _fitted(self, spec: Spec) -> tuple[engine.Fitted, float]:
        def make() -> tuple[engine.Fitted, float]:
            network = str(self.network(spec)) if spec.method == "abi" else None
            panel_data = self.panel_data(spec)
            began = time.perf_counter()
            return engine.fit(panel_data, spec, network=network), time.perf_counter() - began

        return self._once(("fitted", spec), make)

    def _answered(self, spec: Spec, *, outside: bool) -> Arrays:
        """A set of answers is one chunk of the store, since its time is measured."""
        cases = self.cases(spec.panel)
        dataset = cases.outside if outside else cases.dataset
        assert dataset is not None
        trained = (self.size.network_observations, self.size.network_epochs)
        settings = {"spec": asdict(spec), "network": trained if spec.method == "abi" else None}
        hashes = {
            "data": dataset.hash, "panel": cases.source.panel.hash, "bank": self.bank(spec).identity,
            "embedder": self._embedder(self.embedder_name(spec)).id,
        }  # fmt: skip

        def compute(texts: Sequence[str]) -> Arrays:
            fitted, fit_seconds = self._fitted(spec)
            observed, embed_seconds = self._observed(spec.panel, spec.embedder, outside=outside)
            prior, n = self.prior(spec), max(len(texts), 1)
            fitted.infer(observed.at(np.arange(1)), prior)  # what is prepared once per prior costs no case
            began = time.perf_counter()
            posterior = fitted.infer(observed, prior).posterior
            took = (fit_seconds, (time.perf_counter() - began) / n, embed_seconds)
            found = {"probabilities": posterior.probabilities}
            found |= {name: np.full(len(texts), value) for name, value in zip(TIMES, took, strict=True)}
            if posterior.second_order is not None:
                found |= {name: getattr(posterior.second_order, name) for name in SECOND_ORDER}
            return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}

        key = identity(settings, hashes)[:32]
        return self.store.answers(key, dataset.texts, compute, size=max(len(dataset.texts), 1))
