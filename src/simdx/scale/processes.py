"""The executor on one machine: a few processes, each with the whole recipe, and nothing to install.

A cluster's scheduler brings nothing where there is one machine: it holds cores for itself and copies every
block between its workers. Here a process reads, answers and writes its own blocks. A process that dies takes
with it what it had not written; the others' work stands, and what is missing is done again.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

from simdx.errors import RunFailed
from simdx.scale.blocks import Piece
from simdx.scale.classify import Work, blocks_of
from simdx.scale.stages import AnswerStage, EmbedStage, write

MOST_BLOCKS = 16  # of a task: each task reads its row group from the start
TRIES = 3  # of the pool, when processes in it are killed


@dataclass(frozen=True, slots=True)
class InProcesses:
    """An executor for `classify_parquet`."""

    count: int

    def __call__(self, work: Work) -> Iterator[dict[str, Any]]:
        left = dict(enumerate(tasks(work.pieces, self.count)))
        for _ in range(TRIES):
            # Started anew, not forked: threads of libraries that are loaded here would be lost in a fork.
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.count, fresh, _start, (replace(work, pieces=()),)) as pool:
                asked = {pool.submit(_do, piece): i for i, piece in left.items()}
                try:
                    for done in as_completed(asked):
                        reports = done.result()
                        del left[asked[done]]
                        yield from reports
                except BrokenProcessPool:
                    continue
            return
        raise RunFailed(
            f"worker processes ended {TRIES} times (too little memory?): what is done is kept, run the same "
            "command again, with fewer --cpus"
        )


def tasks(pieces: tuple[Piece, ...], count: int) -> Iterator[Piece]:
    """Pieces cut so that every process has some, and a line of progress is never far."""
    for piece in pieces:
        size = max(1, min(MOST_BLOCKS, len(piece.starts) // (4 * count)))
        for i in range(0, len(piece.starts), size):
            yield replace(piece, starts=piece.starts[i : i + size])


_HERE: dict[str, Any] = {}  # of a worker process: its work and its stages


def _start(work: Work) -> None:
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    embed = EmbedStage(work.embedder, work.job.settings.allow_remote)
    _HERE.update(work=work, embed=embed, answer=AnswerStage(work.job))


def _follow(parent: int) -> None:
    """A worker whose parent was killed has nobody to answer to."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _do(piece: Piece) -> list[dict[str, Any]]:
    work: Work = _HERE["work"]
    embed, answer = _HERE["embed"], _HERE["answer"]
    return [write(answer(embed(block)), work.output) for block in blocks_of(work, (piece,))]
