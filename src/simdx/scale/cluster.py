"""The executor on Ray: one pool of actors that read and embed, one that answer and write.

Ray Data streams blocks between them, restarts dead actors and makes lost blocks again. What must be true
whatever it does (every row once, the same bits) does not rest on Ray but on blocks having fixed rows and
fixed names.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdx.disk import create_once, make_folder
from simdx.egress import check, listens
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.scale.blocks import RowSpan
from simdx.scale.workers import BlockFailed, BlockWorker, Report, report


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

    def __call__(self, worker: BlockWorker, spans: list[RowSpan]) -> Iterator[Report]:
        import ray
        from ray.data import ActorPoolStrategy, DataContext

        context = DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.enable_auto_log_stats = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        made = (ray.put(worker), ray.put(spans))
        shared: dict[str, Any] = {"fn_constructor_args": made, "batch_size": 1, "num_cpus": self.cpus}
        data: Any = ray.data.from_items([{"span": i} for i in range(len(spans))])
        for stage, count, gpus in (
            (_Embed, self.embedders, self.embedder_gpus),
            (_Answer, self.engines, self.engine_gpus),
        ):
            data = data.map_batches(stage, compute=ActorPoolStrategy(size=count), num_gpus=gpus, **shared)
        try:
            yield from data.iter_rows()
        except ray.exceptions.RayError as error:
            # Our own message where an actor could not be made, else the kind of failure; never a row.
            ours = [line for line in str(error).splitlines() if "simdx.errors." in line]
            why = ours[-1].partition("simdx.errors.")[2].strip() if ours else type(error).__name__
            said = f"the cluster gave up ({why}): what is done is kept, run the same command again"
            raise RunFailed(said) from None


class _Stage:
    def __init__(self, worker: Any, spans: Any) -> None:
        import ray

        self._worker: BlockWorker = ray.get(worker)
        self._spans: list[RowSpan] = ray.get(spans)


class _Embed(_Stage):
    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        span, table, problem = self._spans[int(batch["span"][0])], b"", ""
        try:
            table = _to_bytes(self._worker.embedded(span))
        except BlockFailed as error:
            problem = str(error)
        return {"name": [span.name], "table": [table], "problem": [problem]}


class _Answer(_Stage):
    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        import pyarrow as pa

        name, table, problem = str(batch["name"][0]), batch["table"][0], str(batch["problem"][0])
        done = report(name, problem=problem)
        if not problem:
            try:
                done = self._worker.written(name, pa.ipc.open_stream(table).read_all())
            except BlockFailed as error:
                done["problem"] = str(error)
        return {key: [value] for key, value in done.items()}


def _to_bytes(table: Any) -> bytes:
    """As one value: nothing on the way can split a block or join it to another."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
