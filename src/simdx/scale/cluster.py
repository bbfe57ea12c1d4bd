"""The executor on Ray: reading and writing as tasks, embedder and engine as pools of actors.

Ray Data streams blocks through the stages, restarts dead actors and makes lost blocks again from their
inputs. What must be true whatever it does (every row once, the same bits) does not rest on Ray but on
blocks having fixed rows and fixed names.
"""

import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from simdx.disk import create_once, make_folder
from simdx.egress import check, listens
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.scale.blocks import Block, Piece, read
from simdx.scale.classify import Work
from simdx.scale.stages import AnswerStage, EmbedStage, write

READ_CPUS, WRITE_CPUS = 0.5, 0.25
MOST_INPUT_BLOCKS = 10_000  # beyond it several pieces share one task: the driver's memory stays bounded


@dataclass(frozen=True, slots=True)
class Pools:
    """How many actors each stage has, and what each of them takes of a machine."""

    embedders: int = 1
    engines: int = 1
    embedder_cpus: float = 1.0
    engine_cpus: float = 1.0
    embedder_gpus: float = 0.0
    engine_gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.embedders < 1 or self.engines < 1:
            raise BadInput("each stage needs at least one actor: give --embedders and --engines of 1 or more")

    def fitting(self, cores: int) -> Self:
        """Actors that leave room on so many cores for reading and writing, which would wait for ever else."""
        wanted = self.embedders * self.embedder_cpus + self.engines * self.engine_cpus
        share = min(1.0, max(0.2, cores - READ_CPUS - WRITE_CPUS) / wanted)
        return replace(self, embedder_cpus=share * self.embedder_cpus, engine_cpus=share * self.engine_cpus)


@contextmanager
def connected(address: str | None, *, cpus: int | None = None, allow_remote: bool = False) -> Iterator[None]:
    """A Ray of our own on this machine, or with an address and permission the cluster that runs there."""
    if address is not None:
        check(f"--address {address}", allow_remote)  # a cluster may have, or get, nodes on other machines
        if address not in ("auto", "local") and not listens(address):  # Ray itself would try for minutes
            raise BadInput(f"no Ray cluster answers at '{address}'")
    # Neither usage reports nor a dashboard: case text passes through these processes.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        _keep_to_this_machine()
    try:
        import ray
    except ImportError:
        raise MissingExtra("a run over many cases", "scale") from None
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # Said outright: with no address, Ray would join the cluster that RAY_ADDRESS names.
        options |= {"address": "local", "include_dashboard": False, "num_cpus": cpus}
    else:
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:  # it raises many kinds, a bare Exception among them
        if address is not None:
            raise BadInput(f"no Ray cluster answers at '{address}' ({type(error).__name__})") from None
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RunFailed(
            f"Ray could not start on this machine ({why}): leave out --embedders and --engines, "
            "and processes do the same without it"
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
    """An executor for `classify_parquet`; call it inside `connected`."""

    pools: Pools

    def __call__(self, work: Work) -> Iterator[dict[str, Any]]:
        import ray
        from ray.data import ActorPoolStrategy

        _quieten()
        pools = self.pools
        inputs = [{"piece": i} for i in range(len(work.pieces))]
        source, columns, rows, output = work.source, work.columns, work.block_rows, work.output
        pieces = ray.put(work.pieces)

        def read_pieces(batch: Mapping[str, Any]) -> Iterator[dict[str, list[Any]]]:
            # A generator: a row group may be far larger than the blocks it is handed on in.
            for i in batch["piece"]:
                piece: Piece = ray.get(pieces)[int(i)]
                for block in read(source, piece, columns, rows):
                    yield {name: [value] for name, value in block.to_row().items()}

        def write_block(row: Mapping[str, Any]) -> dict[str, Any]:
            return write(Block.from_row(row), output)

        data: Any = ray.data.from_items(inputs, override_num_blocks=min(len(inputs), MOST_INPUT_BLOCKS))
        data = data.map_batches(read_pieces, batch_size=1, num_cpus=READ_CPUS)
        actor: Any = (
            _Actor  # a class of stateful callables, as Ray wants; its annotations know functions only
        )
        for stage, count, cpus, gpus in (
            ((EmbedStage, work.embedder, work.job.settings.allow_remote),
             pools.embedders, pools.embedder_cpus, pools.embedder_gpus),
            ((AnswerStage, ray.put(work.job)), pools.engines, pools.engine_cpus, pools.engine_gpus),
        ):  # fmt: skip
            compute = ActorPoolStrategy(size=count)
            data = data.map(actor, fn_constructor_args=stage, compute=compute, num_cpus=cpus, num_gpus=gpus)
        try:
            yield from data.map(write_block, num_cpus=WRITE_CPUS).iter_rows()
        except ray.exceptions.RayError as error:
            raise RunFailed(
                f"the cluster gave up ({_cause(error)}): what is done is kept, run the same command again"
            ) from None


class _Actor:
    def __init__(self, stage: Any, *arguments: Any) -> None:
        import ray

        self._stage = stage(*(ray.get(a) if isinstance(a, ray.ObjectRef) else a for a in arguments))

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return self._stage(Block.from_row(row)).to_row()


def _quieten() -> None:
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.enable_auto_log_stats = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _cause(error: BaseException) -> str:
    """Our own message where an actor could not be made, else the kind of failure; never a row."""
    ours = [line for line in str(error).splitlines() if "simdx.errors." in line]
    return ours[-1].partition("simdx.errors.")[2].strip() if ours else type(error).__name__
