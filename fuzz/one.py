"""One target under atheris: `python -m fuzz.one TARGET [libFuzzer options] CORPUS…`.

A process of its own, because libFuzzer ends the process it runs in. Exits 0 when the time is up, 77 on a
traceback, 70 on an input that takes longer than -timeout allows; the input is then kept as an artefact.
TARGET is a name of `fuzz.targets`, or MODULE:FUNCTION.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

import atheris


def main() -> None:
    name = sys.argv[1]
    module, _, function = name.rpartition(":")
    # Our own code and the one parser that is Python: what they branch on is what guides the search.
    with atheris.instrument_imports(include=["simdx", "yaml"]):
        make = getattr(importlib.import_module(module or "fuzz.targets"), function)
        # A scratch folder of its own, which lives as long as the process.
        target = make(Path(tempfile.mkdtemp(prefix="simdx-fuzz-")))
        target(b"")  # imports that wait for their first use happen now, instrumented
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target, enable_python_coverage=True)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
