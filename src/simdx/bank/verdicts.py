"""Where a build stands, read off the answers it has.

Everything is derived from the store, so an interrupted build needs no other memory. For one stratum with
target N the *horizon* is the smallest h for which the usable answers among requests 0…h−1, plus those of
them still without an answer, make N. Requests below the horizon are what the build has to ask; a rejected
answer moves the horizon one further. A build is complete when every horizon is fully answered.
"""

from collections import Counter, deque
from dataclasses import dataclass
from functools import cache

from simdx.bank.plan import BankPlan, Planned
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.bank.store import AnswerStore, StoredAnswer

GIVE_UP_AFTER = 5  # recorded failures of one request, over all runs, after which another takes its place
MOST_PER_USABLE = 40  # requests per wanted description after which a label is beyond this simulator
LEAST_YIELD = 0.1  # usable share of a label's texts below which a run stops, unless the user says otherwise
# A simulator that works in lockstep is asked for more than is missing once it is known how much gets lost.
KNOWN_AFTER = 20  # judged answers
CAUTION = 0.75  # of the usable share so far is counted on
MOST_AHEAD = 8  # requests under way per missing description


@dataclass(frozen=True, slots=True)
class TextVerdict:
    """An answer judged: `reason` is None for a usable text."""

    planned: Planned
    answer: StoredAnswer
    text: str
    reason: str | None


class Stratum:
    """One label (or the background): its horizon, what to ask next, what is usable."""

    def __init__(self, plan: BankPlan, store: AnswerStore, name: str, lockstep: bool) -> None:
        self.name, self.target = name, plan.targets[name]
        self._plan, self._store, self._lockstep = plan, store, lockstep
        self._scrubber = cache(lambda topic: Scrubber.for_topic(plan.panel, topic))
        self._asked: set[int] = set()  # under way, or failed in this run
        self._reasons: dict[str, str | None] = {}  # per key: judging a text again on every look would be slow
        self._todo: deque[Planned] = deque()
        self.handed_out = 0
        self.verdicts: list[TextVerdict] = []
        self.settle()

    def settle(self) -> None:
        """Judge every answer in plan order and find the horizon anew."""
        self.verdicts, self._todo = [], deque()
        self._duplicates = Duplicates()
        self.horizon = self.usable = self.open = 0
        self._extend()

    @property
    def missing(self) -> int:
        return self.target - self.usable

    @property
    def chosen(self) -> list[TextVerdict]:
        """The first usable texts of the plan, as many as are wanted."""
        usable = [v for v in self.verdicts if v.reason is None]
        return sorted(usable, key=lambda v: v.planned.index)[: self.target]

    @property
    def exhausted(self) -> bool:
        """True when this simulator will not reach the target at any bearable price."""
        return self.missing > 0 and self.horizon >= max(60, MOST_PER_USABLE * self.target)

    def below(self, share: float) -> bool:
        """True when so few of the texts are usable that somebody should know before more are asked for."""
        judged = len(self.verdicts)
        return self.missing > 0 and judged >= 2 * KNOWN_AFTER and self.usable < share * judged

    @property
    def rejected(self) -> Counter[str]:
        return Counter(v.reason for v in self.verdicts if v.reason is not None)

    def has_next(self) -> bool:
        """True while a request is due; answers that are awaited may still make another one due."""
        self._extend()
        return bool(self._todo)

    def next(self) -> Planned:
        planned = self._todo.popleft()
        self._asked.add(planned.index)
        self.handed_out += 1
        return planned

    def take(self, planned: Planned, answer: StoredAnswer) -> TextVerdict | None:
        """An answer has come; a failed one stays open, to be asked again by a later run."""
        if answer.error is not None:
            self.open -= self._store.failures.get(planned.key, 0) >= GIVE_UP_AFTER
            return None
        self.open -= 1
        return self._judge(planned, answer)

    def _extend(self) -> None:
        while self.usable + self._expected() < self.target and not self.exhausted:
            planned = self._plan.planned(self.name, self.horizon)
            self.horizon += 1
            answer = self._store.answers.get(planned.key)
            if answer is not None:
                self._judge(planned, answer)
            elif self._store.failures.get(planned.key, 0) < GIVE_UP_AFTER:
                self.open += 1
                if planned.index not in self._asked:
                    self._todo.append(planned)

    def _expected(self) -> float:
        """How many of the requests without an answer are counted on.

        All of them, so that nothing is asked in vain; in lockstep, the share that has been usable. Answers
        beyond the horizon stay in the store and change no bank: it takes the first usable ones of the plan.
        """
        judged = len(self.verdicts)
        if not self._lockstep or judged < KNOWN_AFTER:
            return self.open
        return self.open * max(CAUTION * self.usable / judged, 1 / MOST_AHEAD)

    def _judge(self, planned: Planned, answer: StoredAnswer) -> TextVerdict:
        text = tidy(answer.text, answer.finish_reason)
        if planned.key not in self._reasons:
            self._reasons[planned.key] = self._scrubber(planned.topic).reason(text)
        reason = self._reasons[planned.key]
        if reason is None and self._duplicates.seen(text):
            reason = "near-duplicate"
        verdict = TextVerdict(planned, answer, text, reason)
        self.verdicts.append(verdict)
        self.usable += reason is None
        return verdict
