"""Who does the blocks: this process, processes of this machine, or Ray: one pool of actors that read and
embed, one that answer and write.

Ray Data streams blocks between them, restarts dead actors and makes lost blocks again. What must be true
whatever it does (every row once, the same bits) does not rest on Ray but on blocks having fixed rows and
fixed names.
"""

import logging
import multiprocessing
import os
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdx.disk import create_once, make_folder
from simdx.egress import check, listens
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.scale.blocks import Block
from simdx.scale.classify import Step, Worker

TRIES = 3  # of the pool, when processes in it are killed

# --------------------------------------------------------------------------- processes of this machine


def in_this_process(worker: Worker, blocks: list[Block]) -> Iterator[Step]:
    return map(worker.do, blocks)


@dataclass(frozen=True, slots=True)
class InProcesses:
    """So many processes, each of which reads, answers and writes blocks of its own.

    A process that dies takes with it what it had not written; what is missing is done again.
    """

    count: int

    def __call__(self, worker: Worker, blocks: list[Block]) -> Iterator[Step]:
        left = set(blocks)
        for _ in range(TRIES):
            # Started anew, not forked: threads of libraries that are loaded here would be lost in a fork.
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.count, fresh, _start, (worker,)) as pool:
                asked = {pool.submit(_do, block): block for block in blocks if block in left}
                try:
                    for done in as_completed(asked):
                        report = done.result()
                        left.remove(asked[done])
                        yield report
                except BrokenProcessPool:
                    continue
            return
        raise RunFailed(
            f"worker processes ended {TRIES} times, perhaps for lack of memory: run the same "
            "command again with fewer --cpus; finished blocks are kept"
        )


_HERE: list[Worker] = []  # the worker of this process


def _start(worker: Worker) -> None:
    threading.Thread(target=_follow, daemon=True).start()
    _HERE.append(worker)


def _do(block: Block) -> Step:
    return _HERE[0].do(block)


def _follow() -> None:
    """End this process once its parent is gone: a killed run leaves no workers."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)


# --------------------------------------------------------------------------- Ray


@contextmanager
def connected(address: str | None, *, cpus: int | None = None, allow_remote: bool = False) -> Iterator[None]:
    """A Ray of our own on this machine, or with an address and permission the cluster that runs there."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "address": address}
    if address is None:
        _keep_to_this_machine()
        # Said outright: with no address, Ray would join the cluster that RAY_ADDRESS names.
        options |= {"address": "local", "include_dashboard": False, "num_cpus": cpus}
    else:
        check(f"--address {address}", allow_remote)  # a cluster may have, or get, nodes on other machines
        if address not in ("auto", "local") and not listens(address):  # Ray itself would try for minutes
            raise BadInput(f"no Ray cluster answers at '{address}'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("a run over many cases", "scale") from None
    try:
        ray.init(**options)
    except Exception as error:  # it raises many kinds, a bare Exception among them
        if address is not None:
            raise BadInput(f"no Ray cluster answers at '{address}' ({type(error).__name__})") from None
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RunFailed(
            f"Ray could not start on this machine ({why}): leave out --embedders and --engines "
            "to use processes instead"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _keep_to_this_machine() -> None:
    """A Ray of our own listens on loopback, and its token is for the owner only; Ray would do neither.

    The variable is Ray's own and read when Ray is imported; its name speaks of where it is the default.
    """
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        return
    token = Path.home() / ".ray" / "auth_token"
    make_folder(token.parent)
    if not create_once(token, secrets.token_hex(32)):
        with suppress(OSError):  # not ours
            token.chmod(0o600)


@dataclass(frozen=True, slots=True)
class OnRay:
    """An executor; call it inside `connected`. `cpus` is what each actor takes."""

    embedders: int = 1
    engines: int = 1
    cpus: float = 1.0
    embedder_gpus: float = 0.0
    engine_gpus: float = 0.0

    def __call__(self, worker: Worker, blocks: list[Block]) -> Iterator[Step]:
        import ray
        from ray.data import ActorPoolStrategy, DataContext

        context = DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.enable_auto_log_stats = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        data: Any = ray.data.from_items([block._asdict() for block in blocks])
        shared = ray.put(worker)
        for step, count, gpus in (
            ("embed", self.embedders, self.embedder_gpus),
            ("answer", self.engines, self.engine_gpus),
        ):
            data = data.map(
                _Stage, fn_constructor_args=(shared, step), num_cpus=self.cpus, num_gpus=gpus,
                compute=ActorPoolStrategy(size=count),
            )  # fmt: skip
        try:
            yield from data.iter_rows()
        except ray.exceptions.RayError as error:
            # Our own message where an actor could not be made, else the kind of failure; never a row.
            ours = [line for line in str(error).splitlines() if "simdx.errors." in line]
            why = ours[-1].partition("simdx.errors.")[2].strip() if ours else type(error).__name__
            said = f"the cluster gave up ({why}): what is done is kept, run the same command again"
            raise RunFailed(said) from None


class _Stage:
    """One step of the worker in an actor; a block is one row, so that nothing on the way can split it."""

    def __init__(self, worker: Any, step: str) -> None:
        import ray

        self._step = getattr(ray.get(worker), step)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return dict(self._step(row))
