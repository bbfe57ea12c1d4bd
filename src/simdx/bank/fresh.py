"""Fresh simulations inside an inference: labels in, vectors out, every call counted.

The numerics ask for simulations of labels and want vectors; this turns that into requests of a bank's
plan at random places, scrubs the texts as a build would, asks again where one is rejected, and embeds
what it gets. Only labels and facets are ever sent: no case text comes near the simulator.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from numpy.random import Generator

from simdx.bank.plan import BankPlan, BuildSettings
from simdx.bank.scrub import Scrubber, tidy
from simdx.embedders.base import Embedder, embed_texts
from simdx.errors import RunFailed
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Float, Int, Panel

ATTEMPTS = 4  # requests spent on one simulation before its last text is taken as it is
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
        """Under the names that an answer tells them by."""
        tokens = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return {"llm_calls": self.calls, **tokens, "seconds": self.seconds}


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
        self.watch: Callable[[Usage], None] | None = None  # told of every answer, as it comes
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
            # Drawn in order before asking: the random stream must not depend on who answers first.
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
