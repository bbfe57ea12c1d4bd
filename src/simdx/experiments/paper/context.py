"""What all artefacts share: cases, banks, fitted methods, and answers that are computed once.

context.panels                      the panels whose cases are at hand; context.skipped says what is not
context.banks(panel)                names of banks that stand for different simulators
context.answers(Spec(...))          posteriors on all cases of a panel, cached in memory and on disk
context.scores(Spec(...))           their headline metrics with bootstrap intervals
context.fitted(Spec(...))           the fitted method itself, for anything that needs traces or own priors
context.asked(panel)                what language models answered when asked, from records
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.embedders import get_embedder
from simdx.errors import BadInput, SimdxError
from simdx.experiments.config import Scale
from simdx.experiments.paper import world
from simdx.experiments.paper.asked import Asked, asked_directly, read_asked
from simdx.experiments.paper.remembered import RememberedEmbedders
from simdx.experiments.paper.size import SIZES, Size
from simdx.experiments.paper.spec import Answers, Spec, second_order_arrays
from simdx.experiments.paper.store import AnswerStore, deciding_code
from simdx.methods import Infer, Material, Observations, fit_method
from simdx.metrics.headline import evaluate_probabilities
from simdx.types import Bank, Float, Int, content_hash

SEED = 0


class Context:
    """Shared, cached computation for one run of the paper's artefacts."""

    def __init__(
        self,
        scale: Scale,
        out: Path,
        *,
        panels: tuple[str, ...] = world.PACKAGED,
        size: Size | None = None,
        data: Path | None = None,
        banks: Path | None = None,
        asking: Path | None = None,
        seed: int = SEED,
    ) -> None:
        self.scale: Scale = scale
        self.size = size or SIZES[scale]
        self.out = out
        self.seed = seed
        self._data = data or world.data_folder()
        self._banks_folder = banks or world.banks_folder()
        self._asking_folder = asking or world.asking_folder()
        self._store = AnswerStore(out / "cache")
        self._memory: dict[Any, Any] = {}
        self._embedders = RememberedEmbedders()
        self._cases: dict[str, world.Cases] = {}
        self.skipped: dict[str, str] = {}
        for panel in panels:
            try:
                self._cases[panel] = world.read_panel(panel, self.size.cases, self.size.outside, self._data)
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
    def notes(self) -> tuple[str, ...]:
        """One sentence for every panel that had to be left out: every finding carries them."""
        return tuple(f"Left out: {reason}." for reason in self.skipped.values())

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
        own = world.written_by_models(panel, self._banks_folder)
        return (*world.PARTS, *own)

    def models(self, panel: str) -> tuple[str, ...]:
        """The language models among them."""
        return world.written_by_models(panel, self._banks_folder)

    def variants(self, panel: str) -> dict[str, world.Variant]:
        """Banks by a model at another temperature, with other weights or with a larger pool."""
        return world.written_by_variants(panel, self._banks_folder)

    def embedder_name(self, spec: Spec) -> str:
        return spec.embedder or self.cases(spec.panel).source.panel.embedder

    # ----------------------------------------------------------------------- material

    def bank(self, spec: Spec) -> Bank:
        def make() -> Bank:
            whole = world.open_bank(self.cases(spec.panel), spec.bank, self._banks_folder)
            return whole if spec.per_label is None else world.pool(whole, spec.per_label, spec.pool_seed)

        return self._once(("bank", spec.panel, spec.bank, spec.per_label, spec.pool_seed), make)

    def material(self, spec: Spec) -> Material:
        name = self.embedder_name(spec)

        def make() -> Material:
            panel = self.cases(spec.panel).source.panel
            return Material.prepare(panel, self.bank(spec), get_embedder(name))

        return self._once(("material", spec.panel, spec.bank, spec.per_label, spec.pool_seed, name), make)

    def observations(self, panel: str, embedder: str | None = None) -> Observations:
        """The labelled cases, embedded."""
        return self._observed(panel, embedder, outside=False)[0]

    def outside_observations(self, panel: str, embedder: str | None = None) -> Observations | None:
        """The out-of-class cases, embedded; None where the panel has none."""
        if self.cases(panel).outside is None:
            return None
        return self._observed(panel, embedder, outside=True)[0]

    def prior(self, spec: Spec) -> Prior:
        return Prior.from_probabilities(self.names(spec.panel), dict(spec.prior), spec.alpha0)

    def fitted(self, spec: Spec) -> Infer:
        """The method fitted to its bank; kept for the rest of the run."""
        return self._fitted(spec)[0]

    def network(self, spec: Spec) -> Path:
        """The folder of the amortised network for a spec, trained on its bank when it is not there."""
        from simdx.amortised.network import CARD_FILE, save
        from simdx.amortised.train import TrainSettings, train

        material = self.material(spec)
        settings = TrainSettings(
            objective=spec.objective,
            prior_conditioned=spec.prior_conditioned,
            populations=spec.populations,
            count=self.size.network_observations,
            epochs=self.size.network_epochs,
            seed=spec.seed,
        )
        identity = (deciding_code(), material.bank.hash, material.embedder.id, repr(settings))
        folder = self.out / "networks" / content_hash("network", *identity)[:24]
        if not (folder / CARD_FILE).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            save(train(material, settings, prior=self.prior(spec)), folder)
        return folder

    # ----------------------------------------------------------------------- answers

    def answers(self, spec: Spec) -> Answers:
        """Posteriors of a spec on all of its panel's cases, from the cache where they are."""

        def make() -> Answers:
            key = self._identity(spec)
            found = self._store.get(key)
            if found is None:
                found = self._answer(spec)
                self._store.keep(key, found)
            return found

        return self._once(("answers", spec), make)

    def probabilities(self, spec: Spec) -> Float:
        return self.answers(spec).probabilities

    def scores(self, spec: Spec) -> dict[str, Any]:
        """`evaluate_probabilities` of a spec's answers: metrics under their names, `ci`, `n`, `undefined`."""
        return self._once(
            ("scores", spec),
            lambda: self.evaluate(self.probabilities(spec), self.labels(spec.panel), spec.key),
        )

    def evaluate(self, probabilities: Float, label_index: Int, what: str) -> dict[str, Any]:
        """Headline metrics of any probabilities, with intervals from a stream keyed by `what` they are."""
        return evaluate_probabilities(
            probabilities, label_index, resamples=self.size.resamples, rng=self.rng("interval", what)
        )

    def rng(self, *what: str) -> np.random.Generator:
        """A stream of its own for whatever is named: artefacts do not disturb each other's draws."""
        return np.random.default_rng([self.seed, int(content_hash(*what)[:12], 16)])

    def asked(self, panel: str) -> tuple[Asked, ...]:
        """What language models answered when asked about this panel's cases, matched to them by id.

        From the records of the asking experiments; in a smoke run without records a small model is asked a
        couple of cases. Empty where neither is at hand.
        """

        def make() -> tuple[Asked, ...]:
            found = read_asked(self._asking_folder, panel, self.cases(panel))
            if not found and self.size.asked_cases:
                found = asked_directly(panel, self.cases(panel), self.size.asked_cases, self.out / "asking")
            return found

        return self._once(("asked", panel), make)

    def asked_outside(self, panel: str) -> tuple[Asked, ...]:
        """What models answered about the out-of-class cases, from records; `positions` are theirs."""
        cases = self.cases(panel)
        if cases.outside is None:
            return ()
        beyond = replace(cases, dataset=cases.outside)
        return self._once(("asked outside", panel), lambda: read_asked(self._asking_folder, panel, beyond))

    @cached_property
    def hashes(self) -> dict[str, Any]:
        """Of everything that a record's numbers rest on and that lies outside the code."""
        found: dict[str, Any] = {}
        for panel, cases in self._cases.items():
            found[panel] = {
                "data": cases.dataset.hash,
                "outside": None if cases.outside is None else cases.outside.hash,
                "panel": cases.source.panel.hash,
                "banks": {
                    name: self.bank(Spec(panel, "", name)).identity
                    for name in ("reference", *self.models(panel), *self.variants(panel))
                },
            }
        return found

    @cached_property
    def asking_hash(self) -> str:
        """Identity of the records of asking that are at hand."""
        folder = self._asking_folder
        places = sorted(folder.glob("asking-*/cells/*.json"))
        named = ((place.relative_to(folder).as_posix(), place.read_text("utf-8")) for place in places)
        return content_hash(*(part for pair in named for part in pair))

    # ----------------------------------------------------------------------- inside

    def _once(self, key: Any, make: Any) -> Any:
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def _identity(self, spec: Spec) -> str:
        cases = self.cases(spec.panel)
        outside = "" if cases.outside is None else cases.outside.hash
        parts = (
            spec.key,
            get_embedder(self.embedder_name(spec)).id,
            self.bank(spec).hash,
            cases.source.panel.hash,
        )
        trained = repr(self.size) if spec.method == "abi" else ""
        return content_hash("answers", deciding_code(), cases.dataset.hash, outside, trained, *parts)

    def _observed(self, panel: str, embedder: str | None, *, outside: bool) -> tuple[Observations, float]:
        spec = Spec(panel, "", embedder=embedder)
        cases = self.cases(panel)
        dataset = cases.outside if outside else cases.dataset
        assert dataset is not None

        def make() -> tuple[Observations, float]:
            material = self.material(spec)
            material.observe(dataset.texts[:1])  # what an embedder loads on first use is no cost of a case
            remembering = replace(material, embedder=self._embedders.get(self.embedder_name(spec)))
            began, spared = time.perf_counter(), self._embedders.spared_seconds
            observed = remembering.observe(dataset.texts)
            # A part embedded before for another embedder counts with what it took then.
            seconds = time.perf_counter() - began + self._embedders.spared_seconds - spared
            return observed, seconds / max(len(dataset.texts), 1)

        return self._once(("observed", panel, self.embedder_name(spec), outside), make)

    def _fitted(self, spec: Spec) -> tuple[Infer, float]:
        def make() -> tuple[Infer, float]:
            network = str(self.network(spec)) if spec.method == "abi" else None
            material = self.material(spec)
            began = time.perf_counter()
            infer = fit_method(material, spec.settings(network))
            return infer, time.perf_counter() - began

        return self._once(("fitted", spec), make)

    def _answer(self, spec: Spec) -> Answers:
        infer, fit_seconds = self._fitted(spec)
        observed, embed_seconds = self._observed(spec.panel, spec.embedder, outside=False)
        prior = self.prior(spec)
        # What is prepared once per prior (shared draws, say) is no cost of a case either.
        infer(Observations(observed.texts[:1], observed.vectors[:1], observed.keys[:1]), prior)
        began = time.perf_counter()
        posterior, _ = infer(observed, prior)
        seconds = (time.perf_counter() - began) / max(len(observed.texts), 1)
        apart = self.outside_observations(spec.panel, spec.embedder)
        beyond = None if apart is None else infer(apart, prior)[0]
        return Answers(
            probabilities=np.asarray(posterior.probabilities, dtype=float),
            carried=np.asarray(posterior.effective_simulations, dtype=float),
            outside=None if beyond is None else np.asarray(beyond.probabilities, dtype=float),
            second=second_order_arrays(posterior),
            second_outside=None if beyond is None else second_order_arrays(beyond),
            fit_seconds=fit_seconds,
            infer_seconds=seconds,
            embed_seconds=embed_seconds,
        )
