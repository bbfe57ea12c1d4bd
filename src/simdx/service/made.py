"""Panels made on the fly: of conditions of the library, or of a question's options. Nothing is kept on disk.

An option that the library knows is described by the library's texts, any other by its own words. A panel of
the library's labels is the one that `simdx panel new` writes; here it has some texts of each label beside one
text of every emergency and of every fourth other condition: it must answer in seconds, and the whole library
takes half a minute to fit.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import yaml
from cachetools import LRUCache

from simdx import library
from simdx.bank.files import assemble
from simdx.classifier import Classifier, OpenedPanel
from simdx.decide.policy import Policy
from simdx.decide.thresholds import PanelFiles
from simdx.embedders import embed_texts, get_embedder
from simdx.methods.calibration import rehearse
from simdx.methods.panel_data import PanelData
from simdx.panels.load import parse_panel, scaffold
from simdx.service.config import ServiceConfig
from simdx.service.wire import Problem
from simdx.types import NONE_OF_THESE, Bank, EmbeddedBank, Label, Panel, content_hash

MADE = "made"  # the name of every panel made on the fly: for tokens, metrics and the audit log
EMBEDDER = "wordllama"  # unless the service has another for all panels
KEPT = 64  # panels made on the fly
MOST_WAITING = 64  # pieces of work of one caller
OPTION_TEXTS = 8  # of the library, for an option
OPTION_STEP = 5  # every fifth condition stands for what the options are not
LABEL_TEXTS = 24  # of the library, for a label
LABEL_STEP = 4  # of the conditions that are no emergency, every fourth stands against the labels

Done = TypeVar("Done")
Describe = Callable[[Mapping[str, str]], tuple[Panel, Bank]]


class Workshop:
    """Work that takes its time, one piece at a time, beside the engine; the last panels made are kept.

    Callers take turns: of each caller one piece is worked on or waits for the thread.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._embedder = get_embedder(config.embedder or EMBEDDER, allow_remote=config.allow_remote)
        self._seconds = config.limits.seconds
        self._kept: LRUCache[str, Classifier] = LRUCache(KEPT)
        self._waiting: Counter[str] = Counter()  # by caller
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._thread = ThreadPoolExecutor(1, "simdx-workshop")

    async def get(self, caller: str, describe: Describe, options: Mapping[str, str]) -> Classifier:
        """The panel that `describe` makes of these options."""
        return await self.run(caller, self._make, describe, options)

    async def run(self, caller: str, work: Callable[..., Done], *given: Any) -> Done:
        if self._waiting[caller] >= MOST_WAITING:
            raise Problem("too-many-requests", "Too many of your questions are waiting.", retry_after=1)
        self._waiting[caller] += 1
        try:
            async with asyncio.timeout(self._seconds), self._turn[caller]:
                return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
        except TimeoutError:
            raise Problem("timeout", "Making the panel took too long.", retry_after=5) from None
        finally:
            self._waiting[caller] -= 1

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, describe: Describe, options: Mapping[str, str]) -> Classifier:
        key = content_hash(describe.__name__, *(part for pair in options.items() for part in pair))
        if key not in self._kept:
            made = Classifier(self._opened(*describe(options)), method="auto")
            made.infer(made.bank.texts[0], explain=False)  # what is found on first use is found here
            self._kept[key] = made
        return self._kept[key]

    def _opened(self, panel: Panel, bank: Bank) -> OpenedPanel:
        """The panel in memory alone: what callers ask leaves nothing on disk but its record."""
        vectors = embed_texts(self._embedder, bank.texts)
        background = embed_texts(self._embedder, bank.background) if bank.background else None
        embedded = EmbeddedBank(
            vectors, bank.label_index, len(bank.labels), self._embedder.blocks, background
        )
        data = PanelData(panel, bank, embedded, self._embedder)
        data = replace(data, calibration=rehearse(data))
        return OpenedPanel(
            data, lambda: PanelFiles.read(None), own_bank=True, policy=Policy(), none_prior=None
        )


# --------------------------------------------------------------------------- of conditions of the library


def panel_of(names: Sequence[str]) -> tuple[Panel, str]:
    """The panel of these conditions, and the text of its file."""
    found = [library.meant_by(name) for name in names]
    conditions = {name: match.condition for name, match in zip(names, found, strict=True) if match}
    if not len(names) == len(conditions) == len({condition.name for condition in conditions.values()}):
        raise Problem("bad-input", "labels: give different names of the library; see GET /v1/library.")
    medical = any(condition.medical for condition in conditions.values())
    register = "clinician" if medical else "general"
    file = scaffold(MADE, dict.fromkeys(names, ""), register, conditions if medical else {})
    return parse_panel(yaml.safe_load(file), where=MADE).to_panel(MADE), file


def panel_with_bank(options: Mapping[str, str]) -> tuple[Panel, Bank]:
    """For the workshop: the panel of the options' names, with the library's texts."""
    made, _ = panel_of(list(options))
    rows = [(label.name, text) for label in made.labels for text in _some(library.texts_for(label))]
    others = _others(library.related_to(made.labels))
    urgent = [text for name, text in others.items() if library.condition(name).emergency]
    calm = [text for name, text in others.items() if not library.condition(name).emergency]
    return made, assemble(made, rows, (*urgent, *calm[::LABEL_STEP]), f"{MADE}:library")


def _some(texts: Sequence[str]) -> list[str]:
    """At most `LABEL_TEXTS`, spread over all of them."""
    n = min(LABEL_TEXTS, len(texts))
    return [texts[i * len(texts) // n] for i in range(n)]


def _others(related: frozenset[str]) -> dict[str, str]:
    """A text of every condition and topic that these are not."""
    first: dict[str, str] = {}
    for text in library.texts():
        if text.condition not in related:
            first.setdefault(text.condition, text.text)
    return first


# --------------------------------------------------------------------------- of a question's options


def made_of(options: Mapping[str, str]) -> tuple[Panel, Bank]:
    """Options with their words as a panel with a bank; a background where the library describes all."""
    known: dict[str, str] = {}
    for name, words in options.items():
        match = library.meant_by(name) or (library.meant_by(words) if words else None)
        if match is not None:
            known[name] = match.condition.name
    related = library.related_to([Label(name) for name in known.values()])
    world = tuple(_others(related).values())[::OPTION_STEP]
    texts: dict[str, tuple[str, ...]] = {}
    for name, words in options.items():
        if name in known:
            own = [text.text for text in library.texts() if text.condition == known[name]]
            texts[name] = tuple(own[:: max(1, len(own) // OPTION_TEXTS)][:OPTION_TEXTS])
            continue
        about = words if name in ("true", "false") or name.isdigit() else f"{name}: {words}".rstrip(": ")
        texts[name] = (about,) if about else world  # a noul without words for false: anything else
    panel = Panel(MADE, tuple(Label(label_of(name)) for name in options), register="general", world=False)
    return panel, Bank(
        panel=MADE,
        labels=panel.names,
        texts=tuple(text for own in texts.values() for text in own),
        label_index=np.repeat(np.arange(len(options)), [len(own) for own in texts.values()]),
        background=world if len(known) == len(options) else (),
        name=MADE,
    )


def label_of(option: str) -> str:
    """The option as a label: none of these is an outcome of its own beside the labels."""
    return f"{option} (option)" if option.casefold() == NONE_OF_THESE else option
