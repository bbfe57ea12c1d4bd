"""Asking many questions about many cases: in turn within a case, side by side across cases.

The questions of one case share a long beginning. Asked one after the other they find it in the server's
prompt cache; asked all at once each would read it anew. Different cases share nothing and run in parallel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from simdx.simulators.base import Completion, Request, Simulator


def in_turns(
    simulator: Simulator, cases: Sequence[Sequence[Request]]
) -> Iterator[tuple[int, int, Completion]]:
    """(case, question, answer) as answers come."""
    ready = deque(case for case, questions in enumerate(cases) if questions)
    following = [0] * len(cases)
    asked: list[tuple[int, int]] = []
    under_way = 0

    def source() -> Iterator[Request | None]:
        nonlocal under_way
        while ready or under_way:
            if not ready:
                yield None
                continue
            case = ready.popleft()
            question = following[case]
            following[case] += 1
            asked.append((case, question))
            under_way += 1
            yield cases[case][question]

    for position, completion in simulator.complete(source()):
        under_way -= 1
        case, question = asked[position]
        if following[case] < len(cases[case]):
            ready.appendleft(case)  # before any new case, while its beginning is still in the cache
        yield case, question, completion
