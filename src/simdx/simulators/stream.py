"""Keeping a server busy: a bounded number of requests under way, answers handed over as they come.

Requests are pulled, and answers yielded, in the caller's thread; only the blocking call to the server
runs in workers. So a caller may decide what to ask next from the answers it has already seen, without
locks of its own.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue

from simdx.errors import RunFailed
from simdx.simulators.base import Completion, Request, failed

AskOne = Callable[[Request], Completion]
AHEAD = 1  # requests that wait ready, so that no worker idles while the caller deals with an answer


def stream(
    requests: Iterable[Request | None], answer: AskOne, concurrency: int
) -> Iterator[tuple[int, Completion]]:
    """Answer `requests` with at most `concurrency` calls of `answer` at a time, each in a worker."""
    most = concurrency + AHEAD if concurrency > 1 else 1
    todo: SimpleQueue[tuple[int, Request] | None] = SimpleQueue()
    done: SimpleQueue[tuple[int, Completion]] = SimpleQueue()
    workers: list[threading.Thread] = []

    def work() -> None:
        while (item := todo.get()) is not None:
            position, request = item
            try:
                completion = answer(request)
            except Exception as error:  # a simulator's own bug must not swallow the position
                completion = failed(f"the simulator failed with {type(error).__name__}")
            done.put((position, completion))

    source = iter(requests)
    position = under_way = 0
    more = True
    try:
        while True:
            while more and under_way < most:
                try:
                    request = next(source)
                except StopIteration:
                    more = False
                    break
                if request is None:
                    # Wait for an answer; with none under way there is nothing left to wait for.
                    more = under_way > 0
                    break
                todo.put((position, request))
                position += 1
                under_way += 1
                if len(workers) < min(under_way, concurrency):
                    # Daemons: a worker stuck in a dead server must not keep the process alive.
                    worker = threading.Thread(target=work, daemon=True, name="simdx-simulator")
                    try:
                        worker.start()
                        workers.append(worker)
                    except RuntimeError:  # no memory for another thread: fewer do the same work
                        if not workers:
                            raise RunFailed(
                                "out of memory: no thread can be started to ask the simulator"
                            ) from None
                        concurrency = under_way
            if not under_way:
                return
            finished = done.get()
            under_way -= 1
            yield finished
    finally:
        for _ in workers:
            todo.put(None)
