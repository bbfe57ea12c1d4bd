"""Engines in processes of their own, for a machine with more cores than one interpreter can use.

The service's own process keeps what must be in one place: sockets, callers and their limits, the cases that
sliders ask about again, the audit log. A worker has panels and methods alone. It reads texts and a prior from
a pipe, as JSON, writes the answers' bytes to another, and ends when the pipe does. What it is asked is in no
log and in no file.

    python -m simdx.service.workers     # what `Worker` starts; the first message says which panels
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.errors import BadInput, RunFailed, SimdxError
from simdx.service.config import ServiceConfig
from simdx.service.problems import Problem
from simdx.service.wire import dump

log = logging.getLogger("simdx.service")
STOP_SECONDS = 5.0  # for a worker to end once nobody asks it any more
_SIZE = 8  # bytes that say how long a message is


class Worker:
    """One process; asked by one thread at a time. One that ended is started anew when it is next asked."""

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simdx.service.workers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        config = self._config
        told = {
            "panels": dict(config.panels), "methods": config.methods, "embedder": config.embedder,
            "allow_remote": config.allow_remote,
        }  # fmt: skip
        _send(self._process.stdin, json.dumps(told).encode("ascii"))

    def ready(self) -> None:
        """Wait until the panels are loaded."""
        if _receive(self._process.stdout) is None:
            raise RunFailed("a worker of the service did not start: its own message says why")

    def ask(
        self, panel: str, method: str, prior: Prior, texts: Sequence[str], explain: bool, note: str | None
    ) -> list[bytes]:
        """The body of each text's answer, with a note in its provenance."""
        if self._process.poll() is not None:
            self._process.wait()
            self._start()
            self.ready()
        asked = {
            "panel": panel, "method": method, "prior": prior.probabilities.tolist(), "alpha0": prior.alpha0,
            "texts": list(texts), "explain": explain, "note": note,
        }  # fmt: skip
        try:
            _send(self._process.stdin, json.dumps(asked).encode("ascii"))
            head = _receive(self._process.stdout)
            body = None if head is None else _receive(self._process.stdout)
        except OSError:
            body = None
        if head is None or body is None:
            self.close()
            log.error("a worker ended while it was asked (status %s)", self._process.returncode)
            raise Problem("overloaded", "The engine stopped; try again.", retry_after=1)
        said = json.loads(head)
        if "refused" in said:
            raise BadInput(said["refused"])
        if "failed" in said:
            raise RunFailed(said["failed"])
        ends = np.cumsum(said["lengths"]).tolist()
        return [body[end - size : end] for end, size in zip(ends, said["lengths"], strict=True)]

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # of what it did not take any more
                    pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(len(message).to_bytes(_SIZE, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes | None:
    """The next message; None where there is no other."""
    assert pipe is not None
    size = pipe.read(_SIZE)
    if len(size) < _SIZE:
        return None
    message = pipe.read(int.from_bytes(size, "big"))
    return message if len(message) == int.from_bytes(size, "big") else None


# --------------------------------------------------------------------------- in the worker


def main() -> None:
    from simdx.service.registry import Registry

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service says when it is over
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    asked = sys.stdin.buffer
    first = _receive(asked)
    if first is None:
        return
    try:
        registry = Registry(ServiceConfig(**json.loads(first)))
    except SimdxError as error:
        sys.exit(str(error))
    _send(said, b"{}")
    while (message := _receive(asked)) is not None:
        head, body = _answer(registry, json.loads(message))
        _send(said, dump(head))
        _send(said, body)


def _answer(registry: Any, ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        classifier = registry.get(ask["panel"], ask["method"])
        prior = Prior(np.array(ask["prior"]), ask["alpha0"])
        answers = classifier.infer(ask["texts"], prior, explain=ask["explain"])
        bodies = [dump(noted(answer.to_json(), ask["note"])) for answer in answers]
    except BadInput as error:
        return {"refused": str(error)}, b""
    except Exception as error:
        return {"failed": type(error).__name__}, b""  # its message may quote the case
    return {"lengths": [len(body) for body in bodies]}, b"".join(bodies)


def noted(answer: dict[str, Any], note: str | None) -> dict[str, Any]:
    """An answer with one more note on how it was made."""
    if note is not None:
        answer["provenance"]["notes"].append(note)
    return answer


if __name__ == "__main__":
    main()
