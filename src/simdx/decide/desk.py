"""The desk: everything between a posterior and a decision, for one fitted classifier.

It holds the policy and the alarm (both found on simulated text the first time they are needed, unless a
policy that was tuned for the same bank, embedder and method says them) and considers a batch of answers at
a time: alarm, conformal set, sentences, flip, missing finding, decision. It sees the method only through two
functions, so it does not matter which one it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from simdx.abc import exact, space, typicality
from simdx.bank.facets import facets_of
from simdx.bank.files import read_bank
from simdx.decide import alarm, lexical, views
from simdx.decide.alarm import Alarm, Alarms, Null, fit_alarm
from simdx.decide.conformal import ConformalThresholds
from simdx.decide.flip import Flip, find_flip
from simdx.decide.missing import MissingFinding, Sayings, missing_finding, topics_of
from simdx.decide.policy import NullFile, Policy, policy_text, read_policy
from simdx.decide.rehearsal import Answers, AnswerWith, Rehearsal, join, rehearse
from simdx.decide.rule import Facts, decide
from simdx.decide.sentences import SentenceEffect, parts_of, sentence_effects, without_each
from simdx.decide.tune import TUNING, tune_on_simulated
from simdx.decide.views import Seen, View, build_views
from simdx.decide.words import too_few
from simdx.disk import CannotWrite, make_folder, seal_of, write_atomically
from simdx.embedders.base import embed_texts
from simdx.embedders.cache import embed_cached
from simdx.errors import BadInput
from simdx.methods import (
    archive,
    background,
    comparison,
    folds,
    gather,
    logistic,
    method_fit,
    outside,
    real,
    simplex_view,
    strangeness,
)
from simdx.methods import lexical as character_grams
from simdx.methods.base import Material, Observations, Settings
from simdx.models.verify import home
from simdx.panels.load import PanelSource
from simdx.types import Bank, Decision, Float, Int, case_key, content_hash

POLICY_FILE = "policy.yaml"  # beside a panel file: the policy its maintainer tuned
# Methods that can be fitted again in milliseconds on part of a bank, and asked hundreds of times.
REFITTED = ("auto", "m-smc", "d-smc", "centroid", "tfidf", "zero-shot", "bank-logistic")
CHEAP = (*REFITTED, "abi")
# Methods whose in-class posterior is prior times likelihood, as M-SMC with a soft kernel is.
PROPORTIONAL = ("auto", "bank-logistic")

# What decides the figures that thresholds are set on, beside the method's own module.
CODE_BEHIND_ANSWERS = (
    exact, space, typicality, alarm, lexical, views, archive, background, comparison, folds, gather,
    character_grams, logistic, outside, real, simplex_view, strangeness,
)  # fmt: skip

Answer = Callable[[Observations, Float], Float]  # (observations, prior (K,)) -> posterior (N, K)


@dataclass(frozen=True, slots=True)
class Considered:
    """What the desk adds to one answer. None where it was not asked for or cannot be said."""

    decision: Decision
    alarm_score: float
    alarm_p: float
    alarm_flag: bool
    views: tuple[tuple[str, int, float], ...]  # view, the label it prefers, what it gives the answer's label
    conformal_set: tuple[str, ...] | None
    sentences: tuple[SentenceEffect, ...] | None
    flip: Flip | None
    missing: MissingFinding | None
    notes: tuple[str, ...]


class Desk:
    def __init__(
        self,
        material: Material,
        settings: Settings,
        source: PanelSource | None,
        answer_with: AnswerWith,
        answer: Answer,
        *,
        policy: Policy | str | Path | None = None,
        own_bank: bool = False,
        remote: bool = False,
    ) -> None:
        self._material, self._settings, self._source = material, settings, source
        self._answer_with, self._answer = answer_with, answer
        self._own_bank = own_bank
        is_exact = settings.engine == "exact"
        self._refits = is_exact and settings.method in REFITTED
        self._cheap = is_exact and settings.method in CHEAP and not remote
        panel = material.panel
        self._given = policy if isinstance(policy, Policy) or policy is None else read_policy(policy, panel)

    # ----------------------------------------------------------------- what was found on simulated text

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What thresholds depend on: a policy tuned for another one of these is not used for guarantees."""
        return self._fingerprint_of(self._settings)

    def _fingerprint_of(self, settings: Settings) -> dict[str, str]:
        apart = ("method", "engine", "seed", "budget", "simulator", "network", "allow_remote", "device")
        chosen = {k: v for k, v in asdict(settings).items() if k not in apart and v is not None}
        return {
            "bank": self._material.bank.identity[:16],
            "embedder": self._material.embedder.id,
            "method": settings.method,
            "engine": settings.engine,
            "code": _code_of(settings.method),
            "settings": ", ".join(f"{k}={v}" for k, v in sorted(chosen.items())),
        }

    @cached_property
    def policy(self) -> Policy:
        """The policy given, else the fitting one beside the panel, else one tuned now on simulated text."""
        if self._given is not None:
            return self._given
        beside = self._beside
        if beside is not None and beside.fits(self.fingerprint):
            return beside
        # An archive has no part in tuning on simulated text: what was found without it is the same.
        found = beside if beside is not None and self._tuned_for(beside) else self._remembered()
        return replace(found, origin=replace(found.origin, made_for=self.fingerprint))

    @cached_property
    def _without_archive(self) -> dict[str, str]:
        return self._fingerprint_of(replace(self._settings, archive=None))

    def _tuned_for(self, policy: Policy) -> bool:
        """Was it tuned on simulated text for all that is here but the archive? It guarantees nothing then."""
        guarantees = policy.conformal is not None or policy.risk is not None
        return (
            policy.origin.source == "simulated text" and not guarantees and policy.fits(self._without_archive)
        )

    @cached_property
    def _beside(self) -> Policy | None:
        """The policy file beside the panel, for whatever method it was made."""
        path = None if self._source is None else self._source.folder / POLICY_FILE
        return read_policy(path, self._material.panel) if path is not None and path.is_file() else None

    def read_beside(self, into: Desk | None = None) -> None:
        """Read now what lies beside the panel, so that it may change or go later; `into` takes it over."""
        for name in ("_beside", "_view_banks"):
            value = getattr(self, name)
            if into is not None:
                into.__dict__[name] = value

    def _remembered(self) -> Policy:
        """The policy tuned on simulated text, kept in the cache folder: tuning fits the method many times."""
        address = content_hash(f"tuning {TUNING}", *map(str, self._without_archive.items()))
        path = home() / "policies" / f"{address}.yaml"
        if path.is_file():
            kept = self._kept(path)
            if kept is not None and kept.fits(self._without_archive):
                return kept
        found = self.tuned()
        policy = replace(found, origin=replace(found.origin, made_for=self._without_archive))
        try:
            make_folder(path.parent)
            text = policy_text(policy)
            write_atomically(path, f"# {seal_of(text)}\n{text}")
        except CannotWrite:
            pass  # a cache folder that cannot be written costs time, not the answer
        return policy

    def _kept(self, path: Path) -> Policy | None:
        """A policy from the cache, or None where it is damaged: a changed threshold would go unnoticed."""
        try:
            seal, _, text = path.read_text(encoding="utf-8").partition("\n")
            whole = seal == f"# {seal_of(text)}"
            return read_policy(path, self._material.panel) if whole else None
        except (BadInput, OSError, ValueError):
            return None

    def tuned(self, risk: float = 0.05) -> Policy:
        """A policy from simulated text alone."""
        _, truth, answers = self._simulated
        return tune_on_simulated(
            self._material.panel, answers, truth, self.fresh_alarm, self.fingerprint, risk
        )

    @cached_property
    def alarm(self) -> Alarm:
        stored = self.policy.alarm
        found_now = "fresh_alarm" in self.__dict__  # the policy was just tuned here
        if stored is not None and not found_now and self.policy.fits(self.fingerprint):
            views = self.views(stored.bandwidths)
            return Alarm(views, tuple(_null(n) for n in stored.nulls), stored.own)
        return self.fresh_alarm

    @cached_property
    def fresh_alarm(self) -> Alarm:
        """The alarm with its nulls found now, on simulated text."""
        seen, truth, answers = self._simulated
        return fit_alarm(self.views(None), seen, truth, None if answers is None else answers.posterior)

    def views(self, bandwidths: dict[str, float] | None) -> tuple[View, ...]:
        banks, vectors = self._view_banks
        return build_views(banks, vectors, _blocks(self._material), bandwidths)

    @cached_property
    def _view_banks(self) -> tuple[list[Bank], list[Float]]:
        """Each file of simulations on its own: files differ in simulator or in what it was told."""
        panel, bank = self._material.panel, self._material.bank
        files = () if self._source is None else dict.fromkeys((*self._source.banks, *self._source.witnesses))
        banks = [read_bank(path, panel) for path in files]
        packaged = {text for b in banks for text in b.texts}
        if not banks or (self._own_bank and not set(bank.texts) <= packaged):
            banks.insert(0, bank)
        known = {text: i for i, text in enumerate(bank.texts)}
        vectors = []
        for b in banks:
            if all(t in known for t in b.texts):
                vectors.append(self._material.embedded.vectors[[known[t] for t in b.texts]])
            else:
                vectors.append(embed_cached(self._material.embedder, b.texts))
        return banks, vectors

    @cached_property
    def _simulated(self) -> tuple[Seen, Int, Answers | None]:
        """Simulated texts with their labels and, where the method can be refitted, held-out answers."""
        banks, vectors = self._view_banks
        held = set(self._material.bank.texts)
        others = [
            (t, v, k)
            for b, vs in zip(banks, vectors, strict=True)
            for t, v, k in zip(b.texts, vs, b.label_index.tolist(), strict=True)
            if t not in held
        ]
        rehearsed = self._material.without_archive()  # whose centre is one of real text, and this is not
        if self._refits:
            own = rehearse(rehearsed, self._answer_with)
        else:
            bank = self._material.bank
            own = Rehearsal(bank.texts, self._material.embedded.vectors, bank.label_index, None)
        if not others:
            return Seen(own.texts, own.vectors), own.truth, own.answers
        texts = tuple(t for t, _, _ in others)
        raw = np.stack([v for _, v, _ in others])
        truth = np.concatenate([own.truth, [k for _, _, k in others]])
        seen = Seen((*own.texts, *texts), np.concatenate([own.vectors, raw]))
        if own.answers is None:
            return seen, truth, None
        answer = self._answer_with(rehearsed)
        more = answer(Observations(texts, raw, _keys(texts)))
        return seen, truth, join([own.answers, more])

    @cached_property
    def _sayings(self) -> Sayings:
        return Sayings.of(self._material.bank, lambda t: embed_cached(self._material.embedder, t))

    # ----------------------------------------------------------------- answers

    def alarms(self, observations: Observations, posterior: Float, prior: Float) -> tuple[Alarms, Float]:
        """The alarm on each answer, with the views' posteriors (V, N, K)."""
        seen = Seen(observations.texts, observations.vectors)
        return self.alarm.judge(seen, posterior, prior)

    def consider(
        self,
        observations: Observations,
        answers: Answers,
        in_class: Float,
        prior: Float,
        *,
        explain: bool = True,
        ask: bool = False,
    ) -> list[Considered]:
        """All of it for N answers; `explain` adds sentences and flip, `ask` the missing finding."""
        if not observations.texts:
            return []
        posterior = answers.posterior
        alarms, opinions = self.alarms(observations, posterior, prior)
        sets, withheld = self._sets(posterior, prior)
        few = too_few(self.policy)
        notes = (*withheld, f"thresholds are round figures: {few}") if few else withheld
        sentences = self._sentences(observations.texts, posterior, prior) if explain else None
        out = []
        for i, text in enumerate(observations.texts):
            outside = None if answers.out_of_class is None else float(answers.out_of_class[i])
            facts = Facts(
                posterior=posterior[i],
                posterior_in_class=in_class[i],
                entropy_bits=float(answers.entropy_bits[i]),
                out_of_class=outside,
                typicality=float(answers.typicality[i]),
                aleatoric_bits=_at(answers.aleatoric_bits, i),
                epistemic_bits=_at(answers.epistemic_bits, i),
                alarm=bool(alarms.flag[i]),
                alarm_p=float(alarms.p_value[i]),
                preferred=tuple(self._material.panel.names[k] for k in opinions[:, i].argmax(axis=1)),
                conformal_set=None if sets is None else sets[i],
                text=text,
            )
            claimed = int(posterior[i].argmax())
            flip = (
                self._flip(observations, i, in_class[i], outside or 0.0, prior, claimed) if explain else None
            )
            out.append(
                Considered(
                    decision=decide(self._material.panel, facts, self.policy),
                    alarm_score=float(alarms.score[i]),
                    alarm_p=float(alarms.p_value[i]),
                    alarm_flag=bool(alarms.flag[i]),
                    views=tuple(
                        (view.name, int(p[i].argmax()), float(p[i, claimed]))
                        for view, p in zip(self.alarm.views, opinions, strict=True)
                    ),
                    conformal_set=facts.conformal_set,
                    sentences=None if sentences is None else sentences[i],
                    flip=flip,
                    missing=self._missing(text, posterior[i], prior) if ask else None,
                    notes=notes,
                )
            )
        return out

    def _sets(self, posterior: Float, prior: Float) -> tuple[list[tuple[str, ...]] | None, tuple[str, ...]]:
        stored = self.policy.conformal
        if stored is None:
            return None, ()
        if not self.policy.fits(self.fingerprint):
            tuned_for = "another bank, embedder or method, prior of none of these or other real cases"
            return None, (f"the policy was tuned for {tuned_for}: no conformal set",)
        if not np.allclose(prior, 1 / len(prior)):
            return None, ("the policy was calibrated under the uniform prior: no conformal set",)
        names = self._material.panel.names
        largest = tuple(np.inf if stored.largest[n] is None else float(stored.largest[n] or 0) for n in names)
        inside = ConformalThresholds(stored.kind, stored.level, largest, stored.n).sets(posterior)
        return [tuple(n for n, held in zip(names, row, strict=True) if held) for row in inside], ()

    def _posterior(self, texts: Sequence[str], prior: Float, of: Sequence[str]) -> Float:
        """Answers to variations of whole texts."""
        return self._answer(self._material.observe(texts, of), prior)

    def _sentences(
        self, texts: Sequence[str], posterior: Float, prior: Float
    ) -> list[tuple[SentenceEffect, ...]] | None:
        """Sentence effects of every text, all shortened texts in one call of the method."""
        if not self._cheap:
            return None
        parts = [parts_of(text) for text in texts]
        variants = [without_each(p) if len(p) > 1 else [] for p in parts]
        flat = [v for vs in variants for v in vs]
        whole = [text for text, vs in zip(texts, variants, strict=True) for _ in vs]
        rest = self._posterior(flat, prior, whole) if flat else np.zeros((0, len(prior)))
        ends = np.cumsum([len(v) for v in variants])
        return [
            sentence_effects(parts[i], int(p.argmax()), p, prior, rest[ends[i] - len(variants[i]) : ends[i]])
            for i, p in enumerate(posterior)
        ]

    def _flip(
        self, observations: Observations, i: int, in_class: Float, outside: float, prior: Float, claimed: int
    ) -> Flip | None:
        if not self._cheap:
            return None
        one = observations.at(np.array([i]))
        try:
            asked = None if self._proportional else lambda pi: self._answer(one, pi)[0]
            return find_flip(in_class, outside, prior, claimed, asked)
        except BadInput:  # an amortised network that was trained for one prior has no other answer
            return None

    @property
    def _proportional(self) -> bool:
        """Is this method's in-class posterior prior times likelihood? Then a flip follows from one answer."""
        soft = self._settings.method == "m-smc" and self._settings.kernel == "soft"
        return soft or self._settings.method in PROPORTIONAL

    def _missing(self, text: str, posterior: Float, prior: Float) -> MissingFinding | None:
        if not self._cheap:
            return None
        panel = self._material.panel
        return missing_finding(
            text,
            posterior,
            topics_of(panel.facets or facets_of(panel), text),
            self._sayings,
            lambda texts: embed_texts(self._material.embedder, texts),
            lambda texts: self._posterior(texts, prior, [text] * len(texts)),
        )


def _code_of(method: str) -> str:
    """A hash of the code that decides what thresholds mean: another version may need other ones."""
    modules = (inspect.getmodule(method_fit(method)), *CODE_BEHIND_ANSWERS)
    code = (inspect.getsource(m) for m in modules if m is not None)
    return content_hash(*code, *strangeness.everyday_texts())[:12]


def _blocks(material: Material) -> dict[str, slice]:
    """The columns of each embedder joined in the material's, by its short name."""
    parts = getattr(material.embedder, "parts", (material.embedder,))
    out: dict[str, slice] = {}
    start = 0
    for part in parts:
        width = sum(part.blocks)
        name = part.id.split("/")[0]
        out[name if name not in out else part.id] = slice(start, start + width)
        start += width
    return out


def _keys(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(case_key(t) for t in texts)


def _null(stored: NullFile) -> Null:
    return Null(stored.confidence, stored.quantiles, stored.n, stored.threshold)


def _at(values: Float | None, i: int) -> float | None:
    return None if values is None else float(values[i])
