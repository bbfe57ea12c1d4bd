"""The panels this service answers for, each with its bank embedded once and its methods fitted once."""

import threading
from collections.abc import Mapping
from typing import Any

from simdx.bank.files import packaged_bank
from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.egress import check, check_names, is_loopback
from simdx.embedders import parts_of
from simdx.errors import BadInput
from simdx.panels import disclaimer, load_source
from simdx.service.config import ServiceConfig
from simdx.service.problems import Problem
from simdx.types import NONE_OF_THESE, Panel


class Registry:
    """Classifiers by (panel, method). The default method is fitted at start, others on first use."""

    def __init__(self, config: ServiceConfig) -> None:
        self.methods = config.methods
        self._lock = threading.Lock()
        self._fitted: dict[tuple[str, str], Classifier] = {}
        for source, bank in config.panels.items():
            if bank is None:
                _check_bank(source)
            classifier = Classifier(
                source, bank, method=config.methods[0], embedder=config.embedder,
                allow_remote=config.allow_remote, simulator=config.upstream,
            )  # fmt: skip
            if config.upstream_cases is not None:
                known = (*classifier.panel.names, NONE_OF_THESE)
                upstream: Any = classifier.fitted  # the one method that is calibrated after it was fitted
                upstream.measure(read_cases(config.upstream_cases, labels=known).cases)
            _warm(classifier)
            self._fitted[classifier.panel.name, config.methods[0]] = classifier
        self._default = {panel: c for (panel, _), c in self._fitted.items()}
        self.names = tuple(self._default)
        self._described = {panel: self._describe(c) for panel, c in self._default.items()}

    def panel(self, name: str) -> Panel:
        return self._loaded(name).panel

    def description(self, name: str) -> Mapping[str, Any]:
        self._loaded(name)
        return self._described[name]

    def check(self, panel: str, method: str) -> Classifier:
        """The panel's default classifier, once the pair is known to be one this service answers."""
        if method not in self.methods:
            said = f"method: choose one of {', '.join(self.methods)}; this one is not served."
            raise Problem("bad-input", said)
        return self._loaded(panel)

    def is_fitted(self, panel: str, method: str) -> bool:
        return (panel, method) in self._fitted

    def get(self, panel: str, method: str) -> Classifier:
        """The fitted classifier; the first call for a method may take a second."""
        if not self.is_fitted(panel, method):  # asked without the lock: the engine waits for no fit
            with self._lock:
                if not self.is_fitted(panel, method):
                    # From what is in memory: the files may have changed since, and every method of a panel
                    # must answer for the same labels and the same bank.
                    fitted = self.check(panel, method).with_method(method)
                    _warm(fitted)
                    self._fitted[panel, method] = fitted
        return self._fitted[panel, method]

    def _loaded(self, name: str) -> Classifier:
        if name not in self._default:
            said = f"This service answers for {', '.join(self.names)}; see GET /v1/panels."
            raise Problem("unknown-panel", said)
        return self._default[name]

    def _describe(self, classifier: Classifier) -> dict[str, Any]:
        found, counts = described(classifier.panel), classifier.bank.counts
        return {
            **found,
            "embedder": classifier.embedder.id,
            "bank": f"{classifier.bank.name}@{classifier.bank.identity[:16]}",
            "methods": list(self.methods),
            "labels": [{**label, "simulations": counts[label["name"]]} for label in found["labels"]],
        }


def described(panel: Panel) -> dict[str, Any]:
    """What callers are told of a panel, whatever its bank."""
    return {
        "id": panel.name,
        "title": panel.title or panel.name,
        "description": " ".join(panel.description.split()),
        "register": panel.register,
        "notice": " ".join(panel.notice.split()),
        "disclaimer": disclaimer(panel),
        "examples": [{"title": e.title, "text": e.text} for e in panel.examples],
        "labels": [
            {
                "name": label.name,
                "description": " ".join(label.description.split()),
                "icd10": list(label.icd10),
                "snomed": list(label.snomed),
                "must_not_miss": label.must_not_miss,
            }
            for label in panel.labels
        ],
    }


def refuse_remote(config: ServiceConfig) -> None:
    """Before anything is listened on or loaded: what is elsewhere needs the operator's permission."""
    if config.upstream is not None and not is_loopback(config.upstream.rpartition("@")[2]):
        check(config.upstream, config.allow_remote)
    for source in config.panels:
        check_names(parts_of(config.embedder or load_source(source).panel.embedder), config.allow_remote)


def _warm(classifier: Classifier) -> None:
    """What a classifier finds on first use (its alarm, its policy) is found before the first caller waits."""
    _ = classifier.panel_files  # read now, so that it may change or go later
    classifier.infer(classifier.bank.texts[0])


def _check_bank(source: str) -> None:
    """A panel has a bank of its own, or the library describes its labels."""
    try:
        packaged_bank(load_source(source))
    except BadInput as problem:
        raise BadInput(f"{problem}; serve it with --panel {source}=BANK") from None
