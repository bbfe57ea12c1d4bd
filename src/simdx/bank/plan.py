"""The requests of a build: a sequence per label, fixed before any answer.

Request `i` of a label is a pure function of the panel, the settings and `i`. Its key, the content address
under which its answer is stored, is a hash of the model, the prompt, the parameters and the index. So the
same command finds its own answers again after any interruption, and a changed setting finds none of the
old ones by accident.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml
from numpy.random import Generator

from simdx.bank.prompts import WORDING, Wording, features_of, full_wording, packaged, short_wording
from simdx.bank.scrub import Scrubber, all_names, names_one_of, tidy
from simdx.embedders.base import Embedder, embed_texts
from simdx.errors import BadInput, RunFailed
from simdx.models.registry import REGISTRY
from simdx.rows import text_lines
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Float, Int, Label, Panel, content_hash

VOICES = ("full", "short")
SMALL_MODEL_MB = 600  # below this a model needs the short wording
EMBEDDED = "smollm2"
NEXT = "qwen2.5-coder-1.5b"  # the model to try after a small one
SECONDS_A_TEXT = (4, 6)  # by the embedded model on two cores, rejected texts included
MOST_TEXTS = 100_000  # of a label or the background; a bank is held in memory, more is a likely typing error
BACKGROUND = ""  # the stratum of conditions outside the panel; no label may be empty


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How many descriptions, and how they are to be drawn."""

    per_label: int
    background: int = 0
    temperature: float = 0.8
    top_p: float = 0.95
    max_tokens: int | None = None  # None: what the register needs
    seed: int = 0
    facets: bool = True
    voice: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()  # what the background describes; none: the broad list

    def __post_init__(self) -> None:
        if self.per_label < 1 or self.background < 0:
            raise BadInput("a bank needs at least one text per label")
        for what, number in (("per label", self.per_label), ("of the background", self.background)):
            if number > MOST_TEXTS:
                raise BadInput(f"{number} texts {what} are too many: ask for at most {MOST_TEXTS:,}")
        if not 0 <= self.temperature <= 2 or not 0 < self.top_p <= 1:
            raise BadInput("the temperature lies in [0, 2] and top-p in (0, 1]")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise BadInput("the maximum of tokens is at least 1")
        if self.voice not in VOICES:
            raise BadInput(f"the voice is one of {', '.join(VOICES)}")


@dataclass(frozen=True, slots=True)
class Planned:
    stratum: str
    index: int
    topic: str  # the label, or the background condition
    facets: Mapping[str, str]
    request: Request
    key: str


class BankPlan:
    """The endless sequence of requests of every stratum."""

    def __init__(self, panel: Panel, model: str, settings: BuildSettings) -> None:
        self.panel, self.model, self.settings = panel, model, settings
        self.targets = {label.name: settings.per_label for label in panel.labels}
        if settings.background:
            self.targets[BACKGROUND] = settings.background
        self._labels = {label.name: label for label in panel.labels}
        self._facets = facets_of(panel) if settings.facets else {}

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        found = outside(self.panel, self.settings.conditions or None)
        if self.settings.voice == "short" and not self.settings.conditions and self.panel.is_clinical:
            found = tuple(condition for condition in found if condition in FINDINGS) or found
        if not found:
            raise BadInput("every condition given for the background belongs to the panel: name others")
        return found

    def planned(self, stratum: str, index: int) -> Planned:
        settings, background = self.settings, stratum == BACKGROUND
        topic, asked = stratum, self.panel.ask_about
        if background and asked and index % 2 == 0:  # every other one, what the panel asks to be thought of
            topic = asked[index // 2 % len(asked)]
        elif background:
            topic = choose({"condition": self.conditions}, "background", index)["condition"]
        facets, (prompt, opening) = self._worded(topic, index, background)
        request = Request(
            prompt=prompt,
            opening=opening,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens or WORDING[self.panel.register]["max_tokens"],
            seed=int(content_hash("seed", str(settings.seed), stratum, str(index))[:7], 16),
            stop=("\n\n",),
            options=settings.options,
        )
        key = content_hash("planned", request.key(self.model), str(index))
        return Planned(stratum, index, topic, facets, request, key)

    def _worded(self, topic: str, index: int, background: bool) -> tuple[dict[str, str], Wording]:
        panel, facets, stream = self.panel, self._facets, "background" if background else topic
        if background:  # a panel's own facets speak of its labels; other conditions take the built-in ones
            facets = {name: values for name, values in facets.items() if name not in panel.facets}
        if self.settings.voice == "full":
            chosen = choose(facets, stream, index)
            return chosen, full_wording(panel, Label(topic) if background else self._labels[topic], chosen)
        label = Label(topic, description=FINDINGS.get(topic, "")) if background else self._labels[topic]
        # It follows few instructions: who, since when, which findings and how to begin shape a text most.
        offered = {name: facets[name] for name in ("who", "duration") if name in facets}
        features = features_of(label, panel.register)
        if self.settings.facets and features:
            offered |= {"feature": features, "opening": WORDING[panel.register]["openings"]}
        chosen = choose(offered, stream, index)
        return chosen, short_wording(panel, label, chosen)


def voice_for(simulator: str) -> str:
    """Short wording for small local models, full wording for everything else."""
    simulator, megabytes = simulator.removeprefix("hf:"), float(SMALL_MODEL_MB)
    if simulator in REGISTRY:
        megabytes = REGISTRY[simulator].megabytes
    elif simulator.endswith(".gguf") and Path(simulator).is_file():
        megabytes = Path(simulator).stat().st_size / 1_000_000
    return "short" if megabytes < SMALL_MODEL_MB else "full"


def weak_model_words(panel: Panel, per_label: int) -> str:
    """The expected quality and time of a bank by the embedded model, shown before it starts."""
    texts = len(panel.names) * (per_label + 4) + max(20, per_label * len(panel.names) // 5)
    low, high = (max(1, round(texts * seconds / 60)) for seconds in SECONDS_A_TEXT)
    return f"weak: answers from its bank are often wrong; about {low} to {high} minutes on two cores"


def larger_than(simulator: str) -> str:
    """A larger model than the one of this `id`, and how to get it."""
    name = simulator.removeprefix("hf:").partition("@")[0]
    if name in REGISTRY and REGISTRY[name].megabytes < REGISTRY[NEXT].megabytes:
        return f"a larger model ('simdx models pull {NEXT}', then --simulator {NEXT})"
    return "a larger model (--simulator openai:MODEL@URL)"


# --------------------------------------------------------------------------- facets
#
# The ways a condition presents, chosen per request so that a bank covers them.
#
# Without facets a language model describes the textbook case again and again. A facet is one way in which
# presentations differ (who, how long, how severe, where seen, which finding, typical or not); every
# request of a label draws one value of each. The draw is stratified: over any run of requests each value
# of a facet comes up as often as its share says, in an order of its own per label, so that rare but
# decisive features appear even in a small bank. It depends on the label and the index alone, never on
# what was answered before.
#
# Shares matter: a bank should be a sample of what is seen in practice, so rare features must stay rare. The
# typical presentation keeps half of the requests.

Facets = Mapping[str, tuple[str, ...]]

# If only the kind of text is known, texts can be varied only in how they begin.
_INITIALS = tuple("ABCDEFGHIKLMNOPRSTUVWY")


@cache
def _listed() -> Any:
    return yaml.safe_load(packaged("facets.yaml"))


def generic_facets(panel: Panel) -> Facets:
    """The built-in list for a panel's register.

    Texts that are not about illness have no patient, no severity, no duration and no place where one is seen.
    """
    register, listed = panel.register, _listed()
    general, setting, style = (listed[name] for name in ("general", "setting", "style"))
    if register == "general" and panel.description:
        return {"course": tuple(general["course"]), "initial": _INITIALS}
    if register == "general":
        parts = {name: general[name] for name in ("course", "focus")}
        parts |= {"style": style["general"], "length": general["length"]}
    else:
        parts = {name: listed[name] for name in ("who", "duration", "severity", "course", "focus")}
        parts["setting"] = setting.get(register, setting["plain"])
        parts["style"] = style.get(register, style["plain"])
    return {name: tuple(values) for name, values in parts.items()}


def facets_of(panel: Panel) -> Facets:
    """The generic list; a facet the panel names replaces its namesake or joins the others."""
    return {**generic_facets(panel), **{name: tuple(v) for name, v in panel.facets.items() if v}}


def choose(facets: Facets, stratum: str, index: int) -> dict[str, str]:
    """The values request `index` of a stratum (a label, or a background condition) draws."""
    chosen = {}
    for name, values in facets.items():
        # Every run of len(values) consecutive indices holds each value once, in its own shuffled order.
        cycle, place = divmod(index, len(values))
        order = list(range(len(values)))
        random.Random(content_hash("facet", f"{stratum}\x1f{name}", str(cycle))).shuffle(order)
        chosen[name] = values[order[place]]
    return chosen


# --------------------------------------------------------------------------- conditions outside the panel
#
# What a background describes: a broad list, so that "none of these" covers much. It has every branch of
# medicine a clinician might write about, common before rare, and everyday subjects for a panel that is not
# about illness. Conditions of the panel itself are left out by name.

LONGEST_NAME = 120  # characters of a condition
CONDITIONS = tuple(packaged("conditions.txt").splitlines())
# Findings of some of them, for models that only repeat a name: at least one of every branch.
FINDINGS = dict(line.split(": ", 1) for line in packaged("findings.txt").splitlines())
SUBJECTS = tuple(packaged("subjects.txt").splitlines())
# Words that many names share, so they identify none.
_GENERAL = {
    "oral", "mouth", "tongue", "cell", "disease", "infection", "cancer", "fever", "acute", "chronic",
    "reaction", "syndrome", "disorder", "bronchial", "cervical", "drug", "allergic", "the", "and",
}  # fmt: skip


def outside(panel: Panel, listed: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Conditions outside the panel.

    From the broad list: those that share no distinctive word with a label or alias. From a given list: those
    that contain no name of a label, because the user chose the list's words.
    """
    names = all_names(panel)
    if listed is not None:
        return tuple(condition for condition in listed if not names_one_of(names, condition))
    broad = SUBJECTS if panel.register == "general" else CONDITIONS
    taken = {word for name in names for word in _telling(name)}
    return tuple(condition for condition in broad if not taken & _telling(condition))


def read_conditions(path: Path) -> tuple[str, ...]:
    """One condition a line, each once; empty lines and lines that begin with # are ignored."""
    named: dict[str, str] = {}
    for number, line in text_lines(path):
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        where = f"{path.name} line {number}"
        if len(name) > LONGEST_NAME:
            raise BadInput(f"{where} is not the name of a condition: over {LONGEST_NAME} characters")
        if not name.isprintable():
            raise BadInput(f"{where} holds a character that cannot be printed")
        named.setdefault(name.casefold(), name)
    if not named:
        raise BadInput(f"{path.name} names no condition: give one a line")
    return tuple(named.values())


def _telling(name: str) -> set[str]:
    words = set(re.findall(r"[a-z]{3,}", name.lower()))
    return (words - _GENERAL) or words


# --------------------------------------------------------------------------- fresh simulations
#
# The numerics need vectors of simulated texts of labels. This code sends requests from random places of the
# plan, scrubs the texts as a build would, asks again if one is rejected, and embeds the texts. Only labels
# and facets are sent, never case text.


ATTEMPTS = 4  # requests for one simulation; then its last text is used as it is
_PLACES = 2**31 - 1


@dataclass(slots=True)
class Usage:
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    rejected: Counter[str] = field(default_factory=Counter)
    taken_unscrubbed: int = 0

    def costs(self) -> dict[str, float]:
        """The counts under their names in an answer."""
        same = ("prompt_tokens", "completion_tokens", "seconds")
        return {"llm_calls": self.calls, **{name: getattr(self, name) for name in same}}


class LiveSimulations:
    """The callback `simulate(label_indices (m,), rng) -> (m, d)`; `usage` grows with every call."""

    def __init__(
        self,
        panel: Panel,
        simulator: Simulator,
        embedder: Embedder,
        settings: BuildSettings | None = None,
        transform: Callable[[Float], Float] | None = None,
    ) -> None:
        self.usage = Usage()
        self.watch: Callable[[Usage], None] | None = None  # called with every answer
        self._panel, self._simulator, self._embedder = panel, simulator, embedder
        self._plan = BankPlan(panel, simulator.id, settings or BuildSettings(per_label=1))
        self._scrubbers = [Scrubber.for_topic(panel, name) for name in panel.names]
        self._transform = transform

    def __call__(self, labels: Int, rng: Generator) -> Float:
        started = time.monotonic()
        vectors = embed_texts(self._embedder, self._texts(labels.tolist(), rng))
        self.usage.seconds += time.monotonic() - started
        return self._transform(vectors) if self._transform else vectors

    def _texts(self, labels: list[int], rng: Generator) -> list[str]:
        """One simulated text per label index; usable ones as far as `ATTEMPTS` allow."""
        found = [""] * len(labels)
        pending = list(range(len(labels)))
        for _ in range(ATTEMPTS):
            # Drawn in order before asking: the random stream must not depend on the order of answers.
            names = [self._panel.names[labels[i]] for i in pending]
            requests = [self._plan.planned(name, int(rng.integers(_PLACES))).request for name in names]
            still = []
            for i, answer in zip(pending, self._asked(requests), strict=True):
                text = tidy(answer.text, answer.finish_reason)
                found[i] = text or found[i]
                reason = self._scrubbers[labels[i]].reason(text) if answer.ok else "failed"
                if reason is not None:
                    self.usage.rejected[reason] += 1
                    still.append(i)
            pending = still
        if not all(found):
            raise RunFailed(f"simulator '{self._simulator.id}' gave no text after {ATTEMPTS} attempts")
        self.usage.taken_unscrubbed += len(pending)
        return found

    def _asked(self, requests: list[Request]) -> list[Completion]:
        """All answers in the order of the requests, each counted when it comes."""
        answers: dict[int, Completion] = {}
        for place, answer in self._simulator.complete(requests):
            answers[place] = answer
            self.usage.calls += 1
            self.usage.prompt_tokens += answer.prompt_tokens
            self.usage.completion_tokens += answer.completion_tokens
            if self.watch is not None:
                self.watch(self.usage)
        return [answers[i] for i in range(len(answers))]
