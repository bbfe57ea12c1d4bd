"""One target under atheris: `python -m fuzz.one TARGET [libFuzzer options] CORPUS…`.

A process of its own, because libFuzzer ends the process it runs in. Exits 0 when the time is up, 77 on a
traceback, 70 on an input that takes longer than -timeout allows; the input is then kept as an artefact.
TARGET is a name of `fuzz.targets`, or MODULE:FUNCTION.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import atheris


def main() -> None:
    name = sys.argv[1]
    # Our own code and the one parser that is Python: what they branch on is what guides the search.
    with atheris.instrument_imports(include=["simdx", "yaml"]):
        ready, make = _found(name)
        target = ready(make)
        target(b"")  # imports that wait for their first use happen now, instrumented
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target, enable_python_coverage=True)
    atheris.Fuzz()


def _found(name: str) -> tuple[Callable, Callable[[Path], Callable[[bytes], None]]]:
    targets = importlib.import_module("fuzz.targets")
    if ":" not in name:
        return targets.ready, targets.TARGETS[name]
    module, function = name.split(":")
    return targets.ready, getattr(importlib.import_module(module), function)


if __name__ == "__main__":
    main()
