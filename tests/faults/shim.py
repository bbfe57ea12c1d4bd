"""The preloaded library of `shim.c`: built once per run of the tests, and armed from inside the process."""

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

SOURCE = Path(__file__).with_name("shim.c")
ROOT = SOURCE.parents[2]

# what a call does to the disk
WRITE, CREATE, CHANGE, SYNC, OPEN = 1, 2, 4, 8, 16
ANY = WRITE | CREATE | CHANGE | SYNC | OPEN
# what happens at the k-th one: only counting, death before it, death half-way through a write, failure from
# there on, one failure (a write is then merely cut short, as a signal may cut it)
COUNT, KILL, TEAR, FAIL, FAIL_ONCE = range(5)


@dataclass(frozen=True)
class Shim:
    """The library as seen from inside a process that preloaded it."""

    library: ctypes.CDLL

    @classmethod
    def loaded(cls) -> Self:
        return cls(ctypes.CDLL(os.environ["LD_PRELOAD"]))

    def watch(self, folder: Path) -> None:
        self.library.fault_watch(str(folder).encode())

    def arm(self, at: int, how: int, error: int = 0, kinds: int = ANY) -> None:
        self.library.fault_arm(ctypes.c_long(at), how, error, kinds)

    @property
    def count(self) -> int:
        self.library.fault_count.restype = ctypes.c_long
        return int(self.library.fault_count())


@cache
def built(folder: Path) -> Path | None:
    """The compiled library, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    target = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return target


def environment(library: Path, home: Path) -> dict[str, str]:
    """What a child runs in: one thread everywhere, since it will fork, and a cache folder of its own."""
    quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    source = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    own = {"LD_PRELOAD": str(library), "SIMDX_HOME": str(home), "PYTHONPATH": source}
    kept = {k: v for k, v in os.environ.items() if k not in ("SIMDX_DEBUG", "COVERAGE_PROCESS_START")}
    return {**kept, **quiet, **own, "TOKENIZERS_PARALLELISM": "false"}
