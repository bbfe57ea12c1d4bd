"""Write `lock.txt` and `lock-cuda.txt`: every pinned package with the SHA-256 of every file it may be.

    python requirements/lock.py            writes both locks from constraints.txt      (make lock)

Versions are those of `constraints.txt`; hashes are the package index's own, for all platforms. torch needs
more words. On Linux the index serves a build for CUDA, which brings packages of its own; PyTorch's index
has one for the CPU (`2.13.0+cpu`). Both satisfy `torch==2.13.0`, so the hashes of both are listed, and what
the CUDA build brings stands in `lock-cuda.txt`:

    pip install --require-hashes -r requirements/lock.txt -r requirements/lock-cuda.txt
    pip install --require-hashes -r requirements/lock.txt --extra-index-url https://download.pytorch.org/whl/cpu
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
INDEX = os.environ.get("SIMDX_INDEX", "https://pypi.org/simple")
# Files that satisfy a pin and are not on the index, with where they come from.
ELSEWHERE = {
    "torch": {  # https://download.pytorch.org/whl/cpu
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": (
            "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
        )
    }
}
_LINK = re.compile(r'<a href="[^"#]*/(?P<file>[^"#/]+)#sha256=(?P<sha>[0-9a-f]{64})"')
HEAD = "# Written by requirements/lock.py from constraints.txt: do not edit.\n"


def main() -> None:
    pins = read_pins(FOLDER / "constraints.txt")
    cuda = cuda_pins(pins)
    with ThreadPoolExecutor(8) as pool:
        everything = {**pins, **cuda}
        found = dict(zip(everything, pool.map(hashes, everything, everything.values()), strict=True))
    (FOLDER / "lock.txt").write_text(rendered(pins, found), encoding="utf-8")
    (FOLDER / "lock-cuda.txt").write_text(rendered(cuda, found), encoding="utf-8")
    print(f"{len(pins)} packages in lock.txt, {len(cuda)} more in lock-cuda.txt")


def normal(name: str) -> str:
    """A package's name as indices compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> dict[str, str]:
    """Name → version of every `name==version` line."""
    pins = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, version = line.strip().partition("==")
            pins[normal(name)] = version
    return dict(sorted(pins.items()))


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of every file of that version."""
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as reply:
        page = reply.read().decode("utf-8")
    listed = {html.unescape(m["file"]): m["sha"] for m in _LINK.finditer(page)}
    chosen = {sha for file, sha in listed.items() if version_of(file, name) == version}
    chosen |= {
        sha
        for file, sha in ELSEWHERE.get(name, {}).items()
        if version_of(file, name).split("+")[0] == version
    }
    if not chosen:
        sys.exit(f"the index has no file of {name} {version}")
    return sorted(chosen)


def version_of(file: str, name: str) -> str:
    """The version in a wheel's or source archive's name; other files have none."""
    stem = re.sub(r"(\.tar\.gz|\.zip|\.tar\.bz2)$", "", file)
    if file.endswith(".whl"):
        return file.split("-")[1]
    if stem == file:
        return ""
    # A source archive's name may hold dashes; its version starts after as many of them as the package's has.
    parts = stem.split("-")
    return next(
        ("-".join(parts[i:]) for i in range(1, len(parts)) if normal("-".join(parts[:i])) == name), ""
    )


def cuda_pins(pins: Mapping[str, str]) -> dict[str, str]:
    """What the index's own torch needs on Linux and `constraints.txt` does not pin, from a dry run of pip."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_FIND")}
        subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--isolated",
                "--index-url", INDEX, "-c", str(FOLDER / "constraints.txt"), "--report", str(report),
                f"torch==={pins['torch']}",
            ],
            check=True, env=environment,
        )  # fmt: skip
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    needed = {normal(item["metadata"]["name"]): item["metadata"]["version"] for item in installed}
    return {name: needed[name] for name in sorted(needed) if name not in pins}


def rendered(pins: Mapping[str, str], found: Mapping[str, list[str]]) -> str:
    lines = [HEAD]
    for name, version in pins.items():
        parts = [f"{name}=={version}", *(f"    --hash=sha256:{sha}" for sha in found[name])]
        lines.append(" \\\n".join(parts) + "\n")
    return "".join(lines)


if __name__ == "__main__":
    main()
