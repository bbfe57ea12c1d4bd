"""A simulator without a model: deterministic texts keyed by the request's content.

It ships beside the real ones, so that a pipeline can be tried, tested and broken on purpose without
weights. The same request always gets the same text, in any order and in any process. Faults are drawn
from the content too: a share of the requests fails its first attempts, or answers with a refusal, an
empty text, a loop or the label's name, so every path of a build can be walked.
"""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from types import SimpleNamespace

import yaml

from simdx.errors import BadInput
from simdx.simulators.base import Capabilities, Completion, Request, failed, stream
from simdx.types import content_hash


def _phrases(kind: str) -> SimpleNamespace:
    """What texts of one kind are put together from: tuples of phrases, by name."""
    text = files("simdx.simulators").joinpath("data", "phrases.yaml").read_text(encoding="utf-8")
    return SimpleNamespace(**{name: tuple(words) for name, words in yaml.safe_load(text)[kind].items()})


CLINICAL, GENERAL = _phrases("clinical"), _phrases("general")

# Where the wordings of a bank build say which condition or subject they want, and that it is not an illness.
_CONDITION = re.compile(r"(?:must not name, is|this problem:|patient has:|about this:) ([^.]+)")
_ABOUT_ANYTHING = re.compile(r"Write a message (?:in|of) ")


POOR = {
    "refusal": "I'm sorry, but as an AI language model I cannot help with that request.",
    "empty": "",
    "loop": "There is pain in the mouth. " * 20,
    "leak": "The following is a description as requested. {}",
}


class ScriptedSimulator:
    """Texts from phrase lists, or from `answers` where one of its keys occurs in the prompt."""

    remote = False
    lockstep = False
    capabilities = Capabilities(logprobs=False, grammars=False, seeds=True, system_prompts=True)

    def __init__(
        self,
        answers: Mapping[str, Sequence[str]] | None = None,
        *,
        concurrency: int = 4,
        delay: float = 0.0,
        error: float = 0.0,
        error_attempts: int = 1,
        refusal: float = 0.0,
        empty: float = 0.0,
        loop: float = 0.0,
        leak: float = 0.0,
    ) -> None:
        rates = {"error": error, "refusal": refusal, "empty": empty, "loop": loop, "leak": leak}
        if min(rates.values()) < 0 or not sum(rates.values()) <= 1:
            raise BadInput("the scripted simulator's fault rates lie in [0, 1] and sum to at most 1")
        self.id = "scripted"
        self.concurrency = int(concurrency)
        self.calls = 0
        self._answers, self._rates = answers or {}, rates
        self._delay, self._error_attempts = delay, int(error_attempts)
        self._attempts = Counter[str]()
        self._lock = threading.Lock()

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self.answer, self.concurrency)

    def close(self) -> None:
        return None

    def answer(self, request: Request) -> Completion:
        started = time.monotonic()
        key = request.key(self.id)
        with self._lock:
            self.calls += 1
            self._attempts[key] += 1
            attempt = self._attempts[key]
        time.sleep(self._delay)
        rng = random.Random(key)
        fault = self._fault(rng.random())
        seconds = time.monotonic() - started
        if fault == "error" and attempt <= self._error_attempts:
            return failed("scripted fault", seconds)
        text = POOR[fault].format(request.prompt) if fault in POOR else self._text(request.prompt, rng)
        return Completion(text, "stop", len(request.prompt.split()), len(text.split()), seconds)

    def _fault(self, draw: float) -> str | None:
        for fault, rate in self._rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None

    def _text(self, prompt: str, rng: random.Random) -> str:
        texts = next((texts for phrase, texts in self._answers.items() if phrase in prompt), None)
        return describe(prompt, rng) if texts is None else texts[rng.randrange(len(texts))]


def describe(prompt: str, rng: random.Random) -> str:
    """A description whose findings depend on the condition the prompt is about, so that labels differ."""
    about = _CONDITION.search(prompt)
    subject = about.group(1) if about else prompt
    topic = random.Random(content_hash("topic", subject))
    said = GENERAL if _ABOUT_ANYTHING.match(prompt) else CLINICAL
    things = said.things
    if said is GENERAL:
        # A label of a general panel may well be one of the words, and no text may name its label.
        things = tuple(thing for thing in said.things if thing not in subject.lower()) or said.things
    findings = [f"{topic.choice(said.qualities)} {topic.choice(things)}" for _ in range(4)]
    findings.append(f"{rng.choice(said.qualities)} {rng.choice(things)}")
    if said is GENERAL:
        findings = [f"a {finding}" if finding[0] not in "aeiou" else f"an {finding}" for finding in findings]
    rng.shuffle(findings)
    who = rng.choice(said.whos)
    sentences = [rng.choice(said.openings), *rng.sample(said.middles, 2), rng.choice(said.endings)]
    written = []
    for sentence, finding in zip(sentences, findings, strict=False):
        drawn = {name: rng.choice(getattr(said, f"{name}s")) for name in ("time", "course", "when", "side")}
        written.append(sentence.format(finding=finding, who=who, Who=who.capitalize(), **drawn))
    return " ".join(written)


def options_from_name(name: str) -> dict[str, float]:
    """`scripted:delay=.02,error=.1` → the options it names."""
    _, _, tail = name.partition(":")
    given = (part.partition("=") for part in tail.split(",") if part)
    try:
        options = {option.strip(): float(value) for option, _, value in given}
    except ValueError:
        raise BadInput(f"simulator '{name}': write options as NAME=NUMBER") from None
    if unknown := set(options) - {"concurrency", "delay", "error", "error_attempts", *POOR}:
        raise BadInput(f"simulator '{name}' has no option '{sorted(unknown)[0]}'")
    return options
