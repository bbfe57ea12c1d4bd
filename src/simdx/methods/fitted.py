"""The one shape of a method.

    fit(data, settings) -> Fitted
    Fitted.answer(observations, prior) -> AnswerTable

M-SMC, D-SMC, the shipped recipe, the amortised network and every baseline have it. A `Fitted` says what it
is, so nothing that uses one has to know which method it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space, Typicality
from simdx.egress import is_remote
from simdx.errors import MissingExtra
from simdx.methods.calibration_record import Calibration
from simdx.methods.panel_data import RECIPE_VERSION, Observations, PanelData, fold_of
from simdx.methods.speed import OneSlotCache
from simdx.methods.world import World
from simdx.types import NONE_OF_THESE, Float, Int, Posterior, SecondOrder, Trace, entropy_bits, plain

# Methods whose own figures have moved since: theirs alone are made again.
_EDITIONS = {"likelihood": "2.1", "voices": "2.1"}


def recipe_of(method: object) -> int | str:
    return _EDITIONS.get(str(method), RECIPE_VERSION)


CHUNK = 512  # cases compared at a time: bounded memory, and products that stay near the processor
Kernel = Literal["soft", "hard"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user may choose. None means the method's own default."""

    method: str = "auto"
    engine: str = "exact"
    kernel: Kernel | None = None
    populations: int = 5
    tolerance: float | None = None
    particles: int | None = None
    bandwidth: float | None = None
    reading: str | None = None  # how denied findings count (`simdx.reading.as_read`); None: the bank chooses
    stop_acceptance: float | None = None  # particles: stop below it (the paper advises 0.2); None: all T run
    stay: float | None = None  # particles on labels: DiscreteJump's p; None: the paper's 0.5
    budget: int | None = None
    simulator: str | None = None
    network: str | None = None
    real: str | None = None  # identity of the real cases given: thresholds and resumed runs depend on them
    archive: str | None = None  # and of the unlabelled ones
    allow_remote: bool = False  # whether case text may leave this machine
    replies: str | None = None  # folder in which an asking baseline keeps what was answered
    closed: bool = False  # the labels are all there is: none of these is not weighed
    seed: int = 0

    @classmethod
    def named_alike(cls, description: object, **more: Any) -> Settings:
        """Every setting that a longer description of a run has under the same name; `more` wins."""
        alike = (f.name for f in fields(cls) if hasattr(description, f.name))
        return cls(**({name: getattr(description, name) for name in alike} | more))


class Inferred(NamedTuple):
    """What a method itself infers; `usage` is what its calls to a language model cost."""

    posterior: Posterior
    trace: Trace | None = None
    usage: Mapping[str, Any] | None = None
    voices: Mapping[str, Float] | None = None  # (N, K) of each voice, where several were pooled


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceWeights:
    """Which simulations lie behind answers: (N, n) distances, and shares where the method is a kernel."""

    label_index: Int  # (n,)
    rows: Int  # (n,) positions in the bank's texts
    distance: Float
    share: Float | None


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """N answers as columns. Those that not every reader wants are made when they are first read."""

    among_labels: Float  # (N, K) given that the case has one of the labels
    out_of_class: Float | None  # (N,) probability of none of these; None where it is not weighed
    prior: Prior
    effective_simulations: Float  # (N,)
    tolerance: Float  # (N,)
    trace: Trace | None
    usage: Mapping[str, Any] | None
    make_typicality: Callable[[], Float]
    make_second_order: Callable[[], SecondOrder | None]
    voices: Mapping[str, Float] | None = None  # (N, K) of each voice, where several were pooled
    names: tuple[str, ...] = ()  # of the labels, where the front door made the table
    decisions: tuple[Any, ...] | None = None  # (N,) what to do with each, where that was asked for

    @cached_property
    def posterior(self) -> Float:
        """(N, K + 1) probabilities of the labels and, last, none of these; (N, K) where it is not weighed."""
        return with_none(self.among_labels, self.out_of_class)

    @property
    def of_labels(self) -> Float:
        """(N, K) the labels' part of the posterior: what none of these leaves them."""
        return self.posterior[:, : self.among_labels.shape[1]]

    @cached_property
    def entropy_bits(self) -> Float:
        return entropy_bits(self.posterior)

    @cached_property
    def typicality(self) -> Float:
        """(N,) share of the bank's own simulations that lie farther from the others than the case does."""
        return self.make_typicality()

    @cached_property
    def second_order(self) -> SecondOrder | None:
        return self.make_second_order()

    def to_frame(self) -> Any:
        """A pandas DataFrame: what leads, the probability of every outcome, the decision if asked for."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("a table for pandas", "eval") from None
        names = (*self.names, NONE_OF_THESE)[: self.posterior.shape[1]]
        columns: dict[str, Any] = {"label": [names[k] for k in self.posterior.argmax(axis=1)]}
        columns |= dict(zip(names, self.posterior.T, strict=True))
        columns |= {"entropy_bits": self.entropy_bits, "typicality": self.typicality}
        if self.decisions is not None:
            columns |= {name: [getattr(d, name) for d in self.decisions] for name in ("action", "reason")}
        return pandas.DataFrame(columns)

    def combined(self, how: Callable[..., Float], *others: AnswerTable) -> AnswerTable:
        """Of each column what `how` makes of it and the others'. What a sampler did is left out."""
        tables = (self, *others)

        def column(name: str) -> Any:
            parts = [getattr(table, name) for table in tables]
            return None if any(part is None for part in parts) else how(*parts)

        def second_order() -> SecondOrder | None:
            first, *rest = (table.second_order for table in tables)
            known = [part for part in rest if part is not None]
            return None if first is None or len(known) < len(rest) else first.combined(how, *known)

        heard = [table.voices for table in tables if table.voices is not None]
        voices = None
        if len(heard) == len(tables):
            voices = {name: how(*(part[name] for part in heard)) for name in heard[0]}
        return replace(
            self,
            among_labels=column("among_labels"),
            out_of_class=column("out_of_class"),
            effective_simulations=column("effective_simulations"),
            tolerance=column("tolerance"),
            trace=None,
            usage=None,
            make_typicality=lambda: column("typicality"),
            make_second_order=second_order,
            voices=voices,
            decisions=None,
        )

    def at(self, rows: Int) -> AnswerTable:
        """Some of the answers."""
        decisions = None if self.decisions is None else tuple(self.decisions[int(i)] for i in rows)
        return replace(self.combined(lambda column: column[rows]), usage=self.usage, decisions=decisions)


def with_none(among: Float, outside: Float | None) -> Float:
    """(N, K + 1) answers among the labels (N, K) with none of these (N,) as one more outcome, the last."""
    if outside is None:
        return among
    return np.column_stack([(1 - outside[:, None]) * among, outside])


def joined(tables: Sequence[AnswerTable]) -> AnswerTable:
    """Several batches under one prior as one."""
    return tables[0].combined(lambda *columns: np.concatenate(columns), *tables[1:])


class Simplex(Protocol):
    """A posterior on the simplex that can be drawn from."""

    def draws(self, observations: Observations, prior: Prior, count: int) -> Float:
        """(count, K) draws from the first observation's posterior."""


class Fitted(ABC):
    kernel: Kernel | None = None  # None: no simulation is accepted, rejected or weighed by its distance
    remote: bool = False  # case text leaves this machine
    # fast: fitted and asked in milliseconds; trained: asked so, and fitted in minutes; slow: neither
    speed: Literal["fast", "trained", "slow"] = "fast"
    proportional: bool = False  # the posterior among the labels is prior times likelihood
    none_of_these: bool = False  # it gives a probability of belonging to no label
    calibration: Calibration | None = None  # what its probabilities rest on; None: nobody has looked
    world: World | None = None  # the library beside the panel, where none of these is weighed against it
    simplex: Simplex | None = None  # what its second order comes from, where pictures may share the draws
    progress: Progress | None = None  # told (done, total) while an answer that takes minutes is made

    def __init__(self, data: PanelData) -> None:
        self.data = data
        self.remote = is_remote(data.embedder)

    @abstractmethod
    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        """The posterior among the labels."""

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        """(N,) probability of none of these."""
        return None

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return posterior.second_order

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        """The simulations behind each answer; for a method without a kernel, the nearest ones."""
        return nearby(self.space, observations)

    def cost(self) -> str | None:
        """What a model does for one answer, where that takes long enough to be said before it starts."""
        return None

    def unprepared(self) -> int:
        """Texts that a model has yet to read before the first answer, where that takes minutes."""
        return 0

    def prepare(self, progress: Progress) -> None:  # noqa: B027  # most methods are ready once fitted
        """Let it read them; an answer does so too, in silence."""

    def arrays(self) -> dict[str, Float] | None:
        """All that was fitted, for a compiled panel; None where that is not kept."""
        return None

    @property
    def identity(self) -> str | None:
        """Hash of all that was fitted, for the provenance of an answer; None where that is not kept."""
        return None

    def watch(self, told: Callable[[Any], None]) -> None:  # noqa: B027  # most methods make no call
        """Let `told` hear of every call to a language model that answering makes."""

    def answer(self, observations: Observations, prior: Prior) -> AnswerTable:
        posterior, trace, usage, voices = self.infer(observations, prior)
        return AnswerTable(
            among_labels=np.clip(posterior.probabilities, 0.0, 1.0),  # shares may round to above one
            out_of_class=self.out_of_class(observations, prior) if self.none_of_these else None,
            prior=prior,
            effective_simulations=posterior.effective_simulations,
            tolerance=posterior.tolerance,
            trace=trace,
            usage=usage,
            make_typicality=lambda: self.typicality.p_value(self.space.transform(observations.vectors)),
            make_second_order=lambda: self.second_order(observations, prior, posterior),
            voices=voices,
        )

    @cached_property
    def space(self) -> Space:
        """The bank's embeddings around their mean."""
        return Space.fit(self.data.embedded, centre=True)

    @cached_property
    def typicality(self) -> Typicality:
        return Typicality.fit(self.space.bank)


def nearby(space: Space, observations: Observations, share: Float | None = None) -> EvidenceWeights:
    """Every simulation with its distance in a space."""
    distance: Float = 1 - space.transform(observations.vectors) @ space.bank.T
    return EvidenceWeights(space.label_index, space.rows, distance, share)


def chunked(
    answer: Callable[[Observations, Prior], AnswerTable], observations: Observations, prior: Prior
) -> AnswerTable:
    """Many cases, some at a time."""
    n = len(observations.texts)
    if n <= CHUNK:
        return answer(observations, prior)
    chunks = (np.arange(start, min(n, start + CHUNK)) for start in range(0, n, CHUNK))
    return joined([answer(observations.at(rows), prior) for rows in chunks])


class CrossFitted(Fitted):
    """A method on data with an archive: a text of it that is asked about is answered by a fit without it.

    The archive is dealt into folds by content; each fold has a fit without its texts, made when first asked
    for. A copy with another word in it is another text, and is answered by the fit that holds the first.
    """

    def __init__(self, data: PanelData, fit: Callable[[PanelData], Fitted]) -> None:
        super().__init__(data)
        assert data.real is not None
        assert data.real.centre is not None
        self._real, self._fit, self.whole = data.real, fit, fit(data)
        for name in ("kernel", "proportional", "none_of_these", "calibration", "simplex", "world"):
            setattr(self, name, getattr(self.whole, name))
        self._held = data.real.centre.texts
        self._without: dict[int, Fitted] = {}
        self._fitting = Lock()
        self._last = OneSlotCache()

    def answer(self, observations: Observations, prior: Prior) -> AnswerTable:
        return chunked(super().answer, observations, prior)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        parts = self._parts(observations)
        first, *others = (fitted.infer(cases, prior).posterior for _, cases, fitted in parts)
        back = np.argsort(np.concatenate([rows for rows, _, _ in parts]))
        return Inferred(first.combined(lambda *columns: np.concatenate(columns)[back], *others))

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        if not self.none_of_these:
            return None
        return self._in_order(observations, lambda fitted, cases: fitted.out_of_class(cases, prior))

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return self.whole.second_order(observations, prior, posterior)  # the bank's alone

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        def both(fitted: Fitted, cases: Observations) -> Float:
            found = fitted.evidence(cases, prior)
            return np.stack([found.distance, found.distance if found.share is None else found.share], axis=1)

        of_whole = self.whole.evidence(observations.at(np.arange(1)), prior)
        columns = self._in_order(observations, both)
        share = None if of_whole.share is None else columns[:, 1]
        return EvidenceWeights(of_whole.label_index, of_whole.rows, columns[:, 0], share)

    @cached_property
    def typicality(self) -> Typicality:
        return self.whole.typicality

    def _in_order(
        self, observations: Observations, answer: Callable[[Fitted, Observations], Float | None]
    ) -> Float:
        """What the parts answer, in the order of the cases."""
        parts = self._parts(observations)
        found = np.concatenate([np.asarray(answer(fitted, cases)) for _, cases, fitted in parts])
        return found[np.argsort(np.concatenate([rows for rows, _, _ in parts]))]

    def _parts(self, observations: Observations) -> list[tuple[Int, Observations, Fitted]]:
        """Positions, the cases there, and who answers them."""
        return self._last.get(observations, lambda: self._divided(observations))

    def _divided(self, observations: Observations) -> list[tuple[Int, Observations, Fitted]]:
        texts = observations.texts if observations.of is None else observations.of
        fold = np.array([fold_of(text) if plain(text) in self._held else -1 for text in texts])
        if (fold < 0).all():
            return [(np.arange(len(fold)), observations, self.whole)]
        rows_of = {f: np.flatnonzero(fold == f) for f in np.unique(fold).tolist()}
        return [
            (rows, observations.at(rows), self.whole if f < 0 else self._fit_without(f))
            for f, rows in rows_of.items()
        ]

    def _fit_without(self, fold: int) -> Fitted:
        with self._fitting:  # two threads that ask at once get the same fit, made once
            if fold not in self._without:
                self._without[fold] = self._fit(self.data.with_real(self._real.without(fold)))
            return self._without[fold]
