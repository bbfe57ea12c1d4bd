"""What is tuned on simulated text: the thresholds of a policy and the alarm, and where they are stored.

Both are tuned when first needed, unless a policy for the same bank, embedder and method holds them. Tuning
fits the method many times, so its result is stored in the cache folder.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import read_bank
from simdx.decide.alarm import Alarm, View, basis_of, build_views, fit_alarm, word_basis
from simdx.decide.policy import (
    TUNING,
    AcceptEvidence,
    Policy,
    check_policy,
    packaged_records,
    policy_data,
    policy_text,
    read_policy,
)
from simdx.disk import CannotWrite, make_folder, seal_of, write_atomically
from simdx.errors import BadInput
from simdx.fitting import fit_method
from simdx.methods.features import LexicalBasis, Lexicon, whole_words
from simdx.methods.fitted import AnswerTable, Fitted, Settings, joined, recipe_of
from simdx.methods.panel_data import Observations, PanelData, embed_read
from simdx.methods.speed import named, part
from simdx.models.registry import home
from simdx.panels.load import PanelSource
from simdx.types import Bank, Float, Int, content_hash

POLICY_FILE = "policy.yaml"  # beside a panel file: the policy its maintainer tuned


@dataclass(frozen=True, slots=True)
class PanelFiles:
    """The files next to a panel file: its maintainer's policy, and its banks, kept separate.

    They are read once and passed on, so that a service keeps running when the files change or are deleted.
    Banks differ in simulator or prompt.
    """

    policy: Policy | None
    banks: tuple[Bank, ...]

    @classmethod
    def read(cls, source: PanelSource | None) -> PanelFiles:
        if source is None:
            return cls(None, ())
        path = source.folder / POLICY_FILE
        files = dict.fromkeys((*source.banks, *source.witnesses))
        return cls(
            read_policy(path, source.panel) if path.is_file() else None,
            tuple(read_bank(file, source.panel) for file in files),
        )


class TunedThresholds:
    def __init__(
        self,
        fitted: Fitted,
        settings: Settings,
        files: PanelFiles,
        *,
        policy: Policy | str | Path | None = None,
        own_bank: bool = False,
    ) -> None:
        self._fitted, self._settings, self._files = fitted, settings, files
        self._data: PanelData = fitted.data
        self._own_bank = own_bank
        panel = self._data.panel
        self._given = policy if isinstance(policy, Policy) or policy is None else read_policy(policy, panel)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What thresholds depend on: if any of it differs, a policy gives no guarantees."""
        return self._fingerprint_of(self._settings)

    def _fingerprint_of(self, settings: Settings) -> dict[str, str]:
        apart = ("method", "engine", "seed", "budget", "simulator", "network", "allow_remote")
        said = {k: v for k, v in asdict(settings).items() if v is not None and v is not False}
        chosen = {k: v for k, v in said.items() if k not in apart}
        found = self._fitted.calibration
        return {
            "bank": self._data.bank.identity[:16],
            "calibration": "none" if found is None else found.digest[:16],
            "embedder": self._data.embedder.id,
            "method": settings.method,
            "engine": settings.engine,
            "recipe": str(recipe_of(settings.method)),
            "settings": ", ".join(f"{k}={v}" for k, v in sorted(chosen.items())),
        }

    def evidence_key(self, policy: Policy) -> dict[str, str]:
        """What the evidence for accepting depends on."""
        key = {**self.fingerprint, "limits": policy.limits}
        if self._fitted.world is not None and self._data.panel.is_clinical:
            from simdx.library import red_flags_version  # the world has it loaded

            key["red flags"] = red_flags_version()
        return key

    @cached_property
    def evidence(self) -> AcceptEvidence | None:
        """The evidence for accepting that fits this desk: the policy's, or packaged."""
        key, own = self.evidence_key(self.policy), self.policy.evidence
        known = packaged_records() if own is None else (own, *packaged_records())
        return next((record for record in known if record.made_for == key), None)

    @cached_property
    def policy(self) -> Policy:
        """The policy given, else the fitting one beside the panel, else one tuned now on simulated text."""
        if self._given is not None:
            return self._given
        maintained = self._files.policy
        if maintained is not None and maintained.fits(self.fingerprint):
            return maintained
        # An archive does not take part in tuning on simulated text: a policy found without it is valid.
        tuned = (  # on simulated text for all that is here but the archive: it guarantees nothing then
            maintained is not None
            and maintained.origin.source == "simulated text"
            and (maintained.conformal, maintained.risk) == (None, None)
            and maintained.fits(self._without_archive)
        )
        found = maintained if maintained is not None and tuned else self._remembered()
        return replace(found, origin=replace(found.origin, made_for=self.fingerprint))

    @cached_property
    def _without_archive(self) -> dict[str, str]:
        return self._fingerprint_of(replace(self._settings, archive=None))

    @cached_property
    def _tuning(self) -> str:
        """What a policy tuned on simulated text depends on."""
        return content_hash(f"tuning {TUNING}", *map(str, self._without_archive.items()))

    def _remembered(self) -> Policy:
        """The policy tuned on simulated text, kept in the cache folder: tuning fits the method many times."""
        compiled = (self._data.compiled or {}).get(f"policy.{self._tuning}")
        if compiled is not None:
            return check_policy(json.loads(compiled.tobytes()), "compiled", self._data.panel)
        path = home() / "policies" / f"{self._tuning}.yaml"
        with suppress(BadInput, OSError, ValueError):
            seal, _, text = path.read_text(encoding="utf-8").partition("\n")
            if seal == f"# {seal_of(text)}":  # otherwise a changed threshold would not be noticed
                return read_policy(path, self._data.panel)
        found = self.tuned()
        policy = replace(found, origin=replace(found.origin, made_for=self._without_archive))
        with suppress(CannotWrite):  # a cache folder that cannot be written costs time, not the answer
            make_folder(path.parent)
            text = policy_text(policy)
            write_atomically(path, f"# {seal_of(text)}\n{text}")
        return policy

    def tuned(self, risk: float = 0.05) -> Policy:
        from simdx.decide.tune import tune_on_simulated

        _, truth, answers = self._simulated
        return tune_on_simulated(self._data.panel, answers, truth, self.fresh_alarm, self.fingerprint, risk)

    @cached_property
    def alarm(self) -> Alarm:
        stored = self.policy.alarm
        found_now = "fresh_alarm" in self.__dict__  # the policy was just tuned here
        if stored is not None and not found_now and self.policy.fits(self.fingerprint):
            return Alarm(self.views(stored.bandwidths), stored.nulls, stored.own)
        return self.fresh_alarm

    @cached_property
    def fresh_alarm(self) -> Alarm:
        """The alarm with its null distributions computed now, on simulated text."""
        seen, truth, answers = self._simulated
        return fit_alarm(self.views(None), seen, truth, None if answers is None else answers.of_labels)

    def views(self, bandwidths: dict[str, float] | None) -> tuple[View, ...]:
        banks, vectors = self._view_banks
        return build_views(banks, vectors, _blocks(self._data), bandwidths, self._by_words)

    def _by_words(self, bank: Bank) -> LexicalBasis:
        arrays = part(self._data.compiled or {}, _words_name(bank))
        way = self._data.reading
        return (
            basis_of(Lexicon.from_arrays(arrays, whole_words, way)) if arrays else word_basis(bank.texts, way)
        )

    def arrays(self) -> dict[str, Float]:
        """What a compiled panel holds for the desk: the views' words, and a policy if the panel has none."""
        out: dict[str, Float] = {}
        for bank in self._view_banks[0]:
            out |= named(**{_words_name(bank): word_basis(bank.texts, self._data.reading).lexicon})
        maintained = self._files.policy
        if maintained is None or not maintained.fits(self.fingerprint):
            said = json.dumps(policy_data(self.policy)).encode("utf-8")
            out[f"policy.{self._tuning}"] = np.frombuffer(said, dtype=np.uint8)
        return out

    @cached_property
    def _view_banks(self) -> tuple[list[Bank], list[Float]]:
        """Each file of simulations, embedded separately."""
        bank = self._data.bank
        banks = list(self._files.banks)
        packaged = {text for b in banks for text in b.texts}
        if not banks or (self._own_bank and not set(bank.texts) <= packaged):
            banks.insert(0, bank)
        known = {text: i for i, text in enumerate(bank.texts)}
        vectors = [
            self._data.embedded.vectors[[known[t] for t in b.texts]]
            if all(t in known for t in b.texts)
            else embed_read(self._data.embedder, b.texts, self._data.reading)
            for b in banks
        ]
        return banks, vectors

    @cached_property
    def _simulated(self) -> tuple[Observations, Int, AnswerTable | None]:
        """Simulated texts with their labels and, where the method can be refitted, held-out answers."""
        from simdx.decide.tune import cross_fitted

        bank = self._data.bank
        data = self._data.without_archive()  # its centre is that of real text; these texts are simulated
        rows: Int = np.arange(len(bank.texts))
        answers = None
        if self._fitted.speed == "fast":
            rows, answers = cross_fitted(data, self._settings)
        own = Observations(bank.texts, self._data.embedded.vectors).at(rows)
        held = set(bank.texts)
        others = [
            (text, vector, label)
            for one, vectors in zip(*self._view_banks, strict=True)
            for text, vector, label in zip(one.texts, vectors, one.label_index.tolist(), strict=True)
            if text not in held
        ]
        if not others:
            return own, bank.label_index[rows], answers
        texts, vectors, labels = zip(*others, strict=True)
        more = Observations(texts, np.stack(vectors))
        seen = Observations((*own.texts, *texts), np.concatenate([own.vectors, more.vectors]))
        if answers is not None:
            whole = fit_method(data, self._settings) if self._data.has_archive else self._fitted
            answers = joined([answers, whole.answer(more, Prior.uniform(len(bank.labels)))])
        return seen, np.concatenate([bank.label_index[rows], labels]), answers


def _blocks(data: PanelData) -> dict[str, slice]:
    """The columns of each embedder joined in the panel's, by its short name."""
    out: dict[str, slice] = {}
    start = 0
    for one in getattr(data.embedder, "parts", (data.embedder,)):
        name, width = one.id.split("/")[0], sum(one.blocks)
        out[name if name not in out else one.id] = slice(start, start + width)
        start += width
    return out


def _words_name(bank: Bank) -> str:
    return f"words.{content_hash(*bank.texts)[:16]}"
