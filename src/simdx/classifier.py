"""The front door: a panel, its bank and a method; texts in, answers out.

>>> classifier = Classifier("oral-lesions")
>>> answer = classifier.infer("A soft bluish swelling of the lower lip.", prior={"oral mucocele": 0.6})
>>> classifier.predict(["…", "…"]), classifier.predict_proba(["…"])   # scikit-learn conventions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from simdx import __version__
from simdx.abc.prior import Prior
from simdx.answer import (
    Answer,
    CalibrationAnswer,
    Evidence,
    Provenance,
    SamplerAnswer,
    SecondOrderAnswer,
    SentencePair,
    TextSpan,
    by_name,
)
from simdx.bank.files import bank_for
from simdx.decide.desk import DecisionParts, Desk
from simdx.decide.explain import evidence_of, paired
from simdx.decide.policy import Policy
from simdx.decide.thresholds import PanelFiles
from simdx.egress import admit
from simdx.embedders import get_embedder
from simdx.embedders.base import Embedder
from simdx.errors import BadInput
from simdx.fitting import fit_method
from simdx.methods.fitted import CHUNK, AnswerTable, Settings, Simplex, joined
from simdx.methods.outside import at_prior
from simdx.methods.panel_data import Observations, PanelData, check_text
from simdx.methods.smc import SimplexPosterior
from simdx.reading import not_present, split_sentences
from simdx.types import NONE_OF_THESE, Bank, Case, Float, Int, Panel, plain

if TYPE_CHECKING:
    from simdx.bank.plan import Usage

PriorLike = Prior | Mapping[str, float] | None
Texts = list[str] | tuple[str, ...]


@dataclass(frozen=True)
class OpenedPanel:
    """A panel, read and embedded. Classifiers with different methods can share it."""

    data: PanelData
    read_files: Callable[[], PanelFiles]  # once, when they are first asked for
    own_bank: bool  # the user gave it
    policy: Policy | str | Path | None
    none_prior: float | None

    @classmethod
    def read(
        cls,
        panel: str | Path | Panel,
        bank: str | Path | Bank | None,
        embedder: str | Embedder | None,
        allow_remote: bool,
        policy: Policy | str | Path | None,
        none_prior: float | None,
        reading: str | None = None,
    ) -> OpenedPanel:
        chosen, found, source = bank_for(panel, bank)
        if none_prior is not None:
            found = at_prior(found, none_prior)
        named = embedder if embedder is not None else chosen.embedder
        reader = get_embedder(named, allow_remote=allow_remote) if isinstance(named, str) else named
        folder = None if source is None else source.folder
        data = PanelData.open(chosen, found, admit(reader, allow_remote), folder, reading)
        return cls(data, cache(lambda: PanelFiles.read(source)), bank is not None, policy, none_prior)


class Classifier:
    """A method fitted to a panel's bank. Slow work is done once: at construction, or at the first answer."""

    def __init__(
        self,
        panel: str | Path | Panel | OpenedPanel,
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
        calibration_cases: Sequence[Case] = (),
        none_prior: float | None = None,
        closed: bool = False,
        **settings: Any,
    ) -> None:
        """Load, embed and fit.

        Args:
            panel: A packaged panel's name, the path of a panel file, a `Panel`, or one opened before.
            bank: A bank folder, a JSONL file, or a `Bank`; the panel's own when left out.
            method: `auto` (the shipped recipe), `m-smc`, `d-smc`, `abi`, or a baseline.
            embedder: A name such as `wordllama+minilm`, or an object; the panel's own when left out.
            allow_remote: Whether case text may leave this machine, for an embedder or model that needs it.
            policy: The decision policy or its file; else the packaged one, or one tuned on simulated text.
            real_cases: Labelled cases that join the simulations (`simdx.methods.real_cases`).
            real_weight: How many simulations each counts as; chosen on simulated text when left out.
            unlabelled: An archive of real texts without labels to learn from (the same module).
            unlabelled_weight: How many simulations each counts as; 0 centres cases on them and no more.
            calibration_cases: 8 labelled cases or more. They set how sure answers are and nothing else
                (`simdx.methods.calibration`); not together with real or unlabelled cases.
            none_prior: Prior probability of none of these; the panel's own when left out.
            closed: Leave none of these out: the labels share all probability, and nothing is accepted.
            settings: The other fields of `simdx.methods.Settings`, such as `engine` or `kernel`.
        """
        if closed and none_prior is not None:
            raise BadInput("closed leaves none of these out, so that it has no prior: give one of the two")
        if isinstance(panel, OpenedPanel):
            self._opened = panel
            self.settings = Settings(method=method, allow_remote=allow_remote, closed=closed, **settings)
        else:
            given = None
            if len(real_cases) or len(unlabelled) or len(calibration_cases) or unlabelled_weight is not None:
                from simdx.methods.real_cases import Given

                given = Given(real_cases, real_weight, unlabelled, unlabelled_weight, calibration_cases)
                settings |= given.identities
            self.settings = Settings(method=method, allow_remote=allow_remote, closed=closed, **settings)
            opened = OpenedPanel.read(
                panel, bank, embedder, allow_remote, policy, none_prior, self.settings.reading
            )
            if given is not None:
                opened = replace(opened, data=given.added_to(opened.data, self.settings))
            self._opened = opened
        self.data = self._opened.data
        self.panel, self.bank, self.embedder = self.data.panel, self.data.bank, self.data.embedder
        self.fitted = fit_method(self.data, self.settings)
        self.remote = self.fitted.remote
        if none_prior is not None and not self.fitted.none_of_these:
            raise BadInput(f"{method} does not estimate none of these: --none-prior does not apply")
        if policy is not None:
            _ = self.desk  # a policy that cannot be read is refused now, not at the first answer

    def with_method(self, method: str, simulator: str | None = None) -> Classifier:
        """This panel, bank and embedder under another method; nothing is read from disk again.

        Real cases go along with a method that takes them.
        """
        from simdx.methods.real_cases import TAKE_REAL

        opened, chosen = self._opened, asdict(self.settings)
        if method not in TAKE_REAL and opened.data.real is not None:
            opened = replace(opened, data=opened.data.with_real(None))
            chosen |= {"real": None, "archive": None}
        chosen |= {"method": method, "simulator": simulator or self.settings.simulator}
        return Classifier(opened, **chosen)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The labels and, where the method estimates it, none of these as the last."""
        return (*self.panel.names, NONE_OF_THESE) if self.fitted.none_of_these else self.panel.names

    @property
    def classes_(self) -> Float:
        """The outcomes in the order of `predict_proba`'s columns."""
        return np.array(self.outcomes, dtype=object)

    @property
    def panel_files(self) -> PanelFiles:
        return self._opened.read_files()

    @cached_property
    def _simplex(self) -> Simplex:
        return self.fitted.simplex or SimplexPosterior(
            self.data, replace(self.settings, kernel=None, tolerance=None)
        )

    @cached_property
    def _bank_name(self) -> str:
        # Hashing a bank costs milliseconds, more than an answer: once per classifier.
        return f"{self.bank.name}@{self.bank.identity[:16]}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the provenance: what this classifier was given beside panel and bank."""
        real, mass = self.data.real, self._opened.none_prior
        said = mass is not None and self.fitted.none_of_these
        stated = () if not said else (f"none of these has a prior of {mass:g}",)
        return stated if real is None else (*stated, *real.notes(len(self.panel.names)))

    @cached_property
    def _calibration(self) -> CalibrationAnswer | None:
        found = self.fitted.calibration
        if found is None:
            return None
        same = {name: getattr(found, name) for name in ("basis", "n", "writers")}
        ece, interval = found.error_on_cases
        return CalibrationAnswer(sentence=found.sentence(), ece=ece, ece_interval=interval, **same)

    @cached_property
    def desk(self) -> Desk:
        """Alarm, policy and reasons of this classifier."""
        files, opened = self.panel_files, self._opened
        return Desk(self.fitted, self.settings, files, policy=opened.policy, own_bank=opened.own_bank)

    @property
    def policy(self) -> Policy:
        """The decision policy in force; tuned on simulated text when none was given or packaged."""
        return self.desk.policy

    def tune_policy(
        self, texts: Sequence[str], label_index: Int, *, outside: Sequence[str] = (), **how: Any
    ) -> Policy:
        """A policy from labelled cases under the uniform prior: guaranteed risk and conformal sets.

        With `outside`, real cases of no label, it also holds the evidence that accepting needs. `how`:
        `risk`, `confidence`, `coverage` and `kind`, as `decide.tune.tune_on_labelled` takes them.
        """
        real, bank = self.data.real, self.bank
        held = frozenset() if real is None or real.centre is None else real.centre.texts
        if shared := sum(plain(text) in held for text in texts):
            raise BadInput(f"{shared} of these cases are also in the archive: a guarantee needs other cases")
        others = {plain(text): text for text in outside}  # a text that comes twice is one case
        if shared := len({*held, *map(plain, (*bank.texts, *bank.background, *texts))} & others.keys()):
            raise BadInput(f"{shared} outside cases are also among the cases or in the bank: give other ones")
        beyond = self.observe(list(others.values())) if others else None
        return self.desk.tuned_on(self.observe(list(texts)), label_index, beyond, **how)

    def watch_simulations(self, told: Callable[[Usage], None]) -> None:
        """Call `told` at every call to a language model that an answer makes; most methods make none."""
        self.fitted.watch(told)

    def compile(self, folder: Path | None = None) -> Path:
        """Keep all that was fitted, and the policy, for the next time (`simdx.methods.speed`)."""
        from simdx.methods.speed import keep

        if self.settings.method == "auto" and self.data.lexicon.own is None:
            raise BadInput(f"a bank of {len(self.bank.texts)} texts is too large to be compiled")
        arrays = self.fitted.arrays()
        if arrays is None or self.data.address is None:
            raise BadInput("only --method auto is compiled, with its own bandwidth and no real cases")
        return keep(self.data.address, arrays | self.desk.arrays(), folder)

    @overload
    def infer(
        self, texts: str, prior: PriorLike = None, *, explain: bool = True, ask: bool = False
    ) -> Answer: ...
    @overload
    def infer(
        self, texts: Texts, prior: PriorLike = None, *, explain: bool = True, ask: bool = False
    ) -> list[Answer]: ...
    def infer(
        self, texts: str | Texts, prior: PriorLike = None, *, explain: bool = True, ask: bool = False
    ) -> Answer | list[Answer]:
        """One answer for a text, a list of answers for a list of texts.

        `explain` adds the sentences that matter and the prior at which the answer flips (the work of a
        dozen answers); `ask` adds the missing finding that is most worth knowing (the work of a
        hundred).
        """
        if not isinstance(texts, Iterable):
            raise BadInput("give a text, or a list of texts")
        several = [texts] if isinstance(texts, str) else list(texts)
        answers = self.infer_observed(self.observe(several), prior, explain=explain, ask=ask)
        return answers[0] if isinstance(texts, str) else answers

    def observe(self, texts: Sequence[str]) -> Observations:
        """Checked and embedded texts: the slow part of an answer, reusable under any number of priors."""
        _check(texts)
        return self.data.observe(texts)

    def infer_observed(
        self,
        observations: Observations,
        prior: PriorLike = None,
        *,
        explain: bool = True,
        ask: bool = False,
        note: str | None = None,
    ) -> list[Answer]:
        """Answers for texts observed before, under this prior; `note` joins those on how they were made."""
        if not observations.texts:
            return []
        table = self.fitted.answer(observations, self.prior(prior))
        parts = self.desk.decide(observations, table, explain=explain, ask=ask, note=note)
        weights = self.fitted.evidence(observations, table.prior)
        evidence = evidence_of(weights, table.among_labels, self.panel.names, self.bank.texts)
        return [
            self._answer(i, text, table, parts[i], evidence[i]) for i, text in enumerate(observations.texts)
        ]

    def infer_batch(
        self, texts: Sequence[str], prior: PriorLike = None, *, decisions: bool = False
    ) -> AnswerTable:
        """The same numbers as columns, with decisions if asked for; `.to_frame()` is a table for pandas."""
        given = list(texts)
        _check(given)
        # From text to answer a part at a time, where that is possible: a text is read in several ways, and
        # what was read is remembered for as many texts as this.
        step = CHUNK if self.fitted.speed == "fast" else max(1, len(given))
        tables, decided = [], []
        for start in range(0, max(1, len(given)), step):
            observations = self.data.observe(given[start : start + step])
            tables.append(self.infer_batch_observed(observations, prior))
            if decisions:
                decided += self.desk.decide(observations, tables[-1], explain=False)
        whole = replace(tables[0] if len(tables) == 1 else joined(tables), names=self.panel.names)
        return replace(whole, decisions=tuple(one.decision for one in decided)) if decisions else whole

    def infer_batch_observed(self, observations: Observations, prior: PriorLike = None) -> AnswerTable:
        """As `infer_batch`, for texts observed before, here or by another worker."""
        return self.fitted.answer(observations, self.prior(prior))

    def predict_proba(self, texts: str | Sequence[str], prior: PriorLike = None) -> Float:
        """(N, outcomes) posterior probabilities, columns in the order of `classes_`."""
        return self.infer_batch([texts] if isinstance(texts, str) else list(texts), prior).posterior

    def predict(self, texts: str | Sequence[str], prior: PriorLike = None) -> Float:
        """(N,) the most probable outcome of each text: a label, or none of these where it is estimated."""
        return self.classes_[self.predict_proba(texts, prior).argmax(axis=1)]

    def simplex_draws(self, text: str, prior: PriorLike = None, count: int = 200) -> Float:
        """(count, K) draws from the D-SMC posterior of one case: what a picture of the simplex shows."""
        return self.simplex_draws_observed(self.observe([text]), prior, count)

    def simplex_draws_observed(
        self, observations: Observations, prior: PriorLike = None, count: int = 200
    ) -> Float:
        """The same for a case observed before."""
        return self._simplex.draws(observations, self.prior(prior), count)

    def pairs(self, text: str, answer: Answer) -> tuple[SentencePair, ...]:
        """Sentences of the case beside those of its evidence that say alike."""
        case = [s.text for s in answer.sentences] if answer.sentences else split_sentences(text)
        return tuple(paired(case, [e.text for e in answer.evidence], self.desk.telling))

    def prior(self, prior: PriorLike, options: Sequence[str] | None = None) -> Prior:
        """A prior in any accepted form as a `Prior`: None is uniform, a mapping is probabilities.

        With `options` it is given that the answer is one of these labels: a panel of the case's own.
        """
        if options is not None:
            return self.prior(prior).only(self.panel.names, options)
        names = self.panel.names
        if prior is None:
            return Prior.uniform(len(names))
        if isinstance(prior, Prior):
            if len(prior.probabilities) != len(names):
                raise BadInput(f"the prior has {len(prior.probabilities)} labels, the panel has {len(names)}")
            return prior
        if not isinstance(prior, Mapping):
            raise BadInput("a prior is a mapping of labels to probabilities, or a simdx.Prior")
        return Prior.from_probabilities(names, prior)

    def _answer(
        self, i: int, text: str, table: AnswerTable, parts: DecisionParts, evidence: tuple[Evidence, ...]
    ) -> Answer:
        names = self.panel.names
        spans = not_present(text, self.data.reading)
        tolerance, second, voices = float(table.tolerance[i]), table.second_order, table.voices
        sampler = None if table.trace is None else SamplerAnswer.of(table.trace, i)
        cut_short = [sampler.cut_short] if sampler is not None and sampler.cut_short else []
        added = parts._asdict()
        notes = (*added.pop("notes"), *self.notes, *cut_short)
        return Answer(
            panel=self.panel.name,
            method=self.settings.method,
            engine=self.settings.engine,
            label=self.outcomes[int(table.posterior[i].argmax())],
            posterior=by_name(self.outcomes, table.posterior[i]),
            among_labels=by_name(names, table.among_labels[i]),
            entropy_bits=float(table.entropy_bits[i]),
            second_order=None if second is None else SecondOrderAnswer.of(names, second, i),
            typicality=float(table.typicality[i]),
            out_of_class=None if table.out_of_class is None else float(table.out_of_class[i]),
            effective_simulations=float(table.effective_simulations[i]),
            voices=None if voices is None else {name: by_name(names, p[i]) for name, p in voices.items()},
            calibration=self._calibration,
            evidence=evidence,
            **added,
            clinical=self.panel.is_clinical,
            spans=tuple(
                TextSpan.model_validate({"start": s, "end": e, "assertion": meant}) for s, e, meant in spans
            ),
            provenance=Provenance(
                bank=self._bank_name,
                fit=self.fitted.identity,
                embedder=self.embedder.id,
                reading=self.data.reading,
                prior=by_name(names, table.prior.probabilities),
                alpha0=table.prior.alpha0,
                kernel=self.fitted.kernel,
                tolerance=tolerance if np.isfinite(tolerance) else None,
                seed=self.settings.seed,
                version=__version__,
                remote=self.remote,
                policy=f"thresholds from {self.policy.origin.source}",
                notes=notes,
                live=dict(table.usage)
                if self.settings.engine == "live" and table.usage is not None
                else None,
                sampler=sampler,
            ),
        )


def _check(texts: Sequence[str]) -> None:
    for i, text in enumerate(texts):
        check_text(text, f"text {i + 1}" if len(texts) > 1 else "the text")


def infer_panels(
    classifiers: Sequence[Classifier], text: str, priors: Sequence[PriorLike] = (), **how: Any
) -> list[Answer]:
    """Independent questions about one text: an answer of each; it is embedded once for each embedder."""
    seen: dict[str, Observations] = {}
    answers = []
    for classifier, prior in zip(classifiers, priors or [None] * len(classifiers), strict=True):
        if classifier.embedder.id not in seen:
            seen[classifier.embedder.id] = classifier.observe([text])
        answers += classifier.infer_observed(seen[classifier.embedder.id], prior, **how)
    return answers
