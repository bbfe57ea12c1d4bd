"""The front door: a panel, its bank and a method; texts in, answers out.

>>> classifier = Classifier("oral-lesions")
>>> answer = classifier.infer("A soft bluish swelling of the lower lip.", prior={"oral mucocele": 0.6})
>>> classifier.predict(["…", "…"]), classifier.predict_proba(["…"])   # scikit-learn conventions
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from simdx import __version__
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.answer import AlarmAnswer, Answer, Evidence, FlipAnswer, Provenance, SecondOrderAnswer, ViewAnswer
from simdx.bank.files import packaged_bank, read_bank
from simdx.decide.alarm import Alarms
from simdx.decide.conformal import Kind
from simdx.decide.desk import Considered, Desk
from simdx.decide.evidence import carried_shares, choose_rows
from simdx.decide.policy import Policy
from simdx.decide.rehearsal import Answers
from simdx.decide.tune import tune_on_labelled
from simdx.egress import admit, is_remote
from simdx.embedders import get_embedder
from simdx.embedders.base import Embedder
from simdx.errors import BadInput
from simdx.methods import METHODS, Material, Observations, Settings, fit_method
from simdx.methods.archive import with_archive
from simdx.methods.outside import fit_outside
from simdx.methods.outside_odds import at_prior
from simdx.methods.real import archive_identity, check_settings, real_identity, with_real
from simdx.methods.recipe import Recipe
from simdx.methods.simplex_view import SimplexView
from simdx.methods.smc import BANDWIDTH
from simdx.panels import load_source
from simdx.panels.load import PanelSource
from simdx.types import Bank, Case, Float, Int, Panel, SecondOrder, Trace, entropy_bits, is_writable, plain

if TYPE_CHECKING:
    from simdx.bank.live import Usage

MAX_TEXT_BYTES = 2_000_000

PriorLike = Prior | Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What evaluation needs of N answers, as arrays."""

    posterior: Float  # (N, K): what the decision uses
    posterior_in_class: Float  # (N, K)
    entropy_bits: Float
    out_of_class: Float | None
    typicality: Float
    effective_simulations: Float
    tolerance: Float
    second_order: SecondOrder | None
    trace: Trace | None
    alarm: Alarms | None = None


class Classifier:
    """A fitted method on a panel's bank. Everything slow happens once, on first use or construction."""

    def __init__(
        self,
        panel: str | Path | Panel,
        bank: str | Path | Bank | None = None,
        *,
        method: str = "auto",
        embedder: str | Embedder | None = None,
        allow_remote: bool = False,
        policy: Policy | str | Path | None = None,
        real_cases: Sequence[Case] = (),
        real_weight: float | None = None,
        unlabelled: Sequence[str] = (),
        unlabelled_weight: float | None = None,
        none_prior: float | None = None,
        **settings: Any,
    ) -> None:
        """Load, embed and fit.

        Args:
            panel: A packaged panel's name, the path of a panel file, or a `Panel`.
            bank: A bank folder, a JSONL file, or a `Bank`; the panel's own when left out.
            method: `auto` (the shipped recipe), `m-smc`, `d-smc`, `abi`, or a baseline.
            embedder: A name such as `wordllama+minilm`, or an object; the panel's own when left out.
            allow_remote: Whether case text may leave this machine, for an embedder or model that needs it.
            policy: The decision policy or its file; else the packaged one, or one tuned on simulated text.
            real_cases: Labelled cases that count as `real_weight` simulations each (`simdx.methods.real`).
            real_weight: See `real_cases`; the weight that simulated text preferred when left out.
            unlabelled: An archive of real texts to learn from without labels (`simdx.methods.archive`).
            unlabelled_weight: How many simulations each counts as; 0 centres cases on them and no more.
            none_prior: Prior probability that a case is another condition than the labels; the panel's own
                when left out.
            settings: The other fields of `simdx.methods.base.Settings`, such as `engine` or `kernel`.
        """
        unlabelled = _checked(unlabelled, unlabelled_weight)
        if real_cases:
            settings["real"] = real_identity(real_cases, real_weight)
        if unlabelled:
            settings["archive"] = archive_identity(unlabelled, unlabelled_weight)
        self.settings = Settings(method=method, allow_remote=allow_remote, **settings)
        self.panel, self.bank, self._source = _resolve(panel, bank)
        self._own_bank = bank is not None
        self._none_prior = none_prior
        if none_prior is not None:
            if method in METHODS and method != "auto":
                raise BadInput(f"the prior of none of these is for --method auto: {method} has no background")
            self.bank = at_prior(self.bank, none_prior)
        self._given_policy = policy
        named = embedder if embedder is not None else self.panel.embedder
        self.embedder = (
            get_embedder(named, allow_remote=allow_remote)
            if isinstance(named, str)
            else admit(named, allow_remote)
        )
        material = Material.prepare(self.panel, self.bank, self.embedder)
        if real_cases or unlabelled:
            check_settings(self.settings)
        if real_cases:
            material = with_real(material, real_cases, real_weight)
        if unlabelled:
            material = with_archive(
                material, unlabelled, unlabelled_weight, bandwidth=self.settings.bandwidth
            )
        self._fit(material)
        if policy is not None:
            _ = self._desk  # a policy that cannot be read is refused now, not at the first answer

    def _fit(self, material: Material) -> None:
        self.material, self.bank = material, material.bank
        self._infer = fit_method(self.material, self.settings)
        self._second_order = self._simplex.infer if self.settings.method == "auto" else None
        # The background is a hypothesis of the shipped recipe; other methods have none.
        self._outside = fit_outside(self.material) if self.settings.method == "auto" else None
        # A method made for very large banks brings the typicality that such a bank can afford.
        affordable = getattr(self._infer, "typicality", None)
        self._typicality = affordable(self._space) if affordable else Typicality.fit(self._space.bank)

    @property
    def remote(self) -> bool:
        """Does anything about a case leave this machine: to the embedder, or to a model that is asked?"""
        asked = getattr(self._infer, "simulator", None)
        return is_remote(self.embedder) or (asked is not None and is_remote(asked))

    def with_method(self, method: str) -> Classifier:
        """This panel, bank and embedder under another method; nothing is read from disk again."""
        other = copy.copy(self)
        for name in ("_space", "_simplex", "_bank_name", "_desk"):
            other.__dict__.pop(name, None)
        other.settings = replace(self.settings, method=method)
        other._fit(self.material)
        self.desk.read_beside(into=other.desk)
        return other

    @property
    def classes_(self) -> Float:
        """Label names in the order of `predict_proba`'s columns."""
        return np.array(self.panel.names, dtype=object)

    @cached_property
    def _space(self) -> Space:
        return Space.fit(self.material.embedded, centre=True)

    @cached_property
    def _simplex(self) -> SimplexView:
        return SimplexView(self.material, replace(self.settings, kernel=None, engine="exact", tolerance=None))

    @cached_property
    def _bank_name(self) -> str:
        # Hashing a bank costs milliseconds, more than an answer: once per classifier.
        return f"{self.bank.name}@{self.bank.identity[:16]}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What this classifier was given beside panel and bank, in the provenance's words."""
        real, mass = self.material.real, self._none_prior
        said = mass is not None and self._outside is not None
        stated = () if not said else (f"another condition than the labels has a prior of {mass:g}",)
        return stated if real is None else (*stated, *real.notes(len(self.panel.names)))

    @cached_property
    def _desk(self) -> Desk:
        return Desk(
            self.material, self.settings, self._source, self._answer_with, self._posterior,
            policy=self._given_policy, own_bank=self._own_bank, remote=self.remote,
        )  # fmt: skip

    @property
    def policy(self) -> Policy:
        """The decision policy in force; tuned on simulated text when none was given or packaged."""
        return self._desk.policy

    def tune_policy(
        self,
        texts: Sequence[str],
        label_index: Int,
        *,
        risk: float = 0.05,
        confidence: float = 0.9,
        coverage: float = 0.9,
        kind: Kind = "class-conditional",
    ) -> Policy:
        """A policy from labelled cases under the uniform prior: guaranteed risk and conformal sets."""
        real = self.material.real
        held = frozenset() if real is None or real.centre is None else real.centre.texts
        if shared := sum(plain(text) in held for text in texts):
            raise BadInput(f"{shared} of these cases are also in the archive: a guarantee needs other cases")
        batch = self.infer_batch(texts)
        return tune_on_labelled(
            self.panel, _answers(batch), label_index, self.desk.fresh_alarm, self.desk.fingerprint,
            risk=risk, confidence=confidence, coverage=coverage, kind=kind,
        )  # fmt: skip

    def watch_simulations(self, told: Callable[[Usage], None]) -> None:
        """Let `told` hear of every call to a language model that answering makes; most methods make none."""
        if watch := getattr(self._infer, "watch", None):
            watch(told)

    @property
    def desk(self) -> Desk:
        """Alarm, policy and reasons of this classifier."""
        return self._desk

    # ----------------------------------------------------------------- answers

    @overload
    def infer(
        self, texts: str, prior: PriorLike = None, *, explain: bool = True, ask: bool = False
    ) -> Answer: ...
    @overload
    def infer(
        self,
        texts: list[str] | tuple[str, ...],
        prior: PriorLike = None,
        *,
        explain: bool = True,
        ask: bool = False,
    ) -> list[Answer]: ...
    def infer(
        self,
        texts: str | Sequence[str],
        prior: PriorLike = None,
        *,
        explain: bool = True,
        ask: bool = False,
    ) -> Answer | list[Answer]:
        """One answer for a text, a list of answers for a list of texts.

        `explain` adds the sentences that matter and the prior at which the answer flips (a dozen answers'
        worth of work); `ask` adds the missing finding most worth knowing (some hundred).
        """
        several = [texts] if isinstance(texts, str) else list(texts)
        answers = self.infer_observed(self.observe(several), prior, explain=explain, ask=ask)
        return answers[0] if isinstance(texts, str) else answers

    def observe(self, texts: Sequence[str]) -> Observations:
        """Checked and embedded texts: the slow part of an answer, reusable under any number of priors."""
        for i, text in enumerate(texts):
            check_text(text, f"text {i + 1}" if len(texts) > 1 else "the text")
        return self.material.observe(texts)

    def infer_observed(
        self, observations: Observations, prior: PriorLike = None, *, explain: bool = True, ask: bool = False
    ) -> list[Answer]:
        """Answers for texts observed before, under this prior."""
        if not observations.texts:
            return []
        chosen = self.prior(prior)
        batch = self._batch(observations, chosen)
        considered = self._desk.consider(
            observations,
            _answers(batch),
            batch.posterior_in_class,
            chosen.probabilities,
            explain=explain,
            ask=ask,
        )
        evidence = self._evidence(observations, batch, chosen)
        return [self._answer(i, batch, considered[i], evidence[i], chosen) for i in range(len(considered))]

    def infer_batch(
        self, texts: Sequence[str], prior: PriorLike = None, *, alarm: bool = False
    ) -> BatchAnswer:
        """The same numbers as arrays, without evidence or decisions; with the alarm where it is asked for."""
        return self.infer_batch_observed(self.observe(list(texts)), prior, alarm=alarm)

    def infer_batch_observed(
        self,
        observations: Observations,
        prior: PriorLike = None,
        *,
        alarm: bool = False,
        second_order: bool = True,
    ) -> BatchAnswer:
        """As `infer_batch`, for texts observed before, here or by another worker.

        Without `second_order` the recipe's simplex posterior is left out: a new prior has to make its draws.
        """
        chosen = self.prior(prior)
        batch = self._batch(observations, chosen, second_order)
        if not alarm or not observations.texts:
            return batch
        raised, _ = self._desk.alarms(observations, batch.posterior, chosen.probabilities)
        return replace(batch, alarm=raised)

    def predict_proba(self, texts: str | Sequence[str], prior: PriorLike = None) -> Float:
        """(N, K) posterior probabilities, columns in the order of `classes_`."""
        return self.infer_batch([texts] if isinstance(texts, str) else list(texts), prior).posterior

    def predict(self, texts: str | Sequence[str], prior: PriorLike = None) -> Float:
        """(N,) the most probable label of each text."""
        return self.classes_[self.predict_proba(texts, prior).argmax(axis=1)]

    def simplex_draws(self, text: str, prior: PriorLike = None, count: int = 200) -> Float:
        """(count, K) draws from the D-SMC posterior of one case: what a picture of the simplex shows."""
        return self.simplex_draws_observed(self.observe([text]), prior, count)

    def simplex_draws_observed(
        self, observations: Observations, prior: PriorLike = None, count: int = 200
    ) -> Float:
        """The same for a case observed before."""
        return self._simplex.draws(observations, self.prior(prior), count)

    def prior(self, prior: PriorLike) -> Prior:
        """A prior in any accepted form as a `Prior`: None is uniform, a mapping is probabilities."""
        names = self.panel.names
        if prior is None:
            return Prior.uniform(len(names))
        if isinstance(prior, Prior):
            if len(prior.probabilities) != len(names):
                raise BadInput(f"the prior has {len(prior.probabilities)} labels, the panel has {len(names)}")
            return prior
        return Prior.from_probabilities(names, prior)

    # ----------------------------------------------------------------- inside

    def _batch(self, observations: Observations, prior: Prior, second_order: bool = True) -> BatchAnswer:
        result, trace = self._infer(observations, prior)
        second = result.second_order
        if second_order and self._second_order is not None:
            second = self._second_order(observations, prior)[0].second_order
        inside = np.clip(result.probabilities, 0.0, 1.0)  # a sum of shares may pass one by a rounding error
        outside = self._outside(observations, prior) if self._outside else None
        share = np.zeros(len(inside)) if outside is None else outside
        posterior = (1 - share)[:, None] * inside + share[:, None] * prior.probabilities
        return BatchAnswer(
            posterior=posterior,
            posterior_in_class=inside,
            entropy_bits=entropy_bits(posterior),
            out_of_class=outside,
            typicality=self._typicality.p_value(self._space.transform(observations.vectors)),
            effective_simulations=result.effective_simulations,
            tolerance=result.tolerance,
            second_order=second,
            trace=trace,
        )

    def _posterior(self, observations: Observations, prior: Float) -> Float:
        """(N, K) what the decision uses, and nothing else: for the many answers an explanation needs."""
        chosen = Prior(prior, float(len(prior)))
        inside = self._infer(observations, chosen)[0].probabilities
        if self._outside is None:
            return inside
        share = self._outside(observations, chosen)[:, None]
        return (1 - share) * inside + share * prior

    def _answer_with(self, material: Material) -> Callable[[Observations], Answers]:
        """This method fitted to other material: how answers to held-out simulations are had."""
        other = copy.copy(self)
        for name in ("_space", "_simplex", "_bank_name", "_desk"):
            other.__dict__.pop(name, None)
        other._fit(material)
        uniform = self.prior(None)
        return lambda observations: _answers(other._batch(observations, uniform))

    def _answer(
        self, i: int, batch: BatchAnswer, considered: Considered, evidence: tuple[Evidence, ...], prior: Prior
    ) -> Answer:
        names = self.panel.names
        tolerance = float(batch.tolerance[i])
        flip = considered.flip
        return Answer(
            panel=self.panel.name,
            method=self.settings.method,
            engine=self.settings.engine,
            label=names[int(batch.posterior[i].argmax())],
            posterior=_named(names, batch.posterior[i]),
            posterior_in_class=_named(names, batch.posterior_in_class[i]),
            entropy_bits=float(batch.entropy_bits[i]),
            second_order=_second_order(names, batch.second_order, i),
            typicality=float(batch.typicality[i]),
            out_of_class=None if batch.out_of_class is None else float(batch.out_of_class[i]),
            alarm=AlarmAnswer(
                considered.alarm_score,
                considered.alarm_flag,
                considered.alarm_p,
                tuple(ViewAnswer(view, names[label], p) for view, label, p in considered.views),
            ),
            conformal_set=considered.conformal_set,
            effective_simulations=float(batch.effective_simulations[i]),
            decision=considered.decision,
            evidence=evidence,
            sentences=considered.sentences,
            flip=None if flip is None else FlipAnswer(names[flip.label], flip.prior),
            missing_finding=considered.missing,
            provenance=Provenance(
                bank=self._bank_name,
                embedder=self.embedder.id,
                prior=_named(names, prior.probabilities),
                alpha0=prior.alpha0,
                kernel=self.settings.kernel or ("soft" if self.settings.method == "auto" else "hard"),
                tolerance=tolerance if np.isfinite(tolerance) else None,
                seed=self.settings.seed,
                version=__version__,
                remote=self.remote,
                policy=f"thresholds from {self.policy.origin.source}",
                notes=(*considered.notes, *self.notes),
                live=getattr(self._infer, "usage", None),
            ),
        )

    def _evidence(
        self, observations: Observations, batch: BatchAnswer, prior: Prior
    ) -> list[tuple[Evidence, ...]]:
        """For each answer the simulations that carried it; the nearest ones where the method is no kernel."""
        settings, names = self.settings, self.panel.names
        space = self._space if settings.method != "m-smc" else Space.fit(self.material.embedded, centre=False)
        places = space.transform(observations.vectors)
        distance: Float = 1 - places @ space.bank.T
        shares = None
        if isinstance(self._infer, Recipe):
            shares = self._infer.weights(observations, prior)
            distance = self._infer.distances(observations)
        elif settings.method == "m-smc" and settings.engine == "exact":
            shares = carried_shares(
                space, places, prior.probabilities, settings.kernel or "hard",
                settings.bandwidth or BANDWIDTH, settings.populations, settings.tolerance,
            )  # fmt: skip
        out = []
        for i, near in enumerate(distance):
            # equal shares (all nothing, or a hard tolerance) are told apart by distance
            rank = -near if shares is None else shares[i] - 1e-9 * near
            rows = choose_rows(space.label_index, batch.posterior_in_class[i], rank)
            out.append(
                tuple(
                    Evidence(
                        names[int(space.label_index[row])],
                        self.bank.texts[int(space.rows[row])],
                        float(near[row]),
                        None if shares is None else float(shares[i, row]),
                    )
                    for row in rows
                )
            )
        return out


def _checked(unlabelled: Sequence[str], weight: float | None) -> list[str]:
    if isinstance(unlabelled, str):
        raise BadInput("unlabelled cases are a list of texts, not one text")
    texts = list(unlabelled)
    for i, text in enumerate(texts):
        check_text(text, f"unlabelled case {i + 1}")
    if weight is not None and not texts:
        raise BadInput("a weight of unlabelled cases was given, and no such case")
    return texts


def check_text(text: object, what: str) -> None:
    """A case must be text with something in it, of a size that is a text and not a file."""
    if not isinstance(text, str):
        raise BadInput(f"{what} is not a string")
    if not text.strip():
        raise BadInput(f"{what} is empty: give the description of a case")
    if not is_writable(text):
        raise BadInput(f"{what} holds half a character (a lone surrogate): give it as UTF-8")
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8")) > MAX_TEXT_BYTES:
        raise BadInput(f"{what} is over {MAX_TEXT_BYTES // 1_000_000} MB: give one case, not a collection")


def _resolve(
    panel: str | Path | Panel, bank: str | Path | Bank | None
) -> tuple[Panel, Bank, PanelSource | None]:
    if isinstance(panel, Panel):
        chosen = panel
        source = None
    else:
        source = load_source(panel)
        chosen = source.panel
    if isinstance(bank, Bank):
        if bank.labels != chosen.names:
            raise BadInput(f"the bank's labels are not those of panel '{chosen.name}'")
        return chosen, bank, source
    if bank is not None:
        return chosen, read_bank(bank, chosen), source
    if source is None:
        raise BadInput("give a bank: a panel object ships none")
    return chosen, packaged_bank(source), source


def _answers(batch: BatchAnswer) -> Answers:
    second = batch.second_order
    return Answers(
        posterior=batch.posterior,
        entropy_bits=batch.entropy_bits,
        typicality=batch.typicality,
        out_of_class=batch.out_of_class,
        aleatoric_bits=None if second is None else second.aleatoric_bits,
        epistemic_bits=None if second is None else second.epistemic_bits,
    )


def _named(names: Sequence[str], values: Float) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _second_order(names: Sequence[str], second: SecondOrder | None, i: int) -> SecondOrderAnswer | None:
    if second is None:
        return None
    return SecondOrderAnswer(
        mean=_named(names, second.mean[i]),
        total_bits=float(second.total_bits[i]),
        aleatoric_bits=float(second.aleatoric_bits[i]),
        epistemic_bits=float(second.epistemic_bits[i]),
        alpha0=float(second.alpha0[i]),
        cap=second.cap,
    )
