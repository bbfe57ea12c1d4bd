"""What all artefacts share: cases, banks, fitted methods, and answers that are computed once.

context.panels                      the panels whose cases are at hand; context.skipped says what is not
context.banks(panel)                names of banks that stand for different simulators
context.answers(Spec(...))          posteriors on all cases of a panel, cached in memory and on disk
context.scores(Spec(...))           their headline metrics with bootstrap intervals
context.fitted(Spec(...))           the fitted method itself, for anything that needs traces or own priors
context.asked(panel)                what language models answered when asked, from records
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from paper import world
from paper.asked import Asked, Replies, asked_directly, read_asked, read_replies
from paper.vectors import embedder_with, read_vectors
from paper.world import REFERENCE, SECOND_ORDER, SIZES, TIMES, Scale, Size, Spec
from simdx.abc.prior import Prior
from simdx.amortised.network import NETWORK_FILE, save
from simdx.embedders.base import Embedder
from simdx.errors import BadInput, SimdxError
from simdx.fitting import fit_method
from simdx.methods import Fitted, Observations, PanelData, Settings
from simdx.metrics import paired_bootstrap
from simdx.metrics.resampling import evaluate_probabilities
from simdx.panels.load import PACKAGED
from simdx.runs import Arrays, Store, identity
from simdx.types import Bank, Float, Int, content_hash

T = TypeVar("T")
TAILS = (0.025, 0.975)


class Bootstrap(NamedTuple):
    """Percentile intervals of small statistics of per-case numbers, drawn from one stream in the order asked.

    The headline metrics have their own fast bootstrap in `simdx.metrics`.
    """

    rng: np.random.Generator
    resamples: int

    def of(self, statistic: Callable[..., float | None], *groups: Any) -> list[float] | None:
        """Of `statistic(*groups)`, each group resampled on its own, columns of one group together; None where it is
        undefined on a tenth of the resamples."""
        arrays = [np.asarray(group) for group in groups]
        if any(len(array) == 0 for array in arrays):
            return None
        found = []
        for _ in range(self.resamples):
            value = statistic(*(array[self.rng.integers(len(array), size=len(array))] for array in arrays))
            if value is not None and np.isfinite(value):
                found.append(float(value))
        return None if len(found) < 0.9 * self.resamples else np.quantile(found, TAILS).tolist()


def once(method: Callable[..., T]) -> Callable[..., T]:
    """What the same arguments gave is kept for the rest of the run."""

    @wraps(method)
    def kept(self: "Context", *arguments: Any) -> T:
        key = method.__name__, *arguments
        if key not in self.memory:
            self.memory[key] = method(self, *arguments)
        return self.memory[key]

    return kept


class Context:
    """Shared, cached computation for one run of the paper's artefacts."""

    seed = 0

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
        embedder: str | None = None,
    ) -> None:
        self.scale, self.smoke = scale, scale == "smoke"
        self.embedder = embedder  # in place of each panel's own
        self.size = size or SIZES[scale]
        self.out, self.store = out, Store(out, "artefacts")
        self.banks_folder = banks or Path(os.environ.get("SIMDX_BANKS") or "results/banks")
        self.asking_folder = asking or Path(os.environ.get("SIMDX_ASKING") or "results/baselines")
        self.live_folder = Path(os.environ.get("SIMDX_LIVE") or "results/live")
        self.memory: dict[Any, Any] = {}
        self._cases: dict[str, world.Cases] = {}
        self.skipped: dict[str, str] = {}
        for panel in panels:
            try:
                self._cases[panel] = world.read_panel(panel, self.size.cases, self.size.outside, data)
            except SimdxError as problem:
                self.skipped[panel] = str(problem)
        self.panels = tuple(self._cases)
        self.n = {panel: cases.n for panel, cases in self._cases.items()}

    # ----------------------------------------------------------------------- what is at hand

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

    def simulators(self, panel: str) -> tuple[str, ...]:
        """Models that were asked and wrote a bank; every bank where none was asked."""
        asked = {one.model for one in self.asked(panel)}
        return tuple(m for m in self.models(panel) if m in asked) or self.banks(panel)

    def own_bank(self, panel: str, asked: Asked) -> str:
        """The bank the asked model wrote itself, else the packaged one."""
        return asked.model if asked.model in self.models(panel) else REFERENCE

    def packaged(self, *names: str) -> tuple[str, ...]:
        """Methods to show over the packaged bank: none with another embedder than the one that the bank ships with,
        where models' own banks are the question (the main grid)."""
        return () if self.embedder else names

    @once
    def asked(self, panel: str, outside: bool = False) -> tuple[Asked, ...]:
        """What language models answered when asked about this panel's cases, or those of no label; matched by id.

        From the records of the asking experiments; in a smoke run without records a small model is asked a
        couple of cases. Empty where neither is at hand.
        """
        cases = self.cases(panel)
        if outside and cases.outside is None:
            return ()
        about = replace(cases, dataset=cases.part(outside))
        found = read_asked(self.asking_folder, panel, about, self.replies(panel, outside))
        if self.embedder:  # models' own banks are the question: one without a bank is asked in vain
            found = tuple(one for one in found if one.model in self.models(panel))
        if not found and not outside and self.size.asked_cases and panel == self.panels[0]:
            spec = Spec(panel, "")
            how = self.size.asked_cases, self.out / "asking"
            found = asked_directly(self.panel_data(spec), self.prior(spec), cases, *how)
        return found

    @once
    def replies(self, panel: str, outside: bool = False) -> tuple[Replies, ...]:
        """Every file of raw replies, whatever the temperature and the weights."""
        cases = self.cases(panel)
        return tuple(read_replies(self.asking_folder, panel, replace(cases, dataset=cases.part(outside))))

    # ----------------------------------------------------------------------- banks and methods

    @once
    def bank(self, panel: str, name: str, per_label: int | None = None, seed: int = 0) -> Bank:
        whole = world.open_bank(self.cases(panel), name, self.banks_folder)
        return whole if per_label is None else world.pool(whole, per_label, seed)

    def bank_of(self, spec: Spec) -> Bank:
        return self.bank(spec.panel, spec.bank, spec.per_label, spec.pool_seed)

    def embedder_of(self, spec: Spec) -> Embedder:
        return self._embedder(spec.embedder or self.embedder or self.cases(spec.panel).source.panel.embedder)

    @once
    def _embedder(self, name: str) -> Embedder:
        """With the vectors that came with the banks."""
        return embedder_with(name, self._vectors)

    @cached_property
    def _vectors(self) -> dict[bytes, Float]:
        return read_vectors(self.banks_folder.parent)

    def panel_data(self, spec: Spec) -> PanelData:
        return self._panel_data(spec.panel, self.embedder_of(spec), spec.bank, spec.per_label, spec.pool_seed)

    @once
    def _panel_data(self, panel: str, embedder: Embedder, *bank: Any) -> PanelData:
        return PanelData.prepare(self.cases(panel).source.panel, self.bank(panel, *bank), embedder, reading="plain")

    def observations(self, panel: str, outside: bool = False) -> Observations:
        """The labelled or the out-of-class cases, embedded."""
        return self._observed(panel, self.embedder_of(Spec(panel, "")), outside)[0]

    @once
    def _observed(self, panel: str, embedder: Embedder, outside: bool) -> tuple[Observations, float]:
        """The cases embedded, and what one of them takes."""
        bank = (*self.packaged(REFERENCE), *self.models(panel), REFERENCE)[0]  # any: a case is read alike over all
        panel_data = self._panel_data(panel, embedder, bank, None, 0)
        texts = self.cases(panel).part(outside).texts
        panel_data.observe(texts[:1])  # what an embedder loads on first use is no cost of a case
        began = time.perf_counter()
        observed = panel_data.observe(texts)
        return observed, (time.perf_counter() - began) / max(len(texts), 1)

    def prior(self, spec: Spec) -> Prior:
        return Prior.from_probabilities(self.names(spec.panel), dict(spec.prior), spec.alpha0)

    def fitted(self, spec: Spec) -> Fitted:
        """The method fitted to its bank; kept for the rest of the run."""
        return self._fitted(spec)[0]

    @once
    def _fitted(self, spec: Spec) -> tuple[Fitted, float]:
        network = str(self.network(spec)) if spec.method == "abi" else None
        panel_data = self.panel_data(spec)
        began = time.perf_counter()
        fitted = fit_method(panel_data, Settings.named_alike(spec, network=network))
        return fitted, time.perf_counter() - began

    def network(self, spec: Spec) -> Path:
        """The folder of the amortised network for a spec, trained on its bank when it is not there."""
        panel_data = self.panel_data(spec)
        settings: dict[str, Any] = {
            "objective": spec.objective, "prior_conditioned": spec.prior_conditioned, "seed": spec.seed,
            "populations": spec.populations, "count": self.size.network_observations,
            "epochs": self.size.network_epochs,
        }  # fmt: skip
        settings |= {"inputs": spec.inputs} if spec.inputs != "coordinates" else {}
        vectors = None
        if spec.trained_as == "the paper":  # on its cases, 500 epochs, batches of 64, rate .001
            vectors = np.asarray(self.observations(spec.panel).vectors)
            settings |= {"count": max(len(vectors), 128), "batch": 64, "learning_rate": 1e-3, "patience": 50}
            settings["epochs"] = self.size.network_epochs if self.smoke else 500
        made_of = {"bank": panel_data.bank.identity, "embedder": panel_data.embedder.id}
        folder = self.out / "networks" / identity(settings, {"trained_as": spec.trained_as, **made_of})[:24]
        if not (folder / NETWORK_FILE).is_file():
            from simdx.amortised.train import TrainSettings, train  # loads torch

            prior, how = self.prior(spec), TrainSettings(**settings)
            folder.mkdir(parents=True, exist_ok=True)
            save(train(panel_data, how, prior=prior, vectors=vectors, spread=vectors is None), folder)
        return folder

    # ----------------------------------------------------------------------- answers

    @once
    def answers(self, spec: Spec, outside: bool = False) -> Arrays:
        """On all of a panel's labelled cases, or those of no label, from the store where they are: `probabilities`,
        what they cost (`TIMES`) and, of a posterior on the simplex, `SECOND_ORDER`. No text, no embedding of a case.
        A set of answers is one chunk of the store, since its time is measured."""
        cases, embedder = self.cases(spec.panel), self.embedder_of(spec)
        dataset = cases.part(outside)
        trained = (self.size.network_observations, self.size.network_epochs)
        settings = {"spec": spec.settings, "network": trained if spec.method == "abi" else None}
        hashes = {
            "data": dataset.hash, "panel": cases.source.panel.hash, "bank": self.bank_of(spec).identity,
            "embedder": embedder.id,
        }  # fmt: skip

        def compute(texts: Sequence[str]) -> Arrays:
            fitted, fit_seconds = self._fitted(spec)
            observed, embed_seconds = self._observed(spec.panel, embedder, outside)
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

    def probabilities(self, spec: Spec, outside: bool = False) -> Float:
        return self.answers(spec, outside)["probabilities"]

    def seconds(self, spec: Spec) -> dict[str, float]:
        return {name: float(self.answers(spec)[name][0]) for name in TIMES}

    @once
    def scores(self, spec: Spec) -> dict[str, Any]:
        """`evaluate_probabilities` of a spec's answers: metrics under their names, `ci`, `n`, `undefined`."""
        return self.evaluate(self.probabilities(spec), self.labels(spec.panel), spec.key)

    def asked_scores(self, panel: str, asked: Asked) -> dict[str, Any]:
        """The same of a model that was asked, on the cases it was asked about."""
        y = self.labels(panel)[asked.positions]
        return self.evaluate(asked.probabilities, y, f"asked {panel} {asked.name}")

    def evaluate(self, probabilities: Float, label_index: Int, what: str) -> dict[str, Any]:
        """Headline metrics of any probabilities, with intervals from a stream keyed by `what` they are."""
        rng = self.rng("interval", what)
        return evaluate_probabilities(probabilities, label_index, resamples=self.size.resamples, rng=rng)

    def paired(self, p: Float, q: Float, y: Int, metrics: Sequence[str], *what: str) -> dict[str, dict[str, Any]]:
        """The second answers' metrics minus the first's on the same cases, paired bootstrap."""
        rng, resamples = self.rng(*what), self.size.paired_resamples
        found = paired_bootstrap(p, q, y, metrics=tuple(metrics), resamples=resamples, rng=rng)
        return {name: {"difference": d.value, "ci": [d.low, d.high]} for name, d in found.items()}

    def bootstrap(self, *what: str, most: int | None = None) -> Bootstrap:
        return Bootstrap(self.rng(*what), min(self.size.resamples, most or self.size.resamples))

    def rng(self, *what: str) -> np.random.Generator:
        """A stream of its own for whatever is named: artefacts do not disturb each other's draws."""
        return np.random.default_rng([self.seed, int(content_hash(*what)[:12], 16)])

    @cached_property
    def hashes(self) -> dict[str, Any]:
        """Of everything that a record's numbers rest on."""
        folder, live = self.asking_folder, self.live_folder
        found: dict[str, Any] = {
            "asking": _hash(folder, (*folder.glob("asking-*/cells/*.json"), *folder.glob("replies-*/*.gz"))),
            "live": _hash(live, (*live.glob("algorithm1/*"), *live.glob("stratified/*"))),
        }
        for panel, cases in self._cases.items():
            banks = (REFERENCE, *self.models(panel), *self.variants(panel))
            found[panel] = {
                "data": cases.dataset.hash,
                "outside": None if cases.outside is None else cases.outside.hash,
                "panel": cases.source.panel.hash,
                "banks": {name: self.bank(panel, name).identity for name in banks},
            }
        return found


def _hash(folder: Path, places: Iterable[Path]) -> str:
    parts = ((p.relative_to(folder).as_posix(), sha256(p.read_bytes()).hexdigest()) for p in sorted(places))
    return content_hash(*(word for part in parts for word in part))


# --------------------------------------------------------------------------- what an artefact measures


class Measured(NamedTuple):
    """What one artefact measured. `n` counts cases by panel; `notes` say what was left out, and why."""

    data: Mapping[str, Any]
    n: Mapping[str, int]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return plain(self._asdict())


def plain(value: Any) -> Any:
    """JSON-able copy: arrays become lists, numpy scalars Python numbers, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def per_panel(measure: Callable[[Context, str], Any]) -> Callable[[Context], Measured]:
    """What is measured on one panel, on every panel of the run."""

    @wraps(measure)
    def measured(context: Context) -> Measured:
        return Measured({panel: measure(context, panel) for panel in context.panels}, context.n)

    return measured
