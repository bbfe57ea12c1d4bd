"""Engines in processes of their own, for a machine with more cores than one interpreter can use.

The service's own process keeps what must be in one place: sockets, callers and their limits, the cases that
sliders ask about again, the audit log. A worker has panels and methods alone. It reads texts and a prior from
a pipe, as JSON, writes the answers' bytes to another, and ends when the pipe does. What it is asked is in no
log and in no file.

    python -m simdx.service.workers     # what `Worker` starts; the first message says which panels
"""

import contextlib
import gc
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

import numpy as np

from simdx.abc.prior import Prior
from simdx.errors import BadInput, RunFailed, SimdxError, place_of
from simdx.service.config import ServiceConfig
from simdx.service.problems import Problem
from simdx.service.wire import dump

try:
    import fcntl
except ImportError:  # not on this platform
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("simdx.service")
STOP_SECONDS = 5.0  # for a worker to end once nobody asks it any more
PIPE_BYTES = 1 << 20  # what Linux allows everybody: a batch of answers
_SIZE = 8  # bytes that say how long a message is


class Worker:
    """One process. One that ended is started anew when it is next asked."""

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        # Answers come in the order of the asks. Whoever has asked waits for its turn to hear before the next
        # may ask: the worker has one batch to answer and one to go on with.
        self._asking, self._hearing = threading.Lock(), threading.Lock()
        self._numbers = itertools.count()
        self._served: Mapping[str, Any] = {}
        self._start()

    def _start(self) -> None:
        # -P: nothing in the current folder is imported. A session of its own: a signal to the service's group
        # is the service's, which ends its workers when it has answered.
        command, pipe = [sys.executable, "-P", "-m", "simdx.service.workers"], subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        self._process = cast(Any, process)  # which has both pipes
        # A worker need not wait until its answers are read.
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        told = {n: getattr(self._config, n) for n in ("methods", "embedder", "allow_remote")}
        told["panels"] = dict(self._config.panels)
        _send(self._process.stdin, json.dumps(told).encode("ascii"))

    def ready(self, served: Mapping[str, Any]) -> None:
        """Wait until it has loaded what the service serves, label for label."""
        self._served = served
        said = _receive(self._process.stdout)
        told = {"refused": "a worker of the service did not start"} if said is None else json.loads(said)
        if "refused" in told:
            raise RunFailed(told["refused"])
        if told["serves"] != served:
            raise RunFailed("a panel's files have changed since the service started: start it again")

    def ask(
        self, panel: str, method: str, prior: Prior, texts: Sequence[str], explain: bool, note: str | None
    ) -> list[bytes]:
        """The body of each text's answer, with a note in its provenance."""
        asked = {
            "panel": panel, "method": method, "prior": prior.probabilities.tolist(), "alpha0": prior.alpha0,
            "texts": list(texts), "explain": explain, "note": note, "number": next(self._numbers),
        }  # fmt: skip
        message = json.dumps(asked).encode("ascii")
        with self._asking:
            if self._process.poll() is not None:
                with self._hearing:
                    self._restart()
            with contextlib.suppress(OSError, ValueError):  # it ended; whoever heard it has closed the pipe
                _send(self._process.stdin, message)
            self._hearing.acquire()
        said = body = None
        try:
            with contextlib.suppress(OSError, ValueError):
                head = _receive(self._process.stdout)
                body = None if head is None else _receive(self._process.stdout)
                said = None if head is None or body is None else json.loads(head)
        finally:
            # What is left in the pipe would be heard by the next one, about another patient.
            if said is None or said["number"] != asked["number"]:
                said = None
                self._process.kill()
                self._end()
            self._hearing.release()
        if said is None or body is None:
            log.error("a worker ended while it was asked (status %s)", self._process.returncode)
            raise Problem("overloaded", "The engine stopped; try again.", retry_after=1)
        if "refused" in said:
            raise BadInput(said["refused"])
        if "failed" in said:
            log.error("a worker failed: %s", said["failed"])
            raise RunFailed(said["failed"])
        ends = np.cumsum(said["lengths"]).tolist()
        return [body[end - size : end] for end, size in zip(ends, said["lengths"], strict=True)]

    def _restart(self) -> None:
        self._end()
        try:
            self._start()
            self.ready(self._served)
        except (SimdxError, OSError) as error:
            self._end(0)
            log.error("a worker could not be started again: %s", error)
            raise Problem("overloaded", "The engine did not start; try again.", retry_after=5) from None

    def close(self, seconds: float = STOP_SECONDS) -> None:
        """End it: by itself within that time, unless somebody is asking it for longer."""
        if self._asking.acquire(timeout=seconds):
            calm = self._hearing.acquire(timeout=seconds)
            if calm:
                self._end(seconds)
                self._hearing.release()
            self._asking.release()
            if calm:
                return
        process = self._process
        process.kill()  # whoever asks it is told that it stopped, and clears up
        process.wait()

    def _end(self, seconds: float = STOP_SECONDS) -> None:
        """Of whoever holds the lock: a pipe that is being read cannot be closed."""
        with contextlib.suppress(OSError):  # of what it did not take any more
            self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_SIZE, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """The next message; None where there is no other."""
    head = pipe.read(_SIZE)
    size = int.from_bytes(head, "big")
    message = pipe.read(size) if len(head) == _SIZE else b""
    return message if len(head) == _SIZE and len(message) == size else None


# --------------------------------------------------------------------------- in the worker


def main() -> None:
    from simdx.service.registry import Registry

    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the service says when it is over
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    asked = sys.stdin.buffer
    first = _receive(asked)
    if first is None:
        return
    with contextlib.suppress(BrokenPipeError):  # the service has ended
        try:
            registry = Registry(ServiceConfig(**json.loads(first)))
        except SimdxError as error:
            _send(said, dump({"refused": str(error)}))
            return
        gc.freeze()  # what is loaded stays
        _send(said, dump({"serves": registry.served}))
        while (message := _receive(asked)) is not None:
            ask = json.loads(message)
            head, body = _answer(registry, ask)
            _send(said, dump({**head, "number": ask["number"]}))
            _send(said, body)


def _answer(registry: Any, ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        classifier = registry.get(ask["panel"], ask["method"])
        prior = Prior(np.array(ask["prior"]), ask["alpha0"])
        seen = classifier.observe(ask["texts"])
        answers = classifier.infer_observed(seen, prior, explain=ask["explain"], note=ask["note"])
        bodies = [dump(answer) for answer in answers]
    except BadInput as error:
        return {"refused": str(error)}, b""
    except Exception as error:
        return {"failed": place_of(error)}, b""
    return {"lengths": [len(body) for body in bodies]}, b"".join(bodies)


if __name__ == "__main__":
    main()
